# shellcheck shell=bash
# Part of tests: `exercise SEED OPERATIONS` starts fsx, the file system exerciser, on a file of its own on the mount.
# It writes, maps, cuts, punches and copies at random, and compares all that it reads with what it remembers.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# Bytes: the largest file and the largest operation. With stripes of STRIPE_UNIT a file is on three servers, and most
# operations are on one or two.
FILE_BYTES=160000
OPERATION_BYTES=16384
# shellcheck disable=SC2034 # The tests use it.
STRIPE_UNIT=65536

EXERCISERS=()

# exercise SEED OPERATIONS: every other seed leaves it to the kernel when what was written to a map is written back.
exercise() {
    local seed=$1 operations=$2 folder=$SCRATCH/fsx-$1
    mkdir "$folder"
    cat >"$folder/fsx.toml" <<TOML
flen = $FILE_BYTES
nomsyncafterwrite = $([[ $((seed % 2)) -eq 0 ]] && echo true || echo false)
[opsize]
# It may allocate no bytes, and takes the system's EINVAL for an error.
min = 1
max = $OPERATION_BYTES
[weights]
close_open = 1
copy_file_range = 2
fdatasync = 0.1
fsync = 0.1
invalidate = 1
mapread = 20
mapwrite = 4
posix_fadvise = 1
posix_fallocate = 1
punch_hole = 1
read = 20
sendfile = 5
truncate = 2
write = 8
TOML
    RUST_BACKTRACE=0 fsx -f "$folder/fsx.toml" -S "$seed" -N "$operations" -P "$folder" "$MNT/file-$seed" \
        >"$folder/output.txt" 2>&1 &
    EXERCISERS+=("$!")
    started+=("$!")
}

# await_exercisers SEED...: each of them found nothing wrong.
await_exercisers() {
    local seed pid
    for pid in "${EXERCISERS[@]}"; do
        PATIENCE=1200 wait_for_end "$pid"
    done
    for seed in "$@"; do
        [[ $(tail -n 1 "$SCRATCH/fsx-$seed/output.txt") == 'All operations completed A-OK!' ]] ||
            fail "fsx with seed $seed: $(grep -v '^ *[0-9]* ' "$SCRATCH/fsx-$seed/output.txt" | tail -n 30)"
    done
}
