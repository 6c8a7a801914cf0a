#!/usr/bin/env bash
# Real processes (downing must-show): SIGKILL of a node until the first answer of an entity that lived there, twenty times.
# Prints every time, median and worst; exit code 1 if the worst is above the aim (6 s with the timings for one machine, 30 s with the
# documented defaults) or an answer was wrong.
# usage: tests/chaos/kills.sh [--default-profile] [--side-by-side N] [--runs N]        uses ports from 28100 of 127.0.0.1
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release -p quorate-soak --bin chaos || exit 2
exec "${CARGO_TARGET_DIR:-target}/release/chaos" kills "$@"
