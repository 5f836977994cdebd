#!/bin/bash
# fsx, the file system exerciser that others wrote, while one server after the other is killed and comes back:
# 400,000 operations with four seeds at once. No operation fails, and nothing that is read is wrong.
# PANDOFS_SEED=N begins with another seed, PANDOFS_RUNS=N does as many operations with each.
# shellcheck source=tests/e2e/_fsx.sh
. ./_fsx.sh

OPERATIONS=${PANDOFS_RUNS:-100000}
FIRST=${PANDOFS_SEED:-101}
SEEDS=("$FIRST" "$((FIRST + 1))" "$((FIRST + 2))" "$((FIRST + 3))")
# At least as many kills.
KILLS=8

# How often the first of them reads between two kills.
READS=1500

# The calls of read by the first exerciser.
reads() {
    awk '$1 == "syscr:" { print $2 }' "/proc/${EXERCISERS[0]}/io" 2>/dev/null || echo 0
}

has_read_or_ended() {
    [[ $(reads) -ge $1 ]] || has_ended "${EXERCISERS[0]}"
}

start_cluster --stripe-unit "$STRIPE_UNIT"
for seed in "${SEEDS[@]}"; do
    exercise "$seed" "$OPERATIONS"
done
kills=0
until has_ended "${EXERCISERS[0]}"; do
    kill_server $((kills++ % 4))
    wait_until 'the exercisers to go on' has_read_or_ended $(($(reads) + READS))
done
await_exercisers "${SEEDS[@]}"
[[ $kills -ge $KILLS ]] || fail "servers were killed $kills times only: the exercisers ended too early"
say "$OPERATIONS operations with each of the seeds ${SEEDS[*]}, servers killed $kills times"
check_online
stop_cluster
