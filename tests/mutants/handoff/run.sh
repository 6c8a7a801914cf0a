#!/bin/sh
# Proves that the random schedules of the hand-off bite; see plant.sh.
# usage: tests/mutants/handoff/run.sh [PATCH...]     default: all
export MUTANTS_CORE_OPT_LEVEL=0
exec "$(dirname "$0")/../plant.sh" handoff "$@"
