#!/bin/bash
# sqlite3 with a rollback journal, used by processes on two mounts at once: each holds the others off by locks that
# hold across mounts, sees what they committed, and finishes what they left when they were killed.
# shellcheck source=tests/e2e/_sqlite.sh
. ./_sqlite.sh

TRANSACTIONS=60
KILLS=4

start_cluster
OTHER=$SCRATCH/mount-2
mount_also "$OTHER" --cache leases
mounts=("$MNT" "$OTHER")
create_database "$MNT/bank.db"

pids=()
for writer in 1 2 3 4; do
    transfers "$writer" "$TRANSACTIONS" | sql "${mounts[writer % 2]}/bank.db" >/dev/null &
    pids+=("$!")
done
started+=("${pids[@]}")
while ! has_ended "${pids[0]}"; do
    for mount in "${mounts[@]}"; do
        expect_equal "the sum at $mount while others write" \
            "$(ask "$mount/bank.db" 'SELECT sum(amount) FROM account;')" $((ACCOUNTS * 1000))
    done
done
for pid in "${pids[@]}"; do
    wait_for_end "$pid"
    expect_equal "how a writer ended" "$CODE" 0
done
for mount in "${mounts[@]}"; do
    expect_equal "transfers at $mount" "$(ask "$mount/bank.db" 'SELECT count(*) FROM given;')" $((4 * TRANSACTIONS))
    check_database "$mount/bank.db" "at $mount after four writers"
done
say "four processes on two mounts made $TRANSACTIONS transfers each"

# What a killed writer leaves, its lock and its journal, the other mount takes care of.
for ((kill = 0; kill < KILLS; kill++)); do
    here=${mounts[kill % 2]}
    there=${mounts[(kill + 1) % 2]}
    write_and_be_killed "$here/bank.db" $((11 + kill)) "$there/bank.db"
    check_database "$there/bank.db" "at $there after a writer at $here was killed"
    transfers $((21 + kill)) 3 | sql "$there/bank.db" >/dev/null
    check_database "$here/bank.db" "at $here after it"
done
say "writers on each of the two were killed"

# A whole mount, too: its locks end with it.
endless "$OTHER/bank.db" 31
kill -KILL "$MOUNT_PID"
wait_for_end "$MOUNT_PID"
wait_for_end "$WRITER"
transfers 32 3 | sql "$MNT/bank.db" >/dev/null
check_database "$MNT/bank.db" 'after a mount was killed'
say 'a mount was killed while it was used'
check_online
stop_cluster
