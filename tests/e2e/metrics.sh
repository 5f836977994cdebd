#!/bin/bash
# What servers and mounts count is told over HTTP: it agrees with what was done and with `pandofs status`, promtool has
# nothing against it, the real Prometheus reads it, and every query of the dashboard gives something there.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

DASHBOARD=$PWD/../../docs/grafana/pandofs.json
FILES=600

metrics() {
    python3 _metrics.py "$@"
}

# scrape PORT: what is told there now.
scrape() {
    metrics get "http://127.0.0.1:$1/metrics"
}

# figure PORT SERIES: its value, 0 if there is none.
figure() {
    scrape "$1" | awk -v series="$2" '{ at = match($0, / [^ ]*$/) } substr($0, 1, at - 1) == series { print $NF; found = 1 }
        END { if (!found) print 0 }'
}

# all_servers SERIES: the sum over the servers.
all_servers() {
    local server sum=0
    for server in 0 1 2 3; do
        sum=$((sum + $(figure $((BASE + 1 + server)) "$1")))
    done
    echo "$sum"
}

status() {
    "$PANDOFS" status --data "$DATA" --json
}

# What is wrong is said before anything is made.
for how in "up --data $DATA --no-mount" "mount --data $DATA $MNT" "serve --cluster none --id 0 --data $DATA"; do
    # shellcheck disable=SC2086 # words
    expect_refused 'give a port (9100)' "$PANDOFS" $how --metrics here
done
expect_refused 'add --metrics-for-network' "$PANDOFS" up --data "$DATA" --no-mount --metrics 0.0.0.0:9100
expect_refused 'which is missing' "$PANDOFS" up --data "$DATA" --no-mount --metrics-for-network
expect_refused 'no port for server 3' "$PANDOFS" up --data "$DATA" --servers 4 --no-mount --metrics 65532
[[ ! -e $DATA ]] || fail "$DATA was made"

# The mount, four servers, one more that joins, a second mount, and the Prometheus.
BASE=$(metrics ports 8)
EARLY=$((BASE + 6))
PROMETHEUS=http://127.0.0.1:$((BASE + 7))
start_cluster --servers 4 --threshold 100 --metrics "$BASE" --sync-names
expect_contains 'what up said' "$(cat "$UP_OUTPUT")" "metrics of the mount: http://127.0.0.1:$BASE/metrics"
for server in 0 1 2 3; do
    expect_contains 'what up said' "$(cat "$UP_OUTPUT")" \
        "metrics of server $server:  http://127.0.0.1:$((BASE + 1 + server))/metrics"
done
mount_also "$SCRATCH/early" --metrics "$EARLY"
say "metrics at the ports from $BASE on"

# A port that somebody has.
mkdir "$SCRATCH/taken"
expect_refused 'choose another port' "$PANDOFS" mount --data "$DATA" --metrics "$BASE" "$SCRATCH/taken"
expect_refused 'choose another port' "$PANDOFS" mount --background --data "$DATA" -o "metrics=$BASE" "$SCRATCH/taken"
! is_mounted "$SCRATCH/taken" || fail 'it was mounted without its metrics'
expect_refused 'choose another port' "$PANDOFS" serve --cluster "$DATA/cluster.json" --id 0 --data "$DATA/server-0/data" \
    --metrics $((BASE + 1))
expect_refused 'choose another port' "$PANDOFS" up --data "$SCRATCH/other" --servers 1 --no-mount --metrics "$BASE"

# Prometheus, from before the work on.
targets=$(printf '"127.0.0.1:%s", ' "$BASE" $((BASE + 1)) $((BASE + 2)) $((BASE + 3)) $((BASE + 4)) "$EARLY")
cat >"$SCRATCH/prometheus.yml" <<EOF
global: {scrape_interval: 1s, scrape_timeout: 1s}
scrape_configs:
  - job_name: pandofs
    static_configs: [{targets: [${targets%, }]}]
EOF
prometheus --config.file="$SCRATCH/prometheus.yml" --storage.tsdb.path="$SCRATCH/prometheus" \
    --web.listen-address="127.0.0.1:$((BASE + 7))" >"$SCRATCH/prometheus-log.txt" 2>&1 &
started+=("$!")
query() {
    metrics query "$PROMETHEUS" "$1"
}
# has_value QUERY VALUE
has_value() {
    [[ $(query "$1" 2>/dev/null) == "$2" ]]
}
wait_until 'Prometheus to read all six' has_value 'sum(up)' 6

