#!/bin/bash
# test-long.sh PANDOFS [NAME...]: tests that take too long for each commit, or those named: huge, soak, sim, commit, fsx,
# faults, planted, power, model, install, python, torch, fuzz. Each runs whatever became of those before it. With
# docs/testing.md, which says when each last ran. PANDOFS_ENTRIES, PANDOFS_MINUTES, PANDOFS_SEEDS and FUZZ_SECONDS are how much of it.
set -uo pipefail
PANDOFS=$(realpath "$1")
shift
cd "$(dirname "$0")/.." || exit 1
names=("$@")
[[ ${#names[@]} -gt 0 ]] || names=(huge soak sim commit fsx faults planted power model install python torch fuzz)

entries=${PANDOFS_ENTRIES:-1000000}
minutes=${PANDOFS_MINUTES:-10}
seeds=${PANDOFS_SEEDS:-10000}
fuzz_seconds=${FUZZ_SECONDS:-30}
# For the tests that follow they mean something else.
unset PANDOFS_MINUTES PANDOFS_SEEDS PANDOFS_ENTRIES
# Seconds that an end-to-end test may take here.
export PANDOFS_LIMIT=14400

# e2e VARIABLE=VALUE... NAME: an end-to-end test, with what it says.
e2e() {
    env PANDOFS_TELL=1 "${@:1:$#-1}" scripts/e2e.sh "$PANDOFS" "${@: -1}"
}

# step NAME: 77 if what it needs is not there.
step() {
    case $1 in
    huge) e2e PANDOFS_RUNS="$entries" huge_directory ;;
    soak) scripts/soak.sh "$PANDOFS" "$minutes" ;;
    sim)
        PANDOFS_PLANTED=all cargo test --release --package pandofs-sim --test planted &&
            cargo xtask sim --seeds "$seeds"
        ;;
    commit)
        PANDOFS_SEEDS=$seeds cargo test --release --package pandofs-commit --test random_operations &&
            PANDOFS_SEEDS=$seeds cargo test --release --package pandofs-shard --test shard forged
        ;;
    fsx) e2e PANDOFS_ROUNDS=25 PANDOFS_SEED=1001 fsx && e2e PANDOFS_ROUNDS=10 PANDOFS_SEED=2001 fsx_restart ;;
    faults)
        e2e PANDOFS_SEED=2 fault_points && e2e PANDOFS_SEED=3 fault_points
        ;;
    planted) cargo xtask faults ;;
    power) e2e PANDOFS_RUNS=20 power_cut ;;
    model) PANDOFS_MODEL=full cargo test --release --package pandofs-model --test claims -- --nocapture ;;
    install)
        root=$(mktemp -d)
        trap 'rm -rf "$root"' EXIT
        cargo install --quiet --locked --path crates/walk/walk-tools --root "$root" &&
            "$root/bin/pandofs-walk" cmp "$root" "$root"
        ;;
    python) e2e python_data ;;
    torch) e2e python_torch ;;
    fuzz) scripts/fuzz.sh "$fuzz_seconds" ;;
    *)
        echo "test-long: there is no '$1' (${names[*]})" >&2
        return 2
        ;;
    esac
}

failed=()
left_out=()
for name in "${names[@]}"; do
    began=$SECONDS
    code=0
    echo "--- $name"
    # In a shell of its own, so that what one exports no other sees.
    (step "$name") || code=$?
    case $code in
    0) ;;
    77) left_out+=("$name") ;;
    *) failed+=("$name") ;;
    esac
    [[ -z ${PANDOFS_TIMES:-} ]] || printf 'step\t%s\t%s\n' $((SECONDS - began)) "$name" >>"$PANDOFS_TIMES"
done
echo
echo "test-long: ${#names[@]} tests, ${#failed[@]} failed (${failed[*]}), ${#left_out[@]} left out (${left_out[*]})"
[[ ${#failed[@]} -eq 0 ]]
