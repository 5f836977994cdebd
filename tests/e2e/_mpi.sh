# What tests share that start processes with mpirun; after _common.sh or in its place.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR=/tmp

command -v mpirun >/dev/null || {
    echo "needs mpirun"
    exit 77
}
for program in "$PANDOFS-walk" "$PANDOFS-mpi"; do
    [[ -x $program ]] || {
        echo "${program##*/} was not built"
        exit 1
    }
done

# is_alive PROCESS
is_alive() {
    [[ -e /proc/$1 ]] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null
}

# living_children PROCESS: their ids.
living_children() {
    local child
    for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null || true); do
        ! is_alive "$child" || echo "$child"
    done
}

# await LAUNCHER: waits for mpirun, and returns its code. That of Open MPI 4.1 at times hangs after its last process has
# ended (see crates/walk/walk-mpi/tests/ranks.rs): then it is killed, and the code is that of a process that was.
await() {
    local quiet=0 had_some=
    while is_alive "$1" && ((quiet < 200)); do
        if [[ -n $(living_children "$1") ]]; then
            had_some=1 quiet=0
        elif [[ $had_some ]]; then
            quiet=$((quiet + 1))
        fi
        sleep 0.05
    done
    if ((quiet >= 200)); then
        echo "mpirun hung after all of its processes had ended"
        kill -KILL "$1"
    fi
    wait "$1"
}
