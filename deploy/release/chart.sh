#!/usr/bin/env bash
# deploy/release/chart.sh HELM FOLDER: package the chart into FOLDER. If IMAGE is set, its pods run that image.
set -eu
helm=$1 folder=$(realpath "$2")
cd "$(dirname "$0")/.."
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -RL chart "$copy"
if [ -n "${IMAGE-}" ]; then
  sed "/^image:/,/^  repository:/s|^  repository:.*|  repository: $IMAGE|" chart/values.yaml >"$copy/chart/values.yaml"
fi
"$helm" package "$copy/chart" --destination "$folder"
