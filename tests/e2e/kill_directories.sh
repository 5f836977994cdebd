# As kill.sh, with servers that keep their metadata in directories and files.
# long
source ./_trial.sh

up_options=(--store directories)
how=(--rounds "${PANDOFS_RUNS:-3}")
[[ -z ${PANDOFS_MINUTES:-} ]] || how=(--minutes "$PANDOFS_MINUTES")
trial kill --cluster "$CLUSTER" "${how[@]}" --seed "${PANDOFS_SEED:-1}" --pandofs "$PANDOFS"
