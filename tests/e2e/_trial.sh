# Part of tests: `trial NAME [OPTION]...` runs one of the trials in crates/proof/trials on a new cluster of four
# servers without a mount, with fsck at its end and once the servers have stopped. They are made with the options in
# `up_options`.
source ./_common.sh

up_options=()

trial() {
    local trials=${PANDOFS%/*}/pandofs-trials panics
    [[ -x $trials ]] || fail "$trials is not there: cargo build --release --package pandofs-trials"
    # shellcheck disable=SC2016 # The inner shell is to expand it.
    "$PANDOFS" up --servers 4 --no-mount --data "$DATA" "${up_options[@]}" -- \
        bash -euc '"$@" && "$0" fsck --cluster "$CLUSTER"' "$PANDOFS" "$trials" "$@"
    panics=$(grep -hs -A 5 'panicked at' "$DATA"/server-*/log.txt || true)
    [[ -z $panics ]] || fail "a server panicked: $panics"
    expect 'fsck of the stopped cluster' "$PANDOFS" fsck --offline --data "$DATA"
}

# Where the trials find the cluster.
export CLUSTER=$DATA/cluster.json
