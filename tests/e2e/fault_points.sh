#!/bin/bash
# A server is killed at each of its fault points in turn: before and after each kind of record is written to its log,
# before its messages leave, when others' have come, around forces and flushes; and the recovery from all that. After
# each kill everything is as it must be, and fsck finds nothing.
source ./_trial.sh

export PANDOFS_FAULT_POINTS=$SCRATCH/points
mkdir "$PANDOFS_FAULT_POINTS"
trial fault-points --cluster "$CLUSTER" --points "$PANDOFS_FAULT_POINTS" --pandofs "$PANDOFS" \
    --seed "${PANDOFS_SEED:-1}" ${PANDOFS_FAULTS:+--most "$PANDOFS_FAULTS"}