# Work: a directory that splits, listings, data, another mount that makes names early and takes leases away, locks.
mkdir "$MNT/many" "$SCRATCH/early/own"
before=$(figure "$BASE" 'pandofs_mount_request_duration_seconds_count{operation="create"}')
for ((i = 0; i < FILES; i++)); do
    echo "$i" >"$MNT/many/file-$i"
done
after=$(figure "$BASE" 'pandofs_mount_request_duration_seconds_count{operation="create"}')
expect_equal 'creations that the kernel asked for' $((after - before)) "$FILES"
makes_early() {
    echo early >"$SCRATCH/early/own/file-$((++made_early))"
    [[ $(figure "$EARLY" pandofs_mount_early_operations_total) -gt 0 ]]
}
made_early=0
wait_until 'names to be made early' makes_early
for ((i = 0; i < 50; i++)); do
    echo "$i" >"$SCRATCH/early/own/then-$i"
done
# What is listed in a directory of one's own the kernel need not look up by name: ls, find and rm -r have half as much to ask.
LOOKUPS='pandofs_mount_request_duration_seconds_count{operation="lookup"}'
before=$(figure "$EARLY" "$LOOKUPS")
expect_above 'entries listed' "$(find "$SCRATCH/early/own" -type f -printf '%i %s\n' | wc -l)" 49
expect_below 'names looked up by a listing' $(($(figure "$EARLY" "$LOOKUPS") - before)) 10
for ((i = 0; i < FILES; i += 3)); do
    rm "$SCRATCH/early/many/file-$i"
done
ls -l "$MNT/many" "$SCRATCH/early/many" >/dev/null
# In pieces that are not kept inline first.
head -c 5000000 /dev/urandom | dd of="$MNT/data" bs=1M iflag=fullblock status=none
sync "$MNT/data"
cmp "$MNT/data" "$SCRATCH/early/data"
partitions_spread() {
    [[ $("$PANDOFS" dir --json "$MNT/many" | jq .partitions) -ge 4 ]]
}
wait_until "'many' to be in several partitions" partitions_spread
created=$(all_servers 'pandofs_server_operation_duration_seconds_count{operation="create"}')
expect_above 'creations on servers' "$created" $((FILES - 1))
expect_above 'early operations of the mount' "$(figure "$EARLY" pandofs_mount_early_operations_total)" 49
expect_above 'granted directories' "$(all_servers pandofs_server_grants)" 0
expect_above 'answers from the cache' "$(figure "$BASE" pandofs_mount_cache_hits_total)" 0
expect_above 'recalled leases' "$(figure "$BASE" pandofs_mount_leases_recalled_total)" 0
expect_above 'names and attributes in the cache' "$(figure "$BASE" pandofs_mount_cached)" 0
exec 5<"$MNT/data"
expect_above 'files open through the mount' "$(figure "$BASE" pandofs_mount_open_inodes)" 0
expect_above 'open files on servers' "$(all_servers pandofs_server_open_inodes)" 0
exec 5<&-
# Four clients that know nothing of the splits of the directory which they share. (A mount is mostly told of a split by
# attributes that it asks for anyway.)
"$PANDOFS" bench --data "$DATA" metarates --clients 4 --files 400 >"$SCRATCH/bench.txt" 2>&1 || fail "$(cat "$SCRATCH/bench.txt")"
expect_above 'redirects' "$(all_servers pandofs_server_redirects_total)" 0
expect_above 'bytes written' "$(all_servers pandofs_server_data_written_bytes_total)" 4999999
nothing_is_queued() {
    [[ $(figure "$EARLY" pandofs_mount_early_queued) -eq 0 ]]
}
wait_until 'early names to be with servers' nothing_is_queued
expect_above 'creations in batches' "$(all_servers 'pandofs_server_early_operations_total{operation="create"}')" 49

# What has split comes together when it is nearly empty.
rm "$MNT"/many/file-*
has_merged() {
    [[ $(all_servers pandofs_server_merges_total) -ge 1 ]]
}
wait_until 'partitions to merge' has_merged

# Locks: one that is held, and one who waits for it.
flock "$MNT/data" sleep "$PATIENCE" &
held=$!
started+=("$held")
is_locked() {
    [[ $(all_servers pandofs_server_file_locks) -ge 1 ]]
}
wait_until 'the lock to be seen' is_locked
flock "$SCRATCH/early/data" true &
waiter=$!
started+=("$waiter")
somebody_waits() {
    [[ $(all_servers pandofs_server_file_lock_waiters) -ge 1 ]]
}
wait_until 'who waits for it to be seen' somebody_waits
# The program that holds it, with its lock.
pkill -P "$held"
wait_for_end "$held"
wait_for_end "$waiter"
expect_equal 'who waited for the lock' "$CODE" 0
nobody_waits() {
    [[ $(all_servers pandofs_server_file_lock_waiters) -eq 0 ]]
}
wait_until 'nobody to wait' nobody_waits
say 'counts follow what is done'

