# A server that cannot write its log, as on a full disk, serves all the same.
source ./_common.sh

start_cluster
stop_cluster
for server in 0 1 2 3; do
    log=/dev/full
    [[ $server -eq 0 ]] || log=$SCRATCH/log-$server.txt
    "$PANDOFS" serve --cluster "$DATA/cluster.json" --id "$server" --data "$DATA/server-$server/data" 2>"$log" &
    started+=("$!")
    [[ $server -ne 0 ]] || without_log=$!
done
all_answer() {
    "$PANDOFS" status --cluster "$DATA/cluster.json" --json >"$SCRATCH/status.json" 2>/dev/null
}
wait_until 'the servers' all_answer
expect_equal 'the process of server 0' "$(jq '.servers[0].pid' "$SCRATCH/status.json")" "$without_log"
expect 'fsck' "$PANDOFS" fsck --cluster "$DATA/cluster.json"
expect 'the server without a log' kill -0 "$without_log"
