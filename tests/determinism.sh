#!/bin/sh
# The same seeds give the same traces in a debug and in a release build, and twice in a row (I-97).
# usage: tests/determinism.sh [SEEDS]     SEEDS as for the sim program, default 0..20
# SIM_DEBUG and SIM_RELEASE name programs that are built already.
set -eu
cd "$(dirname "$0")/.."
seeds=${1:-0..20}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
sim_debug=${SIM_DEBUG:-cargo run -q -p quorate-tests --bin sim --}
sim_release=${SIM_RELEASE:-cargo run -q --release -p quorate-tests --bin sim --}
# Unquoted on purpose: a command with its arguments, or a path of ours.
run() { "$@" --seeds "$seeds" --hash | grep '^seed ' | sort; }
run $sim_debug > "$out/debug"
run $sim_release > "$out/release"
run $sim_release > "$out/again"
if cmp -s "$out/debug" "$out/release" && cmp -s "$out/release" "$out/again"; then
    echo "determinism: $(wc -l < "$out/debug") seeds, the same traces in debug, in release and again in release"
else
    echo "determinism: traces differ" >&2
    diff "$out/debug" "$out/release" >&2 || true
    diff "$out/release" "$out/again" >&2 || true
    exit 1
fi
