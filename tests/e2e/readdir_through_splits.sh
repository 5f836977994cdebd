# A directory is listed while it splits from 1 to 16 partitions, which are then merged, and 8 clients create, rename and remove
# other names: every file that stands throughout is listed exactly once, in each of 50 runs.
# PANDOFS_RUNS=N makes it another number.
source ./_trial.sh

trial readdir-through-splits --cluster "$CLUSTER" --runs "${PANDOFS_RUNS:-50}" --seed "${PANDOFS_SEED:-1}"
