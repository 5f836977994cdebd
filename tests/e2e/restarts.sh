#!/bin/bash
# kill -9 of one server after the other while programs make calls of every kind: they are held up and go on, none
# gets an error, and every answer is right. On a soft mount, with a server that stays away, they get an error in
# time. PANDOFS_SEED=N begins with another seed, PANDOFS_RUNS=N kills as often.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

command -v python3 >/dev/null || skip 'python3 is missing'
SEED=${PANDOFS_SEED:-1}
KILLS=${PANDOFS_RUNS:-28}
WORKERS=6
SOFT=1

# start_workers FOLDER [SOFT]
start_workers() {
    local folder=$1 number
    shift
    workers=()
    rm -f "$SCRATCH/stop" "$SCRATCH"/report-*
    mkdir "$folder"
    for ((number = 0; number < WORKERS; number++)); do
        python3 ./_all_calls.py "$folder" "$number" "$SEED" "$SCRATCH/report-$number" "$SCRATCH/stop" "$@" \
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

start_cluster --policy random --stripe-unit 65536 --entry-timeout 0 --attr-timeout 0
start_workers "$MNT/hard"
for ((i = 0; i < KILLS; i++)); do
    kill_server $(((i + SEED) % 4))
    are_working
    sleep 0.2
done
end_workers
made=$(add_up made)
held_up=$(add_up held_up)
say "calls: $(jq -c . <<<"$made")"
say "held up: $(jq -c . <<<"$held_up")"
expect_above 'kinds of calls' "$(jq length <<<"$made")" 30
expect_above 'kinds of calls that were held up' "$(jq length <<<"$held_up")" 15
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
