#!/usr/bin/env bash
# Real processes (membership must-show): a node stopped with SIGSTOP for 2 s is not removed, and a killed node that comes back on
# its port replaces its old incarnation. Prints what was seen and after how long; exit code 1 if anything else was seen.
# usage: tests/chaos/restart_and_pause.sh        needs cargo, bash, awk and date; uses ports 27551 to 27553 of 127.0.0.1
set -u
cd "$(dirname "$0")/../.."
cargo build --quiet --release -p quorate-demo --bin node || exit 2
node=${CARGO_TARGET_DIR:-target}/release/node
logs=$(mktemp -d)
declare -A pid
cleanup() {
    for p in "${pid[@]}"; do
        kill -CONT "$p" 2>/dev/null
        kill -KILL "$p" 2>/dev/null
    done
    wait 2>/dev/null
    rm -rf "$logs"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

now() { date +%s%N; }
since() { awk -v from="$1" -v to="$(now)" 'BEGIN { printf "%.1f s", (to - from) / 1e9 }'; }

start() { # number
    local seeds=()
    for n in 1 2 3; do seeds+=(--seed "127.0.0.1:2755$n"); done
    stdbuf -oL "$node" --bind "127.0.0.1:2755$1" "${seeds[@]}" --fast >>"$logs/$1" 2>>"$logs/$1.err" &
    pid[$1]=$!
}

lines() { # number, word, about: how many such lines node `number` has printed
    grep -c "^$2 127.0.0.1:2755$3\$" "$logs/$1" 2>/dev/null || true
}

failed() {
    echo "FAILED: $1"
    for n in 1 2 3; do
        sed "s/^/  node $n: /" "$logs/$n" "$logs/$n.err" 2>/dev/null
    done
    exit 1
}

await() { # what, seconds, number, word, about, count
    local begin deadline
    begin=$(now)
    deadline=$((SECONDS + $2))
    until [ "$(lines "$3" "$4" "$5")" -ge "$6" ]; do
        [ $SECONDS -lt $deadline ] || failed "$1 not seen within $2 s"
        sleep 0.05
    done
    printf '%-58s %s\n' "$1" "$(since "$begin")"
}

begin=$(now)
for n in 1 2 3; do start $n; done
for n in 1 2 3; do for other in 1 2 3; do await "node $n sees node $other up" 20 $n up $other 1 >/dev/null; done; done
printf '%-58s %s\n' "three nodes are up everywhere" "$(since "$begin")"

kill -STOP "${pid[3]}"
sleep 2
kill -CONT "${pid[3]}"
await "node 1 finds the stopped node 3 reachable again" 10 1 reachable 3 1
sleep 4 # longer than the stable period: whoever wanted to remove it would have
for n in 1 2 3; do for other in 1 2 3; do
    [ "$(lines $n removed $other)" -eq 0 ] || failed "node $n removed node $other after a pause of 2 s"
done; done
for n in 1 2 3; do kill -0 "${pid[$n]}" 2>/dev/null || failed "node $n ended"; done
echo "nobody was removed because of a pause of 2 s"

kill -KILL "${pid[2]}"
wait "${pid[2]}" 2>/dev/null
start 2
await "node 1 sees the old incarnation of node 2 removed" 20 1 removed 2 1
await "node 1 sees the new incarnation of node 2 up" 20 1 up 2 2
await "node 3 sees the new incarnation of node 2 up" 20 3 up 2 2
await "the new incarnation itself is up" 20 2 up 2 2

for n in 1 2 3; do kill -TERM "${pid[$n]}"; done
for n in 1 2 3; do wait "${pid[$n]}" || failed "node $n ended with exit code $?"; done
echo "all three left in good order"
