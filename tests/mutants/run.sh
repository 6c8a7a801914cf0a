#!/bin/sh
# Proves that the simulator's invariants bite: plants each bug of this folder in a scratch copy of HEAD, runs seeds, and
# expects a violation. Exit code 0 only if every bug is caught (and, first, if the unchanged code breaks nothing).
# usage: tests/mutants/run.sh [PATCH...]     default: all; SEEDS=A..B (default 0..200), PF_SEEDS=A..B (default 0..1000, for the
#        patches named pf-*), PROFILE=release|dev
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
seeds=${SEEDS:-0..200}
profile=${PROFILE:-release}
scratch=$(mktemp -d)
cleanup() {
    git -C "$root" worktree remove --force "$scratch/tree" 2>/dev/null || true
    rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
git -C "$root" worktree add -q --detach "$scratch/tree" HEAD
cd "$scratch/tree"
export CARGO_TARGET_DIR="${MUTANTS_TARGET_DIR:-$root/target/mutants}"
sim() { cargo run -q --profile "$profile" -p quorate-tests --bin sim -- "$@"; }

if [ $# -eq 0 ]; then
    set -- "$root"/tests/mutants/*.patch
    if ! sim --seeds 0..20 > "$scratch/out"; then
        grep -E '^(VIOLATION|replay)' "$scratch/out" >&2
        echo "mutants: the unchanged code breaks an invariant; nothing can be learned from mutants" >&2
        exit 1
    fi
fi
missed=0
for patch in "$@"; do
    name=$(basename "$patch" .patch)
    git apply "$(cd "$(dirname "$patch")" && pwd)/$(basename "$patch")"
    if ! cargo build -q --profile "$profile" -p quorate-tests --bin sim 2>"$scratch/err"; then
        cat "$scratch/err" >&2
        echo "ERROR   $name: does not compile" >&2
        exit 1
    fi
    # The pitfalls of membership (PF) are looked for in the membership campaign, the rest with entities.
    case $name in
        pf-*) set_of="${PF_SEEDS:-0..1000}"; options="--profile membership --mix" ;;
        # It takes a leader that is heard to have left and whose last state is not: this seed has one.
        successor-*) set_of=920006510; options="--profile data --mix" ;;
        *) set_of=$seeds; options="" ;;
    esac
    # shellcheck disable=SC2086
    if sim $options --seeds "$set_of" > "$scratch/out" 2>"$scratch/err"; then
        echo "MISSED  $name: no violation in seeds $set_of"
        missed=$((missed + 1))
    elif found=$(grep -m1 '^VIOLATION' "$scratch/out"); then
        echo "caught  $name: $(printf '%.160s' "$found")"
    elif found=$(grep -m1 'panicked' "$scratch/err"); then
        echo "caught  $name: by an assertion of the core: $(printf '%.120s' "$found")"
    else
        echo "ERROR   $name: the simulator failed without a violation" >&2
        cat "$scratch/err" >&2
        missed=$((missed + 1))
    fi
    git checkout -q -- .
done
if [ "$missed" -gt 0 ]; then
    echo "mutants: $missed not caught" >&2
    exit 1
fi
echo "mutants: all $# caught"
