#!/bin/sh
# Proves that the random schedules of the hand-off bite; see plant.sh.
# usage: tests/mutants/handoff/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" handoff "$@"
