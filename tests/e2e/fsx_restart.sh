#!/bin/bash
# fsx, the file system exerciser that others wrote, while one server after the other is killed and comes back:
# 100,000 operations, 25,000 with each of four seeds at once. No operation fails, and nothing that is read is
# wrong.
# fsx.sh does more of them with servers that stay up.
# PANDOFS_SEED=N begins with another seed, PANDOFS_RUNS=N does as many operations with each, PANDOFS_ROUNDS=N takes 4 N seeds
# (`make test-long` takes forty).
# long
# shellcheck source=tests/e2e/_fsx.sh
. ./_fsx.sh

OPERATIONS=${PANDOFS_RUNS:-25000}
FIRST=${PANDOFS_SEED:-101}
ROUNDS=${PANDOFS_ROUNDS:-1}
# At least as many kills in each round.
KILLS=2

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
kills=0
for ((round = 0; round < ROUNDS; round++)); do
    before=$kills
    exercise_four "$((FIRST + 4 * round))" "$OPERATIONS"
    until has_ended "${EXERCISERS[0]}"; do
        kill_server $((kills++ % 4))
        wait_until 'the exercisers to go on' has_read_or_ended $(($(reads) + READS))
    done
    await_exercisers
    [[ $((kills - before)) -ge $KILLS ]] || fail "only $((kills - before)) servers were killed: the exercisers ended too early"
done
say "$OPERATIONS operations with each of the $((4 * ROUNDS)) seeds from $FIRST, servers killed $kills times"
check_online
stop_cluster
