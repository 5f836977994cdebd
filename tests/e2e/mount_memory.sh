#!/bin/bash
# A mount takes no more memory than it is given, the least there may be or as much as by default, and all that is written through it is
# right: while many programs write and read large files at once, while many names are looked at, and while a server is
# stopped and programs wait for it, more than the mount has threads for.
# long
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# MiB.
DEFAULT=1024
PROGRAMS=64
# Waiting programs that write, and as many that read.
WAITING=130
NAMES=12000
MIB=$((1 << 20))
UNIT=65536
# Each part of the load is waited for as one.
PATIENCE=900

# most FIELD: of the mount's process, in KiB.
most() {
    awk -v field="$1:" '$1 == field { print $2 }' "/proc/$mount/status"
}

# wait_for_all WHAT PID...: all of them end with 0.
wait_for_all() {
    local what=$1 pid
    shift
    for pid in "$@"; do
        wait_for_end "$pid"
        expect_equal "how a program ended that $what" "$CODE" 0
    done
}

# write NUMBER FILE, and read NUMBER FILE: in the background, a file whose content follows from its number.
write() {
    content "$1" | dd of="$2" bs=$MIB iflag=fullblock conv=notrunc status=none &
    running+=("$!")
    started+=("$!")
}
read_back() {
    dd if="$2" bs=$MIB iflag=direct status=none | cmp - <(content "$1") &
    running+=("$!")
    started+=("$!")
}
# content NUMBER: 4 MiB of which no two pieces are the same, in this file or another.
content() {
    perl -e 'my $piece = substr(join("", map { chr($_ * 7 % 251) } 1 .. 251) x 17, 0, 4088);
        print pack("NN", $ARGV[0], $_), $piece for 1 .. 1024' "$1"
}

# is_within WHEN
is_within() {
    say "$1: $(($(most VmHWM) >> 10)) MiB at most, $(($(most VmRSS) >> 10)) MiB now, $(most Threads) threads"
    expect_below "KiB that the mount took, $1" "$(most VmHWM)" $((memory << 10))
}

has_threads() {
    [[ $(most Threads) -ge $1 ]]
}

# load: with the mount of process $mount, which was given $memory MiB, in a directory that is not there yet.
load() {
    local dir=$1 number threads waiting stopped
    mkdir "$dir"
    is_within 'to begin with'
    threads=$(most Threads)
    running=()
    for ((number = 0; number < PROGRAMS; number++)); do
        write "$number" "$dir/file-$number"
    done
    wait_for_all 'wrote' "${running[@]}"
    is_within "after $PROGRAMS programs wrote"
    running=()
    for ((number = 0; number < PROGRAMS; number++)); do
        read_back "$number" "$dir/file-$number"
    done
    wait_for_all 'compared' "${running[@]}"
    is_within "after $PROGRAMS programs read"

    mkdir "$dir/names"
    perl -e 'for (1 .. $ARGV[1]) { open my $file, ">", "$ARGV[0]/" . ("name-" x 10) . $_ or die "$!\n" }' "$dir/names" $NAMES
    for ((number = 0; number < 2; number++)); do
        expect_equal 'names' "$(find "$dir/names" -type f -printf '%s\n' | grep -c .)" $NAMES
        expect_equal 'lines of ls' "$(ls -l "$dir/names" | wc -l)" $((NAMES + 1))
    done
    is_within "after $NAMES names were looked at"

    # Every file needs every server.
    for ((number = 0; number < WAITING; number++)); do
        : >"$dir/waiting-$number"
    done
    stopped=$(server_pid 1)
    kill -STOP "$stopped"
    running=()
    for ((number = 0; number < WAITING; number++)); do
        write "$number" "$dir/waiting-$number"
        read_back $((number % PROGRAMS)) "$dir/file-$((number % PROGRAMS))"
    done
    # Those there are by now, and as many spare ones as there may be.
    waiting=$(grep -oP ' \K[0-9]+(?= threads for those that wait)' "$log" | tail -n 1)
    wait_until 'as many programs to wait as may' has_threads $((threads + waiting))
    is_within "with $((2 * WAITING)) programs that wait"
    kill -CONT "$stopped"
    wait_for_all 'waited' "${running[@]}"
    is_within 'after they have gone on'
    running=()
    for ((number = 0; number < WAITING; number++)); do
        read_back "$number" "$dir/waiting-$number"
    done
    wait_for_all 'compared' "${running[@]}"
    is_within 'at last'
    rm -r "$dir"
}

refused=$("$PANDOFS" up --data "$DATA" --mount "$MNT" --mount-memory 16M 2>&1) && fail 'it was mounted with 16 MiB'
expect_contains 'why it was not mounted' "$refused" '16777216 bytes of memory are too little for a mount with 16 threads: give '
[[ ! -e $DATA/cluster.json ]] || fail 'a file system was made for a mount that cannot be'
least=$(grep -oP 'give \K[0-9]+(?=M at least)' <<<"$refused")
start_cluster --stripe-unit $UNIT --mount-memory "${least}M"
mkdir "$SCRATCH/other"
expect_refused "give ${least}M at least" "$PANDOFS" mount --data "$DATA" --memory $((least - 1))M "$SCRATCH/other"
expect_refused "give ${least}M at least" "$PANDOFS" mount --data "$DATA" -o "memory=$((least - 1))M" "$SCRATCH/other"

memory=$least
mount=$(cat "$DATA/mount.pid")
log=$DATA/mount-log.txt
say "a mount with $memory MiB"
load "$MNT/little"
expect umount "$PANDOFS" umount "$MNT"

memory=$DEFAULT
mount_also "$MNT"
mount=$MOUNT_PID
log=$MNT-log.txt
say 'a mount with as much as by default'
load "$MNT/default"
expect umount "$PANDOFS" umount "$MNT"
check_online
stop_cluster
