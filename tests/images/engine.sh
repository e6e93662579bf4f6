#!/usr/bin/env bash
# tests/images/engine.sh COMMAND...: run COMMAND while a Docker engine answers.
#
# If none does, this starts Debian's as root, after installing it if need be, and stops it when COMMAND has ended. Where
# no engine can run, COMMAND runs without: the tests that need one say why they are skipped (tests/harness/containers.py).
set -u
log=$(mktemp) engine=

stop() {
  if [ -n "$engine" ] && kill "$engine" 2>/dev/null; then wait "$engine"; fi
  rm -f "$log"
}

answers() { docker version >/dev/null 2>&1; }

# Until it answers, has ended, or a minute is over.
start() {
  dockerd >"$log" 2>&1 &
  engine=$!
  for ((i = 0; i < 300; i++)); do
    answers && return
    kill -0 "$engine" 2>/dev/null || break
    sleep 0.2
  done
  printf 'dockerd does not start:\n%s\n' "$(tail -n 5 "$log")" >&2
}

if ! answers && [ "$(id -u)" = 0 ]; then
  if ! command -v dockerd >/dev/null && command -v apt-get >/dev/null; then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends docker.io >/dev/null
  fi
  trap stop EXIT
  if command -v dockerd >/dev/null; then start; fi
fi
"$@"
