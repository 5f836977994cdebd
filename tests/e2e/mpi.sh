#!/bin/bash
# 'mpirun -n N pandofs walk' walks with N processes together, and says what to do where it cannot.
set -euo pipefail
# shellcheck source=tests/e2e/_mpi.sh
. ./_mpi.sh
cd "$SCRATCH"

# launch ARGUMENT...: mpirun, with what it prints in the files out and error. One that hung is started again.
launch() {
    local try code
    for ((try = 0; try < 4; try++)); do
        mpirun "$@" >out 2>error &
        code=0
        await $! || code=$?
        [[ $code -eq 137 ]] || return "$code"
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
# Each algorithm, those with queues that are shared with threads.
for algorithm in cp cp-keep-one drqs deqs pa-drqs h-drqs h-deqs; do
    threads=()
    [[ $algorithm != h-* ]] || threads=(--threads 2)
    launch -n 3 "$PANDOFS" walk --algorithm "$algorithm" "${threads[@]}" --list nul /usr/share || {
        cat error
        exit 1
    }
    sort -z out >found
    cmp expected found
done

# Started together, but without what is linked to MPI: an error, not four walks.
mkdir alone
for program in "$PANDOFS" "$PANDOFS-walk"; do
    ln "$program" alone/ 2>/dev/null || cp "$program" alone/
done
if launch -n 4 "alone/${PANDOFS##*/}" walk /usr/share; then
    echo "it went on without pandofs-mpi"
    exit 1
fi
grep -q 'there is no pandofs-mpi' error
[[ ! -s out ]]

# A command line that makes no sense, and an archive that is none, have the codes that they have without MPI.
# code ARGUMENT...: what the tool exits with, over two processes.
code() {
    local got=0
    launch -n 2 "$PANDOFS" "$@" || got=$?
    echo "$got"
}
echo nonsense >none.tar
for words in "chown nobody-is-called-so none.tar" "sum none.tar none.tar" "tar -xf none.tar"; do
    # shellcheck disable=SC2086
    got=$(code $words)
    [[ $got -eq 2 ]] || {
        echo "$words: exit code $got"
        cat error
        exit 1
    }
done
