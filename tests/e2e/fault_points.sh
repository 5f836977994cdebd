#!/bin/bash
# Servers are killed at every one of their fault points, of which there are some 250: before and after each kind of record
# is written to the log, before messages leave, when others' have come, around forces and flushes; and the recovery from all
# that. All servers are told to die at the next point where none has died yet, also in the recovery of one that has. After
# that the operation succeeds, every server comes back, fsck finds nothing and the whole tree is what it must be, before
# anybody may die again. In each round one more is killed at a random moment.
# PANDOFS_FAULTS=N stops at N points, and PANDOFS_SEED draws the random moments.
# long
source ./_trial.sh

export PANDOFS_FAULT_POINTS=$SCRATCH/points
mkdir "$PANDOFS_FAULT_POINTS"
trial fault-points --cluster "$CLUSTER" --points "$PANDOFS_FAULT_POINTS" --pandofs "$PANDOFS" \
    --seed "${PANDOFS_SEED:-1}" ${PANDOFS_FAULTS:+--most "$PANDOFS_FAULTS"}
