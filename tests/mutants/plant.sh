#!/bin/sh
# Proves that tests bite: plants each bug of one folder in a scratch copy of HEAD, runs the command that the patch names after
# "Caught by:", and expects tests to fail or seeds to break an invariant. Exit code 0 only if every bug is caught (and, first, if the
# unchanged code passes).
# usage: tests/mutants/plant.sh FOLDER [PATCH...]     default: all patches of the folder; MUTANTS_TARGET_DIR=DIR (default: target/mutants)
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
folder="$root/tests/mutants/$1"
shift
# What is named is what stands there, not what HEAD has of it.
for patch in "$@"; do
    shift
    set -- "$@" "$(cd "$(dirname "$patch")" && pwd)/$(basename "$patch")"
done
export CARGO_TARGET_DIR="${MUTANTS_TARGET_DIR:-$root/target/mutants}"
# One place for all runs, so that a patch compiles what it changes and no more.
tree="$CARGO_TARGET_DIR/tree"
mkdir -p "$CARGO_TARGET_DIR"
exec 9> "$CARGO_TARGET_DIR/mutants.lock"
flock -n 9 || { echo "mutants: another run has $CARGO_TARGET_DIR" >&2; exit 1; }
scratch=$(mktemp -d)
cleanup() {
    git -C "$root" worktree remove --force "$tree" 2>/dev/null || true
    rm -rf "$scratch" "$tree"
}
trap cleanup EXIT
trap 'exit 130' INT TERM
rm -rf "$tree"
git -C "$root" worktree prune
git -C "$root" worktree add -q --detach "$tree" HEAD
cd "$tree"
export CARGO_INCREMENTAL=1 CARGO_PROFILE_DEV_DEBUG=none
# Unit tests take seconds: compiling the core is what a patch costs. Seeds are worth optimising.
cargo=
if [ -n "${MUTANTS_CORE_OPT_LEVEL:-}" ]; then
    cargo="cargo() { command cargo --config profile.dev.package.quorate-core.opt-level=$MUTANTS_CORE_OPT_LEVEL \"\$@\"; }; "
fi

# A patch's command; the commands are ours, from these folders.
command_of() { sed -n 's/^Caught by: //p' "$1"; }

[ $# -gt 0 ] || set -- "$folder"/*.patch
commands="$(for patch in "$@"; do command_of "$patch"; done | sort -u)"
while IFS= read -r command; do
    if ! sh -ec "$cargo$command" > "$scratch/out" 2>&1 < /dev/null; then
        cat "$scratch/out" >&2
        echo "mutants: the unchanged code fails; nothing can be learned from mutants" >&2
        exit 1
    fi
done <<END
$commands
END
missed=0
for patch in "$@"; do
    name=$(basename "$patch" .patch)
    git apply "$patch"
    if sh -ec "$cargo$(command_of "$patch")" > "$scratch/out" 2>&1 < /dev/null; then
        echo "MISSED  $name"
        missed=$((missed + 1))
    elif found=$(grep -m1 '^test result: FAILED' "$scratch/out"); then
        first=$(sed -n 's/^    \([a-z_]*::[a-z0-9_:]*\)$/\1/p' "$scratch/out" | head -n1)
        echo "caught  $name: $first (${found#test result: FAILED. })"
    elif found=$(grep -m1 '^VIOLATION' "$scratch/out"); then
        echo "caught  $name: $(printf '%.160s' "$found")"
    elif found=$(grep -m1 -A1 'panicked at' "$scratch/out"); then
        echo "caught  $name: by an assertion: $(printf '%s' "$found" | tail -n1 | cut -c 1-160)"
    else
        cat "$scratch/out" >&2
        echo "ERROR   $name: does not compile" >&2
        exit 1
    fi
    git checkout -q -- .
done
if [ "$missed" -gt 0 ]; then
    echo "mutants: $missed not caught" >&2
    exit 1
fi
echo "mutants: all $# caught"
