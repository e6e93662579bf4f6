#!/usr/bin/env bash
# tests/kube/images.sh FILE: save the images that the pods of try_node.py have, mirror's own among them, in FILE.
#
# A pod's first container holds its network and sleeps. It is made of mirror's image, because none can be pulled.
set -eu -o pipefail
tests/images/build.sh mirror-test
docker=${DOCKER:-docker}
printf 'FROM mirror-test\nENTRYPOINT ["sleep", "infinity"]\n' | "$docker" build --quiet --tag mirror-pause - >/dev/null
"$docker" save --output "$1" mirror-test mirror-pause
