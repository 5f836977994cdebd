#!/bin/bash
# fsx, the file system exerciser that others wrote: 200,000 operations, 25,000 with each of eight seeds, four at once,
# maps among them, while the servers stay up. fsx_restart.sh does fewer while they are killed.
# PANDOFS_SEED=N begins with another seed, PANDOFS_RUNS=N does as many operations with each, PANDOFS_ROUNDS=N takes 4 N seeds
# (`make test-long` takes a hundred).
# long
# shellcheck source=tests/e2e/_fsx.sh
. ./_fsx.sh

OPERATIONS=${PANDOFS_RUNS:-25000}
FIRST=${PANDOFS_SEED:-1}
ROUNDS=${PANDOFS_ROUNDS:-2}

start_cluster --stripe-unit "$STRIPE_UNIT"
for ((round = 0; round < ROUNDS; round++)); do
    exercise_four "$((FIRST + 4 * round))" "$OPERATIONS"
    await_exercisers
done
say "$OPERATIONS operations with each of the $((4 * ROUNDS)) seeds from $FIRST"
check_online
stop_cluster
