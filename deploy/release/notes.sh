#!/usr/bin/env bash
# deploy/release/notes.sh TAG: print what the changelog says of the release with this tag.
#
# Fails unless TAG is v<version>, and the changelog gives that version a date.
set -eu
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' mirror/__init__.py)
section="^## \[${version//./\\.}\] - [0-9]{4}-[0-9]{2}-[0-9]{2}$"
if [ "$1" != "v$version" ]; then
  echo "the tag is $1, and mirror/__init__.py has the version $version: the tag has to be v$version" >&2
  exit 1
fi
if ! grep -Eq "$section" CHANGELOG.md; then
  echo "CHANGELOG.md has no date for $version: give it one, and commit before you set the tag" >&2
  exit 1
fi
sed -En "/$section/,/^## /{/^## /d;p}" CHANGELOG.md
