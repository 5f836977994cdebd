# shellcheck shell=bash
# Part of tests: servers whose disk fails or is slow. `with_faults` has the programs that are started from then on
# read and force through _disk.c; `fault NAME [TEXT]` sets or ends a fault.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

FAULTS=$SCRATCH/faults

with_faults() {
    command -v cc >/dev/null || skip 'a C compiler is missing'
    mkdir "$FAULTS"
    cc -O2 -fPIC -shared -o "$SCRATCH/disk.so" _disk.c -ldl
    export DISK_FAULTS=$FAULTS DISK_SLOW=$DATA/server-1/ LD_PRELOAD=$SCRATCH/disk.so
}

fault() {
    if [[ $# -gt 1 ]]; then
        echo "$2" >"$FAULTS/$1.new"
        mv "$FAULTS/$1.new" "$FAULTS/$1"
    else
        rm -f "$FAULTS/$1"
    fi
}