# The same figures as the status has: it is asked before and after, and counters only grow.
first=$(status)
for server in 0 1 2 3; do
    scrape $((BASE + 1 + server)) >"$SCRATCH/server-$server.metrics"
done
second=$(status)
compared=0
while read -r field series; do
    for server in 0 1 2 3; do
        low=$(jq ".servers[$server].$field" <<<"$first")
        high=$(jq ".servers[$server].$field" <<<"$second")
        found=$(awk -v series="$series" '$1 == series { print $2 }' "$SCRATCH/server-$server.metrics")
        [[ -n $found && $found -ge $low && $found -le $high ]] ||
            fail "server $server: $series is '$found', and $field of the status was $low before and $high after"
        compared=$((compared + 1))
    done
done <<'EOF'
requests pandofs_server_requests_total
redirected pandofs_server_redirects_total
entries pandofs_server_entries
inodes pandofs_server_inodes
partitions pandofs_server_partitions
splits pandofs_server_splits_total
shards pandofs_server_shards
aborted pandofs_server_distributed_operations_total{outcome="aborted"}
opens pandofs_server_open_inodes
locks pandofs_server_file_locks
recalled pandofs_server_leases_recalled_total
sessions pandofs_server_sessions
data_requests pandofs_server_data_requests_total
data_read pandofs_server_data_read_bytes_total
data_written pandofs_server_data_written_bytes_total
peer_messages pandofs_server_peer_messages_total
log_syncs pandofs_server_log_force_duration_seconds_count
log_records pandofs_server_log_records_total
log_batches pandofs_server_log_batches_total
damaged pandofs_server_damaged
EOF
say "$compared figures agree with the status"

# The format, by those who know it.
for port in "$BASE" $((BASE + 1)) "$EARLY"; do
    scrape "$port" >"$SCRATCH/scraped"
    expect "promtool on port $port" promtool check metrics <"$SCRATCH/scraped" >"$SCRATCH/promtool.txt" 2>&1 ||
        fail "promtool: $(cat "$SCRATCH/promtool.txt")"
    expect_equal 'what promtool has against it' "$(cat "$SCRATCH/promtool.txt")" ''
done
expect_equal 'the unit that only OpenMetrics tells' \
    "$(metrics get "$PROMETHEUS/api/v1/metadata?metric=pandofs_server_store_bytes" | jq -r '.data[][0].unit')" bytes
expect_equal 'what Prometheus could not read' \
    "$(metrics get "$PROMETHEUS/api/v1/targets" | jq -r '[.data.activeTargets[].lastError] | unique | join(" ")')" ''
entries=$(status | jq '[.servers[].entries] | add')
wait_until 'Prometheus to have the same names' has_value 'sum(pandofs_server_entries)' "$entries"
created=$(figure "$BASE" 'pandofs_mount_request_duration_seconds_count{operation="create"}')
wait_until 'Prometheus to have the same creations' has_value \
    "pandofs_mount_request_duration_seconds_count{operation=\"create\",instance=\"127.0.0.1:$BASE\"}" "$created"
expect_equal 'roles' "$(query 'count(pandofs_build_info{role="server"})')" 4
expect_above 'requests a second' "$(query 'ceil(sum(rate(pandofs_server_requests_total[1m])))')" 0
say "every one of $(metrics dashboard "$PROMETHEUS" "$DASHBOARD") queries of the dashboard gives something"

# A server that was killed is back on its port; one that is stopped is away, and back when it goes on; one that joins has
# the next port.
kill_server 0
wait_until 'server 0 to tell again' scrape $((BASE + 1)) >/dev/null
kill -STOP "$(server_pid 2)"
wait_until 'Prometheus to miss server 2' has_value "up{instance=\"127.0.0.1:$((BASE + 3))\"}" 0
kill -CONT "$(server_pid 2)"
wait_until 'Prometheus to have server 2 again' has_value "up{instance=\"127.0.0.1:$((BASE + 3))\"}" 1
"$PANDOFS" server add --data "$DATA" --count 1
wait_until 'server 4 to tell' scrape $((BASE + 5)) >/dev/null 2>&1
expect_contains 'what server 4 tells' "$(scrape $((BASE + 5)))" 'role="server",server="4"'

"$PANDOFS" umount "$SCRATCH/early"
stop_cluster
expect_refused 'refused' metrics get "http://127.0.0.1:$((BASE + 1))/metrics"
say 'stopped, and nobody tells anything'
