# shellcheck shell=bash
# Part of tests: `exercise_four SEED OPERATIONS` starts fsx, the file system exerciser, with four seeds from SEED, each on
# a file of its own on the mount. It writes, maps, cuts, punches and copies at random, and compares all that it reads
# with what it remembers.
# One of them can do some 200,000 operations at most: it (0.3.2) leaves what it has mapped to read mapped, one operation
# in three, the kernel gives a process 65,530 maps, and each cut takes longer the more there are. Many seeds cost less.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# Bytes: the largest file and the largest operation. With stripes of STRIPE_UNIT a file is on three servers, and most
# operations are on one or two.
FILE_BYTES=160000
OPERATION_BYTES=16384
# shellcheck disable=SC2034 # The tests use it.
STRIPE_UNIT=65536

# The seeds and the processes of those that exercise_four started.
SEEDS=()
EXERCISERS=()

exercise_four() {
    local seed
    SEEDS=() EXERCISERS=()
    for ((seed = $1; seed < $1 + 4; seed++)); do
        exercise "$seed" "$2"
    done
}

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
    SEEDS+=("$seed")
    EXERCISERS+=("$!")
    started+=("$!")
}

# await_exercisers: each of the four found nothing wrong.
await_exercisers() {
    local seed pid
    for pid in "${EXERCISERS[@]}"; do
        PATIENCE=900 wait_for_end "$pid"
    done
    for seed in "${SEEDS[@]}"; do
        [[ $(tail -n 1 "$SCRATCH/fsx-$seed/output.txt") == 'All operations completed A-OK!' ]] ||
            fail "fsx with seed $seed: $(grep -v '^ *[0-9]* ' "$SCRATCH/fsx-$seed/output.txt" | tail -n 30)"
    done
}
