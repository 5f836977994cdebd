#!/bin/bash
# A server is killed at one after the other of its fault points: before and after each kind of record is written to its
# log, before its messages leave, when others' have come, around forces and flushes; and the recovery from all that.
# After each kill everything is as it must be, and fsck finds nothing. There are some 250; without PANDOFS_FAULTS=N it
# is 50 of them, which PANDOFS_SEED draws.
source ./_trial.sh

export PANDOFS_FAULT_POINTS=$SCRATCH/points
mkdir "$PANDOFS_FAULT_POINTS"
trial fault-points --cluster "$CLUSTER" --points "$PANDOFS_FAULT_POINTS" --pandofs "$PANDOFS" \
    --seed "${PANDOFS_SEED:-1}" --most "${PANDOFS_FAULTS:-50}"
