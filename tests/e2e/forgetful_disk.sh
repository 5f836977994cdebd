#!/bin/bash
# As power_cut.sh, with a disk that answers forces and does not do one of 16. What was forced may be lost then; but
# nothing hangs or panics, nobody reads what was never written there, and fsck and a server that does not start say why.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

TRIALS=${PANDOFS%/*}/pandofs-trials
LOSSY=${PANDOFS%/*}/pandofs-lossy
[[ -x $TRIALS && -x $LOSSY ]] || fail "$TRIALS is not there: cargo build --release --package pandofs-trials"
[[ $EUID -eq 0 ]] || skip 'only root may mount a disk for a server'
for seed in 1 2 3; do
    expect "the trial with seed $seed" timeout --kill-after=10 300 "$TRIALS" power-cut --pandofs "$PANDOFS" --lossy "$LOSSY" \
        --folder "$SCRATCH/cluster-$seed" --seed "$seed" --rounds 2 --lie
done
