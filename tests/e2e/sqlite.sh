#!/bin/bash
# sqlite3 keeps databases on the mount, once with a rollback journal and once with a write-ahead log: several
# processes write and read at once, writers are killed in the middle of their transactions, and a server while
# they wait for its disk. No transaction is lost or half done, and the integrity check finds nothing.
# long
# shellcheck source=tests/e2e/_sqlite.sh
. ./_sqlite.sh

WRITERS=3
TRANSACTIONS=60
KILLS=5

# keep_database MODE
keep_database() {
    local mode=$1 database=$MNT/$1/bank.db writer pids=() pid
    mkdir "$MNT/$mode"
    expect_equal "the journal's mode" "$(ask "$database" "PRAGMA journal_mode = $mode;")" "$mode"
    create_database "$database"

    for ((writer = 1; writer <= WRITERS; writer++)); do
        transfers "$writer" "$TRANSACTIONS" | sql "$database" >/dev/null &
        pids+=("$!")
    done
    started+=("${pids[@]}")
    # Who reads meanwhile sees whole transactions only.
    while ! has_ended "${pids[0]}"; do
        expect_equal "the sum while others write" \
            "$(ask "$database" 'SELECT sum(amount) FROM account;')" $((ACCOUNTS * 1000))
    done
    for pid in "${pids[@]}"; do
        wait_for_end "$pid"
        expect_equal "how a writer ended" "$CODE" 0
    done
    expect_equal "transfers" "$(ask "$database" 'SELECT count(*) FROM given;')" $((WRITERS * TRANSACTIONS))
    check_database "$database" "after $WRITERS writers"
    say "$mode: $WRITERS processes made $TRANSACTIONS transfers each"

    for ((writer = 11; writer < 11 + KILLS; writer++)); do
        write_and_be_killed "$database" "$writer"
        check_database "$database" "after writer $writer was killed"
    done
    say "$mode: $KILLS writers were killed"

    # A server is away now and then; who writes waits for it.
    transfers 21 $((TRANSACTIONS * 5)) | sql "$database" >/dev/null &
    pid=$!
    started+=("$pid")
    writer=0
    until has_ended "$pid"; do
        kill_server $((writer++ % 4))
    done
    wait_for_end "$pid"
    expect_equal "how the writer ended whose servers were killed" "$CODE" 0
    expect_equal "its transfers" "$(ask "$database" 'SELECT count(*) FROM given WHERE writer = 21;')" \
        $((TRANSACTIONS * 5))
    check_database "$database" 'after servers were killed'
    say "$mode: servers were killed $writer times while a process made $((TRANSACTIONS * 5)) transfers"

    ask "$database" 'DELETE FROM taken WHERE writer > 10; DELETE FROM given WHERE writer > 10; VACUUM;'
    check_database "$database" 'after VACUUM'
}

start_cluster
for mode in delete wal; do
    keep_database "$mode"
done

# All that was committed is there after everything was killed at once and started again.
before=$(for mode in delete wal; do ask "$MNT/$mode/bank.db" .dump | sha256sum; done)
kill_cluster
start_cluster
for mode in delete wal; do
    check_database "$MNT/$mode/bank.db" 'after the cluster was killed'
done
expect_equal 'what the databases hold' \
    "$(for mode in delete wal; do ask "$MNT/$mode/bank.db" .dump | sha256sum; done)" "$before"
say 'the cluster was killed and is back: the same'
check_online
stop_cluster
