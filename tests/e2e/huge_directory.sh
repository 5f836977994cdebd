#!/bin/bash
# One directory with very many entries: servers and mount keep to little memory while it is made, listed with
# attributes and without, and removed; each name is listed once. PANDOFS_RUNS=N is how many entries; millions of them
# take longer than PANDOFS_LIMIT unless that is set, too.
# long
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

ENTRIES=${PANDOFS_RUNS:-100000}
WORKERS=4
# What a server may take, in MiB: 45 of its own, as much for caches that fill with any work, some 30 to spare, and 350
# bytes for each entry of its quarter; but never more than 1,024. So 100,000 entries may not take what millions may.
# They took 96 at most; 5,000,000 took 314 until they were listed, and 407 while they were removed.
SERVER=$((120 + ENTRIES / 4 * 350 / (1 << 20)))
[[ $SERVER -lt 1024 ]] || SERVER=1024
# The mount: some 30 MiB of its own, and what it believes (docs/operations.md) and needs besides. 100 are promised, however many there
# are: 100,000 entries took 89 at most, 5,000,000 took 86.
MOUNT=100
# Anything may take as long here.
PATIENCE=$((120 + ENTRIES / 250))

start_cluster
PIDS=("$(server_pid 0)" "$(server_pid 1)" "$(server_pid 2)" "$(server_pid 3)" "$(cat "$DATA/mount.pid")")

# most PID: in MiB, since it was last asked to forget.
most() {
    awk '$1 == "VmHWM:" { print int($2 / 1024) }' "/proc/$1/status"
}

# begin: what is told of a phase begins here.
begin() {
    local pid
    for pid in "${PIDS[@]}"; do
        echo 5 >"/proc/$pid/clear_refs"
    done
    BEGAN=$SECONDS
}

# end PHASE: how long it took, and the most memory that each server and the mount took in it.
end() {
    local took=$((SECONDS - BEGAN)) server of_servers=() of_mount
    for ((server = 0; server < 4; server++)); do
        of_servers+=("$(most "${PIDS[server]}")")
    done
    of_mount=$(most "${PIDS[4]}")
    say "$1: $took s; servers ${of_servers[*]} MiB, mount $of_mount MiB"
    for ((server = 0; server < 4; server++)); do
        expect_below "MiB that server $server took, $1" "${of_servers[server]}" "$SERVER"
    done
    expect_below "MiB that the mount took, $1" "$of_mount" "$MOUNT"
}

begin
end 'serving nothing'

mkdir "$MNT/huge"
cat >"$SCRATCH/make.py" <<'PYTHON'
import os, sys
folder, worker, workers, entries = sys.argv[1], *map(int, sys.argv[2:])
os.chdir(folder)
for number in range(worker, entries, workers):
    os.mknod(f"entry-{number:08}")
PYTHON
begin
workers=()
for ((worker = 0; worker < WORKERS; worker++)); do
    python3 "$SCRATCH/make.py" "$MNT/huge" "$worker" "$WORKERS" "$ENTRIES" >"$SCRATCH/worker-$worker" 2>&1 &
    workers+=("$!")
    started+=("$!")
done
for worker in "${workers[@]}"; do
    wait_for_end "$worker"
    [[ $CODE -eq 0 ]] || fail "a worker ended with $CODE: $(cat "$SCRATCH"/worker-*)"
done
end "made $ENTRIES entries"

begin
find "$MNT/huge" -mindepth 1 -printf '%f\n' >"$SCRATCH/found"
end 'found'
sort -T "$SCRATCH" "$SCRATCH/found" >"$SCRATCH/sorted"
seq -f 'entry-%08.0f' 0 $((ENTRIES - 1)) >"$SCRATCH/expected"
cmp "$SCRATCH/sorted" "$SCRATCH/expected" || fail 'the directory is listed otherwise than it was made'

# It asks for the attributes of each, which the mount then believes for a while.
begin
ls -l "$MNT/huge" >"$SCRATCH/listed"
end 'listed'
tail -n +2 "$SCRATCH/listed" | awk '{ print $1, $2, $5, $NF }' >"$SCRATCH/attributes"
sed 's/^/-rw------- 1 0 /' "$SCRATCH/expected" >"$SCRATCH/expected-attributes"
cmp "$SCRATCH/attributes" "$SCRATCH/expected-attributes" || fail 'ls -l lists otherwise than it was made'
expect_equal 'entries as status has it' "$("$PANDOFS" dir --data "$DATA" /huge --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["entries"])')" "$ENTRIES"

begin
check_online
end 'checked'

begin
rm -r "$MNT/huge"
end 'removed'
expect_equal 'what is left' "$(ls -A "$MNT")" ''
stop_cluster
