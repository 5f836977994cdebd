#!/bin/bash
# fsx, the file system exerciser that others wrote: 600,000 operations with four seeds at once, maps among them.
# PANDOFS_SEED=N begins with another seed, PANDOFS_RUNS=N does as many operations with each.
# shellcheck source=tests/e2e/_fsx.sh
. ./_fsx.sh

OPERATIONS=${PANDOFS_RUNS:-150000}
FIRST=${PANDOFS_SEED:-1}
SEEDS=("$FIRST" "$((FIRST + 1))" "$((FIRST + 2))" "$((FIRST + 3))")

start_cluster --stripe-unit "$STRIPE_UNIT"
for seed in "${SEEDS[@]}"; do
    exercise "$seed" "$OPERATIONS"
done
await_exercisers "${SEEDS[@]}"
say "$OPERATIONS operations with each of the seeds ${SEEDS[*]}"
check_online
stop_cluster
