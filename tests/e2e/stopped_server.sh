#!/bin/bash
# A server is stopped while more programs write to it than the mount has threads, over connections that there are: what they
# send is not answered, and where a socket may take less than 1 MiB (net.core.wmem_max) not even taken. Others are served,
# who is killed ends, and the rest goes on.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

WRITERS=20
# Seconds. Less than the 30 after which a connection is given up that takes nothing.
SOON=15

cat >"$SCRATCH/write.py" <<'PYTHON'
import mmap, os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_DIRECT)
data = mmap.mmap(-1, 1 << 20)
while not os.path.exists(sys.argv[2]):
    for place in range(8):
        os.pwrite(file, data, place << 20)
PYTHON

has_written() {
    [[ $(awk '$1 == "wchar:" { print $2 }' "/proc/$1/io") -gt $((16 << 20)) ]]
}

start_cluster --no-restart
echo small >"$MNT/small"
home=$("$PANDOFS" dir --data "$DATA" --json / | jq '.parts[] | select(.partitions | index(0)) | .server')
victim=$(((home + 1) % 4))
writers=()
for ((i = 0; i < WRITERS; i++)); do
    python3 "$SCRATCH/write.py" "$MNT/file-$i" "$SCRATCH/end" &
    writers+=("$!")
done
started+=("${writers[@]}")
for pid in "${writers[@]}"; do
    wait_until 'a program to have written' has_written "$pid"
done
stopped=$(server_pid "$victim")
kill -STOP "$stopped"
# Those that have nothing under way there soon have.
for ((i = 0; i < 5; i++)); do
    echo "$i" >"$SCRATCH/wanted"
    expect 'a change on another server' timeout "$SOON" cp "$SCRATCH/wanted" "$MNT/changed"
    expect_equal 'what is read of another server' "$(timeout "$SOON" cat "$MNT/small" "$MNT/changed")" "small"$'\n'"$i"
done
say "server $victim is stopped: others are served"
began=$SECONDS
kill -KILL "${writers[@]:0:WRITERS / 2}"
PATIENCE=$SOON
for pid in "${writers[@]:0:WRITERS / 2}"; do
    wait_until 'a program that was killed to end' has_ended "$pid"
done
say "$((WRITERS / 2)) programs that write ended within $((SECONDS - began)) s when they were killed"
PATIENCE=120
for pid in "${writers[@]:WRITERS / 2}"; do
    ! has_ended "$pid" || fail 'a program that needs the server has ended'
done
touch "$SCRATCH/end"
kill -CONT "$stopped"
for pid in "${writers[@]:WRITERS / 2}"; do
    wait_for_end "$pid"
    expect_equal 'the exit code of a program that writes' "$CODE" 0
done
say 'it goes on, and so did the others'
check_online
stop_cluster
