#!/bin/sh
# Proves that the campaign of the profile `durable` bites; see plant.sh.
# usage: tests/mutants/durable/run.sh [PATCH...]     default: all
exec "$(dirname "$0")/../plant.sh" durable "$@"
