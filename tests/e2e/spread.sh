# 100,000 files in one directory of 4 servers: entries per server within 10 % of even, under 0.1 % of the
# requests redirected, and none once the directory has stopped growing.
source ./_trial.sh

trial spread --cluster "$CLUSTER" --files 100000 --clients 8 --seed "${PANDOFS_SEED:-1}"
