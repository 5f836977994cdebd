#!/bin/bash
# PostgreSQL keeps a database with checksums on the mount: initdb, pgbench, kill -9 of all its processes in the
# middle of it, recovery; then servers of the file system are killed while it works. What it acknowledged is
# there, its books balance, its indexes lead to its rows, and no page has a wrong checksum.
# long
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

SCALE=3
CLIENTS=4
# Transactions that are made before all is killed, and by each client while servers are.
TRANSACTIONS=1000

shopt -s nullglob
programs=(/usr/lib/postgresql/*/bin)
shopt -u nullglob
[[ ${#programs[@]} -gt 0 ]] || fail 'PostgreSQL is not installed: run scripts/deps.sh test'
PATH=${programs[-1]}:$PATH

# PostgreSQL does not run as root.
as_user=()
if [[ $(id -u) -eq 0 ]]; then
    as_user=(setpriv --reuid postgres --regid postgres --clear-groups --)
    chmod 755 "$SCRATCH"
    cd "$SCRATCH"
    "${as_user[@]}" test -x "$SCRATCH" ||
        skip "other users cannot reach $SCRATCH: set TMPDIR to a place that they can"
fi
export PGHOST=$SCRATCH/postgresql PGUSER=tester PGDATABASE=postgres PGDATA=$MNT/postgresql
LOG=$PGHOST/log.txt

database() {
    "${as_user[@]}" "$@"
}

start_database() {
    "${as_user[@]}" postgres >>"$LOG" 2>&1 &
    DATABASE=$!
    started+=("$DATABASE")
    wait_until 'PostgreSQL to answer' database_answers_or_ended
    ! has_ended "$DATABASE" || fail "PostgreSQL ended: $(tail -n 20 "$LOG")"
}

database_answers_or_ended() {
    database pg_isready --quiet || has_ended "$DATABASE"
}

# stop_database: as its administrator does it, without waiting for its users.
stop_database() {
    kill -INT "$DATABASE"
    wait_for_end "$DATABASE"
    expect_equal 'how PostgreSQL ended' "$CODE" 0
}

ask() {
    database psql --no-psqlrc --quiet --tuples-only --no-align --command "$1"
}

# transactions: what pgbench has made so far.
transactions() {
    ask 'SELECT count(*) FROM pgbench_history'
}

has_made() {
    [[ $(transactions) -ge $1 ]]
}

# bench TRANSACTIONS-OF-EACH-CLIENT: pgbench in the background; its process is then $BENCH.
bench() {
    "${as_user[@]}" pgbench --no-vacuum --client="$CLIENTS" --jobs=2 --transactions="$1" >"$SCRATCH/pgbench.txt" 2>&1 &
    BENCH=$!
    started+=("$BENCH")
}

# acknowledged: the transactions of which the last pgbench was told that they are committed.
acknowledged() {
    sed -n 's|^number of transactions actually processed: \([0-9]*\).*|\1|p' "$SCRATCH/pgbench.txt"
}

# check_database WHEN: the books balance, and each index has what its table has.
check_database() {
    expect_equal "sums $1" "$(ask '
        SELECT count(*) FROM (
            SELECT sum(abalance) AS total FROM pgbench_accounts
            UNION SELECT sum(tbalance) FROM pgbench_tellers
            UNION SELECT sum(bbalance) FROM pgbench_branches
            UNION SELECT sum(delta) FROM pgbench_history) AS totals')" 1
    expect "pg_amcheck $1" database pg_amcheck --install-missing --heapallindexed --parent-check
}

start_cluster
mkdir "$PGHOST" "$PGDATA"
[[ ${#as_user[@]} -eq 0 ]] || chown postgres:postgres "$PGHOST" "$PGDATA"
expect initdb database initdb --username="$PGUSER" --auth=trust --data-checksums --locale=C --encoding=UTF8 \
    >"$SCRATCH/initdb.txt"
cat >>"$PGDATA/postgresql.conf" <<CONF
listen_addresses = ''
unix_socket_directories = '$PGHOST'
max_connections = 20
# Small, so that data files are written and read and not only the log.
shared_buffers = 4MB
max_wal_size = 32MB
min_wal_size = 32MB
checkpoint_timeout = 30s
CONF
start_database
expect 'pgbench --initialize' database pgbench --quiet --initialize --foreign-keys --scale="$SCALE" \
    >"$SCRATCH/initialize.txt" 2>&1
say "initdb and pgbench --initialize, $(du -sh --apparent-size "$PGDATA" | cut -f 1)"

# Killed, all of it, as by a crash of its machine.
bench 1000000
wait_until "$TRANSACTIONS transactions" has_made "$TRANSACTIONS"
pids=$(pgrep --parent "$DATABASE")
# shellcheck disable=SC2086 # Several process ids.
kill -KILL "$DATABASE" $pids
wait_for_end "$DATABASE"
expect_equal 'how PostgreSQL ended' "$CODE" 137
for pid in $pids; do
    wait_until "process $pid to end" has_ended "$pid"
done
wait_for_end "$BENCH"
expect_equal 'how pgbench ended' "$CODE" 2
told=$(acknowledged)
start_database
expect_contains 'what it said' "$(cat "$LOG")" 'automatic recovery in progress'
found=$(transactions)
[[ $found -ge $told && $found -le $((told + CLIENTS)) ]] ||
    fail "after recovery there are $found transactions; $told were acknowledged to $CLIENTS clients"
check_database 'after recovery'
say "PostgreSQL was killed and recovered: $told transactions were acknowledged, $found are there"

# Servers of the file system are killed one after the other: PostgreSQL waits and goes on.
wanted=$((found + CLIENTS * TRANSACTIONS))
bench "$TRANSACTIONS"
kills=0
until has_ended "$BENCH"; do
    kill_server $((kills++ % 4))
done
wait_for_end "$BENCH"
expect_equal "how pgbench ended ($(tail -n 3 "$SCRATCH/pgbench.txt"))" "$CODE" 0
expect_equal 'transactions' "$(transactions)" "$wanted"
database psql --no-psqlrc --quiet --command 'VACUUM FULL' --command 'REINDEX DATABASE postgres'
check_database 'after servers were killed'
say "servers were killed $kills times while $((CLIENTS * TRANSACTIONS)) transactions were made"

stop_database
expect pg_checksums database pg_checksums --check --pgdata="$PGDATA" >"$SCRATCH/checksums.txt"
expect_equal 'pages with wrong checksums' "$(sed -n 's/^Bad checksums: *//p' "$SCRATCH/checksums.txt")" 0
stop_cluster

start_cluster
start_database
expect_equal 'transactions after everything was stopped' "$(transactions)" "$wanted"
! grep -E ' (PANIC|WARNING): |could not (fsync|read|write)' "$LOG" || fail 'PostgreSQL complained'
stop_database
say 'stopped and started again: all is there'
check_online
stop_cluster
