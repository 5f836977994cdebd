#!/bin/bash
# 'mpirun -n N pandofs walk' walks with N processes together, and says what to do where it cannot.
set -euo pipefail
cd "$SCRATCH"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR=/tmp

command -v mpirun >/dev/null || {
    echo "needs mpirun"
    exit 77
}
[[ -x $PANDOFS-mpi ]] || {
    echo "pandofs-mpi was not built"
    exit 1
}

has_living_children() {
    local child
    for child in $(cat "/proc/$1/task/$1/children" 2>/dev/null); do
        ! grep -q '^State:[[:space:]]*Z' "/proc/$child/status" 2>/dev/null || continue
        return 0
    done
    return 1
}

# launch ARGUMENT...: mpirun, with what it prints in the files out and error. That of Open MPI 4.1 at times hangs after
# its last process has ended (see crates/walk-mpi/tests/ranks.rs): then it is started again.
launch() {
    local try launcher quiet had_some
    for ((try = 0; try < 4; try++)); do
        mpirun "$@" >out 2>error &
        launcher=$! quiet=0 had_some=
        while [[ -e /proc/$launcher ]] && ! grep -q '^State:[[:space:]]*Z' "/proc/$launcher/status" && ((quiet < 200)); do
            if has_living_children "$launcher"; then
                had_some=1 quiet=0
            elif [[ $had_some ]]; then
                quiet=$((quiet + 1))
            fi
            sleep 0.05
        done
        if ((quiet < 200)); then
            wait "$launcher"
            return
        fi
        echo "mpirun hung after all of its processes had ended"
        kill -KILL "$launcher"
        wait "$launcher" || true
    done
    return 1
}

find /usr/share -print0 2>/dev/null | sort -z >expected
for ranks in 1 4 8; do
    launch -n "$ranks" "$PANDOFS" walk --list nul /usr/share || {
        cat error
        exit 1
    }
    sort -z out >found
    cmp expected found
done

# Started together, but without what is linked to MPI: an error, not four walks.
mkdir alone
ln "$PANDOFS" alone/pandofs 2>/dev/null || cp "$PANDOFS" alone/pandofs
if launch -n 4 alone/pandofs walk /usr/share; then
    echo "it went on without pandofs-mpi"
    exit 1
fi
grep -q 'there is no pandofs-mpi' error
[[ ! -s out ]]
