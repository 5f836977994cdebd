#!/bin/bash
# kill -9 of one server after the other while programs make calls of every kind: they are held up and go on, none
# gets an error, and every answer is right. It goes on until of each kind some call had begun when a server was killed
# and ended when that served again. On a soft mount, with a server that stays away, they get an error in time.
# PANDOFS_SEED=N begins with another seed, PANDOFS_RUNS=N kills as often at least.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

command -v python3 >/dev/null || skip 'python3 is missing'
SEED=${PANDOFS_SEED:-1}
KILLS=${PANDOFS_RUNS:-28}
# Seconds until each kind was seen to be under way at a kill; as a rule it takes one.
LATEST=900
WORKERS=6
SOFT=1

# start_workers FOLDER [SOFT]
start_workers() {
    local folder=$1 number
    shift
    workers=()
    rm -f "$SCRATCH/stop" "$SCRATCH"/report-* "$SCRATCH/missing"
    : >"$SCRATCH/kills"
    mkdir "$folder"
    for ((number = 0; number < WORKERS; number++)); do
        python3 -B ./_all_calls.py "$folder" "$number" "$SEED" "$SCRATCH/report-$number" "$SCRATCH/stop" "$@" \
            >"$SCRATCH/worker-$number" 2>&1 &
        workers+=("$!")
        started+=("$!")
    done
    for ((number = 0; number < WORKERS; number++)); do
        wait_until "worker $number to begin" test -e "$SCRATCH/report-$number.ready"
    done
}

are_working() {
    local worker
    for worker in "${workers[@]}"; do
        ! has_ended "$worker" || fail "a worker ended: $(cat "$SCRATCH"/worker-*)"
    done
}

end_workers() {
    local worker
    touch "$SCRATCH/stop"
    for worker in "${workers[@]}"; do
        wait_for_end "$worker"
        [[ $CODE -eq 0 ]] || fail "a worker ended with $CODE: $(cat "$SCRATCH"/worker-*)"
    done
}

# What the reports say, added up.
add_up() {
    jq -s "[.[].$1 | to_entries[]] | group_by(.key) | map({key: .[0].key, value: ([.[].value] | add)}) | from_entries" \
        "$SCRATCH"/report-?
}

# kill_and_note NUMBER: in `kills` is then when it was killed and from when on it served again.
kill_and_note() {
    local serves
    kill_server "$1"
    serves=$(awk '/ serves on / { time = $1 } END { print time }' "$DATA/server-$1/log.txt")
    echo "$KILLED_AT $(date --date "$serves" +%s.%6N)" >>"$SCRATCH/kills"
}

# In `missing` are then the kinds of which no call had begun before a kill and ended when that server served again.
# The workers prefer them.
note_missing() {
    awk 'FILENAME ~ /kinds$/ { missing[$1] = 1; next }
        FILENAME ~ /kills$/ { killed[kills] = $1; back[kills++] = $2; next }
        $1 in missing { for (i = 0; i < kills; i++) if ($2 < killed[i] && $3 >= back[i]) delete missing[$1] }
        END { for (kind in missing) print kind }' \
        "$SCRATCH/kinds" "$SCRATCH/kills" "$SCRATCH"/report-?.calls >"$SCRATCH/missing-now"
    mv "$SCRATCH/missing-now" "$SCRATCH/missing"
}

python3 -B ./_all_calls.py --kinds >"$SCRATCH/kinds"
start_cluster --policy random --stripe-unit 65536 --entry-timeout 0 --attr-timeout 0
start_workers "$MNT/hard"
began=$SECONDS
note_missing
for ((i = 0; i < KILLS || $(wc -l <"$SCRATCH/missing") > 0; i++)); do
    [[ $((SECONDS - began)) -lt $LATEST ]] ||
        fail "no kill came while one of these was under way: $(paste -sd ' ' "$SCRATCH/missing")"
    kill_and_note $(((i + SEED) % 4))
    are_working
    sleep 0.2
    note_missing
done
end_workers
say "$i kills; calls: $(add_up made | jq -c .)"
check_online

# Soft: of what needs the server that is away there is an error, and the rest is done.
point=$SCRATCH/mount-soft
mount_also "$point" --soft "${SOFT}s" --entry-timeout 0 --attr-timeout 0
start_workers "$point/soft" "$SOFT"
for server in 1 2; do
    kill -STOP "$(server_pid "$server")"
    sleep 5
    kill -CONT "$(server_pid "$server")"
    wait_until 'all servers to answer' all_servers_answer
    are_working
done
kill_server 3
end_workers
refused=$(jq -s '[.[].refused] | add' "$SCRATCH"/report-?)
say "$refused calls on the soft mount were refused; the longest took $(jq -s '[.[].longest] | max' "$SCRATCH"/report-?) s"
expect_above 'calls that were refused' "$refused" 0
# What was left alone can be removed when all servers are there.
wait_until 'the soft mount to be of use again' rm -rf "$point/soft"
rm -r "$MNT/hard"
check_online
stop_cluster
