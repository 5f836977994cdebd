#!/bin/bash
# Servers and mounts on several machines, each with an address of its own, set up by hand as 'pandofs format --help' has it:
# network namespaces that are connected by a switch. A cable is pulled, a server is killed, a machine joins, and those who
# work see no error.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $EUID -eq 0 ]] || skip 'only root makes network namespaces'
# In the names of what all tests share.
NET=pandofs$$
# Each with a folder, in which it has what it would have on its disk.
MACHINES=(a b c d)
FILES=6000

remove_machines() {
    local machine
    stop_what_was_started
    for machine in switch "${MACHINES[@]}"; do
        ip netns delete "$NET-$machine" 2>/dev/null || true
    done
}
trap remove_machines EXIT

# on MACHINE COMMAND...
on() {
    local machine=$1
    shift
    (cd "$SCRATCH/$machine" && exec nsenter --net="/run/netns/$NET-$machine" "$@")
}

# As `on`, and goes on at once; the process is then $STARTED and says what it says in MACHINE/log.txt.
start_on() {
    local machine=$1
    shift
    (cd "$SCRATCH/$machine" && exec nsenter --net="/run/netns/$NET-$machine" "$@" >>log.txt 2>&1) &
    STARTED=$!
    started+=("$STARTED")
}

says() {
    grep -q "$2" "$SCRATCH/$1/log.txt"
}

ip netns add "$NET-switch" 2>"$SCRATCH/ip.txt" || skip "no network namespaces: $(cat "$SCRATCH/ip.txt")"
ip -n "$NET-switch" link add bridge type bridge
ip -n "$NET-switch" link set bridge up
number=0
for machine in "${MACHINES[@]}"; do
    number=$((number + 1))
    mkdir "$SCRATCH/$machine"
    ip netns add "$NET-$machine"
    ip -n "$NET-switch" link add "to-$machine" type veth peer name eth0 netns "$NET-$machine"
    ip -n "$NET-switch" link set "to-$machine" master bridge up
    ip -n "$NET-$machine" address add "10.77.0.$number/24" dev eth0
    ip -n "$NET-$machine" link set lo up
    ip -n "$NET-$machine" link set eth0 up
done

# Servers on a and b, and a mount on d; c joins later.
on d "$PANDOFS" format --cluster cluster.json --threshold 500 --servers tcp:10.77.0.1:7400,tcp:10.77.0.2:7400
for machine in a b; do
    cp "$SCRATCH/d/cluster.json" "$SCRATCH/$machine"
done
declare -A id=([a]=0 [b]=1 [c]=2) process
serve_on() {
    start_on "$1" "$PANDOFS" serve --cluster cluster.json --id "${id[$1]}" --data server
    process[$1]=$STARTED
}
for machine in a b; do
    on "$machine" "$PANDOFS" format --cluster cluster.json --id "${id[$machine]}" --data server
    serve_on "$machine"
done
mkdir "$MNT"
start_on d "$PANDOFS" mount --cluster cluster.json "$MNT"
mount=$STARTED
wait_until 'the mount' says d ' mounted mountpoint='

mkdir "$MNT/many" "$MNT/used"
(cd "$MNT/many" && seq -f 'file-%.0f' "$FILES" | xargs touch)
head -c 5000000 /dev/urandom >"$SCRATCH/large"
cp "$SCRATCH/large" "$MNT/large"
counts() {
    on d "$PANDOFS" status --cluster cluster.json --json | jq -c '[.servers[].entries]'
}
for server in 0 1; do
    expect_above "entries on server $server" "$(counts | jq ".[$server]")" $((FILES / 3))
done
say "entries of the servers: $(counts)"

