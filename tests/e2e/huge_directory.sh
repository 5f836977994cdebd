#!/bin/bash
# One directory with very many entries: servers and mount keep to little memory while it is made and listed, and each
# name is listed once. PANDOFS_RUNS=N is how many entries.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

ENTRIES=${PANDOFS_RUNS:-100000}
WORKERS=4
# MiB.
SERVER=1024
MOUNT=100

start_cluster

# most PID: in MiB.
most() {
    awk '$1 == "VmHWM:" { print int($2 / 1024) }' "/proc/$1/status"
}

mkdir "$MNT/huge"
cat >"$SCRATCH/make.py" <<'PYTHON'
import os, sys
folder, worker, workers, entries = sys.argv[1], *map(int, sys.argv[2:])
os.chdir(folder)
for number in range(worker, entries, workers):
    os.mknod(f"entry-{number:08}")
PYTHON
workers=()
for ((worker = 0; worker < WORKERS; worker++)); do
    python3 "$SCRATCH/make.py" "$MNT/huge" "$worker" "$WORKERS" "$ENTRIES" >"$SCRATCH/worker-$worker" 2>&1 &
    workers+=("$!")
    started+=("$!")
done
for worker in "${workers[@]}"; do
    PATIENCE=$((60 + ENTRIES / 500)) wait_for_end "$worker"
    [[ $CODE -eq 0 ]] || fail "a worker ended with $CODE: $(cat "$SCRATCH"/worker-*)"
done
say "made $ENTRIES entries in $SECONDS s"

find "$MNT/huge" -mindepth 1 -printf '%f\n' >"$SCRATCH/listed"
LC_ALL=C sort -T "$SCRATCH" "$SCRATCH/listed" >"$SCRATCH/sorted"
seq -f 'entry-%08.0f' 0 $((ENTRIES - 1)) >"$SCRATCH/expected"
cmp "$SCRATCH/sorted" "$SCRATCH/expected" || fail 'the directory is listed otherwise than it was made'
expect_equal 'entries as status has it' "$("$PANDOFS" dir --data "$DATA" /huge --json |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["entries"])')" "$ENTRIES"

for ((server = 0; server < 4; server++)); do
    took=$(most "$(server_pid "$server")")
    say "server $server took $took MiB"
    expect_below "MiB that server $server took" "$took" "$SERVER"
done
took=$(most "$(cat "$DATA/mount.pid")")
say "the mount took $took MiB"
expect_below 'MiB that the mount took' "$took" "$MOUNT"
stop_cluster
