#!/bin/sh
# Proves that the campaign of the profile `paths` bites; see plant.sh.
# usage: tests/mutants/paths/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" paths "$@"