# From here on somebody works on the mount until the end, and must see no error.
worker() {
    local number=0
    set -e
    while [[ ! -e $SCRATCH/stop ]]; do
        number=$((number + 1))
        echo "$number" >"$MNT/used/new-$number"
        mv "$MNT/used/new-$number" "$MNT/used/kept-$number"
        [[ $(<"$MNT/used/kept-$number") == "$number" ]]
        mkdir "$MNT/used/dir-$number"
        rmdir "$MNT/used/dir-$number"
        echo "$number" >"$SCRATCH/at"
    done
}
worker 2>"$SCRATCH/worker.txt" &
worker=$!
started+=("$worker")
at() {
    cat "$SCRATCH/at" 2>/dev/null || echo 0
}
has_come_to() {
    [[ $(at) -ge $1 ]] || has_ended "$worker"
}
goes_on() {
    wait_until 'the worker to go on' has_come_to $(($(at) + 100))
}
goes_on

# The cable of b's machine is pulled until the mount has noticed.
ip -n "$NET-switch" link set to-b down
wait_until 'the mount to miss server 1' says d 'server 1 .*does not answer'
ip -n "$NET-switch" link set to-b up
wait_until 'server 1 to answer again' says d 'server 1 .*answers again'
goes_on
say "a cable was pulled and put back; $(at) rounds of work"

# A third machine joins, as 'pandofs server --help' has it.
on d "$PANDOFS" server add --cluster cluster.json --servers tcp:10.77.0.3:7400
cp "$SCRATCH/d/cluster.json" "$SCRATCH/c"
on c "$PANDOFS" format --cluster cluster.json --id 2 --data server
serve_on c
wait_until 'server 2 to serve' says c 'server 2 serves'
on d "$PANDOFS" server announce --cluster cluster.json
epochs() {
    on d "$PANDOFS" status --cluster cluster.json --json | jq -c '[.servers[].epoch] | unique'
}
expect_equal 'cluster maps in force' "$(epochs)" '[2]'
goes_on
many_on_c() {
    on d "$PANDOFS" dir --cluster cluster.json --json /many | jq '[.parts[] | select(.server == 2).entries] | add // 0'
}
expect_equal 'entries of the large directory on server 2' "$(many_on_c)" 0

# Entries that it moves in a second, on average.
RATE=1000
began=$(date +%s%N)
report=$(on d "$PANDOFS" rebalance --cluster cluster.json --rate "$RATE" --json)
took=$((($(date +%s%N) - began) / 1000000))
moved=$(jq .moved <<<"$report")
say "rebalance: $(jq -c . <<<"$report") in $took ms"
expect_above 'entries that moved' "$moved" $((FILES / 6))
expect_above 'entries of the large directory on server 2' "$(many_on_c)" $((FILES / 6))
expect_above 'milliseconds that it took' "$took" $((moved * 1000 / RATE - 1))
goes_on

# A server keeps the new map, and goes by it when it starts again with the file that it had.
kill -KILL "${process[a]}"
wait_until 'the end of server 0' has_ended "${process[a]}"
serve_on a
goes_on
expect_equal 'cluster maps in force' "$(epochs)" '[2]'

touch "$SCRATCH/stop"
wait_for_end "$worker"
expect_equal "the worker's end" "$CODE$(cat "$SCRATCH/worker.txt")" 0
expect_equal 'files that were made' "$(ls "$MNT/used" | wc -l)" "$(at)"
expect_equal 'files of before' "$(ls "$MNT/many" | wc -l)" "$FILES"
cmp "$SCRATCH/large" "$MNT/large"
expect 'fsck of the running cluster' on d "$PANDOFS" fsck --cluster cluster.json

umount "$MNT"
wait_for_end "$mount"
expect_equal "the mount's end" "$CODE" 0
stopped=()
for machine in a b c; do
    kill -TERM "${process[$machine]}"
    wait_for_end "${process[$machine]}"
    expect_equal "the end of the server on $machine" "$CODE" 0
    stopped+=(--server-data "$SCRATCH/$machine/server")
done
expect 'fsck of the stopped cluster' "$PANDOFS" fsck --offline --cluster "$SCRATCH/d/cluster.json" "${stopped[@]}"
