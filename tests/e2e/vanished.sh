#!/bin/bash
# A mount is killed while programs on it have files open that have no name any more, and locks: after a minute all of it
# is let go, and nothing that others have. What it had under leases others change when these have run out.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

command -v python3 >/dev/null || skip 'python3 is missing'
MIB=$((1 << 20))
# A session's minute, and some more.
PATIENCE=150
SECOND=$SCRATCH/mount-2
# Of what mounts believe, and what a machine that is busy may take besides; seconds.
LEASE=10
SLACK=20

# hold MOUNT NAME: a program that has a removed file and one without a name open, each of 4 MiB, and a lock.
hold() {
    python3 - "$1" "$2" >"$SCRATCH/holds-$2" 2>&1 <<'PYTHON' &
import fcntl, os, signal, sys
mount, name = sys.argv[1:]
path = os.path.join(mount, name)
removed = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR)
unnamed = os.open(mount, os.O_TMPFILE | os.O_RDWR, 0o600)
for fd in removed, unnamed:
    os.write(fd, os.urandom(4 << 20))
    os.fsync(fd)
os.unlink(path)
locked = os.open(os.path.join(mount, "locked-" + name), os.O_CREAT | os.O_RDWR)
fcntl.lockf(locked, fcntl.LOCK_EX)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
print("holds", flush=True)
signal.sigwait([signal.SIGUSR1])
for fd in removed, unnamed:
    assert len(os.pread(fd, 5 << 20, 0)) == 4 << 20
print("held", flush=True)
PYTHON
    HOLDER=$!
    started+=("$HOLDER")
    wait_until "$2 to hold" grep -q '^holds$' "$SCRATCH/holds-$2"
}

# Bytes of all data objects.
stored() {
    find "$DATA"/server-*/data/data -type f ! -name '*.sums' -path '*/??/*' -printf '%s\n' | awk '{ sum += $1 } END { print sum + 0 }'
}

# sum FIELD: of all servers, as status has it.
sum() {
    "$PANDOFS" status --data "$DATA" --json | jq "[.servers[].$1] | add"
}

start_cluster --stripe-unit 65536
expect_equal 'bytes at first' "$(stored)" 0
hold "$MNT" stays
staying=$HOLDER
mount_also "$SECOND"
hold "$SECOND" goes
# It believes names and attributes, under leases that nobody gives back now.
mkdir "$MNT/believed"
for ((i = 0; i < 20; i++)); do
    echo "$i" >"$MNT/believed/$i"
done
expect_above 'bytes of files without names' "$(stored)" $((16 * MIB - 1))
# What another mount has changed just now is not leased yet.
needs_nobody() {
    local before
    stat --format=%n "$SECOND/believed"/* >/dev/null
    before=$(sum requests)
    stat --format=%n "$SECOND/believed"/* >/dev/null
    [[ $(($(sum requests) - before)) -lt 10 ]]
}
wait_until 'the second mount to believe what it was told' needs_nobody
recalled=$(sum recalled)
kill -KILL "$MOUNT_PID"
began=$SECONDS
wait_for_end "$MOUNT_PID"
# Who changes what it believed waits for its leases to run out, once and no longer than they last.
mv "$MNT/believed/0" "$MNT/believed/renamed-0"
first=$SECONDS
say "a rename was done $((first - began)) s after the mount was killed"
expect_below 'seconds after the kill when something was renamed' $((first - began)) $((LEASE + SLACK))
for ((i = 1; i < 20; i++)); do
    mv "$MNT/believed/$i" "$MNT/believed/renamed-$i"
done
say "and all $((SECONDS - began)) s after it"
expect_below 'seconds for all others, which wait for no lease of their own' $((SECONDS - first)) "$LEASE"
expect_above 'leases that were recalled' "$(sum recalled)" "$recalled"
# The program holds a mount that does not answer any more; it ends when that goes.
kill -KILL "$HOLDER"
detach "$SECOND"
wait_for_end "$HOLDER"
expect_above 'bytes just after it was killed' "$(stored)" $((16 * MIB - 1))

# 1. Whoever has vanished keeps nothing for longer than a minute.
is_let_go() {
    [[ $(stored) -eq $((8 * MIB)) ]]
}
wait_until 'the files of the killed mount to be let go' is_let_go
say "files without names were freed $((SECONDS - began)) s after their mount was killed"
wait_until 'the lock' python3 -c '
import fcntl, sys
fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)' "$MNT/locked-goes"
say "and its lock $((SECONDS - began)) s after"

# 2. What others hold stays, until they let go of it.
expect_refused 'BlockingIOError' python3 -c '
import fcntl, sys
fcntl.lockf(open(sys.argv[1], "r+b"), fcntl.LOCK_EX | fcntl.LOCK_NB)' "$MNT/locked-stays"
kill -USR1 "$staying"
wait_for_end "$staying"
expect_equal 'who stays' "$CODE $(cat "$SCRATCH/holds-stays")" $'0 holds\nheld'
is_empty() {
    [[ $(stored) -eq 0 ]]
}
wait_until 'its files to be freed' is_empty
check_online
stop_cluster
