# kill -9 of a server under load, five times, most of them with a log of about 50 MB: it serves again in
# under 10 s, nothing that was acknowledged is missing, nothing is there twice, and fsck finds nothing.
# PANDOFS_RUNS=N makes it another number of kills; with PANDOFS_MINUTES=N they come at random moments for that long.
# long
source ./_trial.sh

how=(--rounds "${PANDOFS_RUNS:-5}")
[[ -z ${PANDOFS_MINUTES:-} ]] || how=(--minutes "$PANDOFS_MINUTES")
trial kill --cluster "$CLUSTER" "${how[@]}" --seed "${PANDOFS_SEED:-1}" --pandofs "$PANDOFS"
