#!/usr/bin/env bash
# tests/images/debian.sh NAME [SUITE]: give the Docker engine a base image NAME that is made of Debian's packages.
#
# It stands in for the default base of the Dockerfile where no image can be pulled:
#   tests/images/debian.sh debian-stand-in
#   DOCKER_BUILDKIT=1 docker build --build-arg BASE=debian-stand-in -t mirror .
#
# Making it takes a minute. The cache keeps it; to have newer packages in it, delete the file there and the image.
set -eu -o pipefail
name=${1:?usage: tests/images/debian.sh NAME [SUITE]}
suite=${2:-bookworm}
cache=${MIRROR_CACHE:-.cache}
kept=$cache/debian-$suite-$(dpkg --print-architecture).tar
if [ ! -f "$kept" ]; then
  command -v mmdebstrap >/dev/null || { echo "no mmdebstrap: apt-get install mmdebstrap" >&2; exit 1; }
  mkdir -p "$cache"
  # As Debian's own slim image: without documentation, and with no package lists.
  mmdebstrap --quiet --variant=minbase --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin' "$suite" "$kept.part.tar"
  mv "$kept.part.tar" "$kept"
fi
docker import "$kept" "$name" >/dev/null
