#!/bin/bash
# Requests are followed from the mount through two servers: one trace, whose spans are parts of one another and say what was
# done where and what was waited for. Nobody is followed who did not ask for it; a collector that is away or deaf is told of
# once and keeps nobody; what was done last is sent at the end.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

SPANS=$SCRATCH/spans.json
otlp() {
    python3 _otlp.py "$@"
}
PORT=$(python3 _metrics.py ports 4)
METRICS=$((PORT + 1))
COLLECTOR=
collect() {
    python3 _otlp.py receive "$PORT" "$SPANS" "$@" &
    COLLECTOR=$!
    started+=("$COLLECTOR")
    wait_until 'the collector to listen' listens
}
listens() {
    (exec 3<>"/dev/tcp/127.0.0.1/$PORT") 2>/dev/null
}
stop_collecting() {
    kill -KILL "$COLLECTOR"
    wait_for_end "$COLLECTOR"
}
# figure OUTCOME: spans of the mount of which that became.
figure() {
    python3 _metrics.py get "http://127.0.0.1:$METRICS/metrics" | awk -v series="pandofs_spans_total{outcome=\"$1\"}" \
        '$1 == series { print $2 }'
}

# What is wrong is said before anything is made.
expect_refused 'no address of an OTLP collector' "$PANDOFS" up --data "$DATA" --no-mount --otlp-endpoint 4318
expect_refused 'without TLS' "$PANDOFS" up --data "$DATA" --no-mount --otlp-endpoint https://127.0.0.1:4318
expect_refused 'from 0 to 1' "$PANDOFS" up --data "$DATA" --no-mount --otlp-endpoint http://127.0.0.1:1 --otlp-ratio 2
OTEL_EXPORTER_OTLP_ENDPOINT=here expect_refused 'no address of an OTLP collector' "$PANDOFS" up --data "$DATA" --no-mount
[[ ! -e $DATA ]] || fail "$DATA was made"

collect
start_cluster --servers 2 --no-restart --policy random --sync-names --metrics "$METRICS" \
    --otlp-endpoint "http://127.0.0.1:$PORT" --otlp-ratio 1

# A directory that is made on another server than its name, and a name that moves from one server to the other.
count=0
makes_distributed() {
    mkdir "$MNT/made-$((++count))"
    otlp distributed "$SPANS" mkdir
}
wait_until 'a mkdir over two servers to be followed' makes_distributed
otlp tree "$SPANS" mkdir
moves_distributed() {
    mkdir "$MNT/made-$((++count))"
    local from=$((RANDOM % count + 1)) to=$((RANDOM % count + 1))
    touch "$MNT/made-$from/file"
    mv "$MNT/made-$from/file" "$MNT/made-$to/moved"
    otlp distributed "$SPANS" rename
}
wait_until 'a rename over two servers to be followed' moves_distributed
otlp tree "$SPANS" rename
# Data, too, which is on all servers.
head -c 1000000 /dev/zero >"$MNT/data"
cat "$MNT/data" >/dev/null
has_spans() {
    [[ $(otlp spans "$SPANS" "$1") -gt 0 ]]
}
wait_until 'writes to data objects to be followed' has_spans data_write
say 'a request is one trace through mount, server, shard and peer'

# A mount that follows nothing: neither it nor the servers send anything of what it does.
mount_also "$SCRATCH/quiet"
mkdir "$SCRATCH/quiet/nobody"
ls "$SCRATCH/quiet/nobody"
rmdir "$SCRATCH/quiet/nobody"
mkdir "$MNT/somebody"
is_followed() {
    grep -q "\"$1\"" "$SPANS"
}
# Of its server, whose spans of the other mount would have come with them.
for _ in 1 2; do
    before=$(otlp spans "$SPANS" mkdir)
    mkdir "$MNT/somebody/more-$before"
    more() { [[ $(otlp spans "$SPANS" mkdir) -gt $before ]]; }
    wait_until 'spans of both mounts, if there are any' more
done
wait_until 'spans of the mount that follows' is_followed somebody
! is_followed nobody || fail 'a mount without the option is followed'
"$PANDOFS" umount "$SCRATCH/quiet"
say 'who did not ask for it is not followed'

# By the environment, and of no request.
OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:$PORT OTEL_SERVICE_NAME=mine OTEL_TRACES_SAMPLER=always_on \
    mount_also "$SCRATCH/environment"
mkdir "$SCRATCH/environment/by-environment"
wait_until 'the service that the environment names' is_followed mine
"$PANDOFS" umount "$SCRATCH/environment"
OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:$PORT OTEL_TRACES_SAMPLER=always_off mount_also "$SCRATCH/environment" --sync-names
mkdir "$SCRATCH/environment/not-sampled"
"$PANDOFS" umount "$SCRATCH/environment"
! is_followed not-sampled || fail 'a request is followed that was not to be'
say 'the environment says where spans go, whose they are and how many'

# The collector goes away, and comes back deaf, and well.
told() {
    grep -c "$1" "$DATA/mount-log.txt" || true
}
work() {
    local what=$1 i
    for ((i = 0; i < 100; i++)); do
        echo "$i" >"$MNT/somebody/$what-$i"
    done
}
sent=$(figure sent)
expect_above 'spans that were sent' "$sent" 100
expect_equal 'spans that were lost' "$(figure lost)" 0
stop_collecting
work away
loses() {
    work lost
    [[ $(figure lost) -gt 1000 ]]
}
wait_until 'spans to be lost' loses
expect_equal 'lines about it' "$(told 'no spans can be sent to the collector')" 1
expect_contains 'what the log says' "$(grep 'no spans can be sent' "$DATA/mount-log.txt")" 'refused'
collect deaf
began=$SECONDS
work deaf
expect_below 'seconds for a hundred files with a collector that is deaf' $((SECONDS - began)) 60
stop_collecting
collect
comes_back() {
    work back
    [[ $(told 'takes spans again') -eq 1 ]]
}
wait_until 'spans to be sent again' comes_back
expect_equal 'lines about it' "$(told 'no spans can be sent to the collector')" 1
say 'a collector that is away or deaf is told of once and keeps nobody'

# The last of it is sent at the end.
mkdir "$MNT/at-the-end"
check_online
stop_cluster
is_followed at-the-end || fail 'what was done last was not sent'
expect_above 'spans of the last mkdir' "$(grep -c at-the-end "$SPANS")" 1
say 'what was done last is sent at the end'

# Off: it runs as ever, and nobody connects.
sent=$(wc -l <"$SPANS")
start_cluster --no-restart --metrics "$METRICS"
mkdir "$MNT/off"
for outcome in sent dropped lost; do
    expect_equal "spans that were $outcome" "$(figure "$outcome")" 0
done
stop_cluster
expect_equal 'spans' "$(wc -l <"$SPANS")" "$sent"
