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

find /usr/share -print0 2>/dev/null | sort -z >expected
for ranks in 1 4 8; do
    mpirun -n "$ranks" "$PANDOFS" walk --list nul /usr/share | sort -z >found
    cmp expected found
done

# Started together, but without what is linked to MPI: an error, not four walks.
mkdir alone
ln "$PANDOFS" alone/pandofs 2>/dev/null || cp "$PANDOFS" alone/pandofs
if mpirun -n 4 alone/pandofs walk /usr/share >out 2>error; then
    echo "it went on without pandofs-mpi"
    exit 1
fi
grep -q 'there is no pandofs-mpi' error
[[ ! -s out ]]
