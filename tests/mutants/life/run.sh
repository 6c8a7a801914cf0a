#!/bin/sh
# Proves that the campaign of the profile `life` bites; see plant.sh.
# usage: tests/mutants/life/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" life "$@"
