#!/usr/bin/env bash
# tests/images/debian.sh NAME [SUITE]: give the Docker engine a base image NAME that is made of Debian's packages.
#
# It stands in for the default base of the Dockerfile where no image can be pulled:
#   tests/images/debian.sh debian-stand-in
#   DOCKER_BUILDKIT=1 docker build --build-arg BASE=debian-stand-in -t mirror .
set -eu -o pipefail
name=${1:?usage: tests/images/debian.sh NAME [SUITE]}
command -v mmdebstrap >/dev/null || { echo "no mmdebstrap: apt-get install mmdebstrap" >&2; exit 1; }
mmdebstrap --quiet --variant=minbase "${2:-bookworm}" - | docker import - "$name"
