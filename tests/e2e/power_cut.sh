#!/bin/bash
# The machine of one of three servers loses its power under load, and with it what was not forced: log, store and data
# objects are on a file system that forgets (pandofs-lossy). What was forced is there, what was not is of the old or a
# newer version, programs are told of what was lost, and fsck finds nothing. PANDOFS_RUNS=N makes it another number of
# losses, PANDOFS_SEED=S another draw.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

TRIALS=${PANDOFS%/*}/pandofs-trials
LOSSY=${PANDOFS%/*}/pandofs-lossy
[[ -x $TRIALS && -x $LOSSY ]] || fail "$TRIALS is not there: cargo build --release --package pandofs-trials"
[[ $EUID -eq 0 ]] || skip 'only root may mount a disk for a server'
expect 'the trial' timeout --kill-after=10 600 "$TRIALS" power-cut --pandofs "$PANDOFS" --lossy "$LOSSY" --folder "$SCRATCH/cluster" \
    --seed "${PANDOFS_SEED:-2}" --rounds "${PANDOFS_RUNS:-3}"
