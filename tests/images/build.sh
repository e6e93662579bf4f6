#!/usr/bin/env bash
# tests/images/build.sh NAME: build mirror's image as NAME, also where no image can be pulled.
#
# The base is then made of Debian's packages (tests/images/debian.sh). What this machine's pip is told about a package
# index and its certificates goes to the build as secrets, which leave nothing in the image. DOCKER names another client.
set -eu -o pipefail
cd "$(dirname "$0")/../.."
name=${1:?usage: tests/images/build.sh NAME}
docker=${DOCKER:-docker}
base=$(sed -n 's/^ARG BASE=//p' Dockerfile)
secrets=$(mktemp -d)
trap 'rm -rf "$secrets"' EXIT

if ! "$docker" image inspect "$base" >/dev/null 2>&1 && ! "$docker" pull --quiet "$base" >/dev/null 2>&1; then
  base=mirror-base-stand-in
  "$docker" image inspect "$base" >/dev/null 2>&1 || tests/images/debian.sh "$base"
fi

# What pip is told by its files or by the environment.
told() {
  local variable=PIP_$2
  if [ -n "${!variable-}" ]; then echo "${!variable}"; else python3 -m pip config get "global.$1" 2>/dev/null || true; fi
}
index=$(told index-url INDEX_URL) certificates=$(told cert CERT)
{
  echo '[global]'
  if [ -n "$index" ]; then echo "index-url = $index"; fi
  if [ -n "$certificates" ]; then echo 'cert = /run/secrets/certificates'; fi
} >"$secrets/pip.conf"
cat ${certificates:+"$certificates"} >"$secrets/certificates" </dev/null

DOCKER_BUILDKIT=1 "$docker" build --progress plain --build-arg BASE="$base" \
  --build-arg VERSION="$(sed -n 's/^__version__ = "\(.*\)"/\1/p' mirror/__init__.py)" \
  --build-arg REVISION="$(git rev-parse HEAD 2>/dev/null || echo unknown)" \
  --secret id=pip,src="$secrets/pip.conf" --secret id=certificates,src="$secrets/certificates" -t "$name" .
