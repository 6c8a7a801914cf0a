#!/usr/bin/env bash
# Real processes (singletons must-show): the oldest of five nodes is killed, twenty times, and the clock runs until the next instance of
# the singleton answers; then the oldest leaves, twenty times, under 250 asks per second. Prints every time, median and worst, beside the
# sum of the configured waits; exit code 1 if the worst is above the aim, two instances answered at once, an answer was wrong, or an ask had
# neither answer nor error. usage: tests/chaos/oldest.sh [--default-profile] [--side-by-side N] [--runs N]        uses ports from
# 28100 of 127.0.0.1
set -eu
cd "$(dirname "$0")/../.."
cargo build --quiet --release -p quorate-soak --bin chaos || exit 2
chaos=${CARGO_TARGET_DIR:-target}/release/chaos
"$chaos" kills --singleton "$@"
exec "$chaos" leaves "$@"
