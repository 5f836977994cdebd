#!/bin/bash
# Servers with little memory, and a mount, under load: what they take stays within limits.
# long
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# MiB: what a server is told, what it may take besides (its program, threads, the log, what follows from other
# limits), and what a mount may take. docs/operations.md promises both.
MEMORY=96
BESIDES=144
MOUNT=192
WORKERS=8
MIB=$((1 << 20))
# Each worker does all of its work as one.
PATIENCE=900

expect_refused '--memory 1048576 is too little' "$PANDOFS" up --data "$DATA" --memory 1M --no-mount

start_cluster --memory "${MEMORY}M" --stripe-unit 65536

# most PID FIELD: in MiB.
most() {
    awk -v field="$2:" '$1 == field { print int($2 / 1024) }' "/proc/$1/status"
}

# told WHEN: what all take, and have taken at most.
told() {
    local server
    for ((server = 0; server < 4; server++)); do
        told_of "server $server" "$(server_pid "$server")" "$1"
    done
    told_of 'the mount' "$(cat "$DATA/mount.pid")" "$1"
}
told_of() {
    say "$1 $3: $(most "$2" VmHWM) MiB at most, $(most "$2" VmRSS) MiB now, $(most "$2" RssAnon) MiB of them its own"
}
told 'to begin with'

# Many names, with attributes, in one directory and in many; large files written and read at once.
head -c $((16 * MIB)) /dev/urandom >"$SCRATCH/large"
mkdir "$MNT/names"
# shellcheck disable=SC2317 # It is called below.
work() {
    local number=$1 i
    for ((i = 0; i < 2; i++)); do
        cp "$SCRATCH/large" "$MNT/large-$number-$i"
        cmp "$SCRATCH/large" "$MNT/large-$number-$i"
    done
    mkdir "$MNT/names/$number"
    perl -e 'my ($folder, $shared, $number) = @ARGV;
        my $content = join "", map { chr rand 256 } 1 .. 4000;
        for (1 .. 4000) {
            open my $file, ">", "$folder/" . ("name-" x 20) . $_ or die "$!\n";
            print $file $content;
            close $file or die "$!\n";
            symlink "y" x 500, "$shared/$number-$_" or die "$!\n";
        }' "$MNT/names/$number" "$MNT/names" "$number"
    ls -l "$MNT/names" | wc -l
    find "$MNT/names/$number" -type f -exec cat {} + | wc -c
}
workers=()
for ((number = 0; number < WORKERS; number++)); do
    work "$number" >"$SCRATCH/worker-$number" 2>&1 &
    workers+=("$!")
    started+=("$!")
done
for worker in "${workers[@]}"; do
    wait_for_end "$worker"
    [[ $CODE -eq 0 ]] || fail "a worker ended with $CODE: $(cat "$SCRATCH"/worker-*)"
done
expect_equal 'names' "$(find "$MNT/names" -type l | wc -l)" $((WORKERS * 4000))
told 'under load'
# Past the kernel's cache: a request of the mount for each, with its data.
readers=()
for ((number = 0; number < WORKERS; number++)); do
    for ((i = 0; i < 2; i++)); do
        dd if="$MNT/large-$number-$i" of=/dev/null bs=4M iflag=direct status=none &
        readers+=("$!")
        started+=("$!")
    done
done
for reader in "${readers[@]}"; do
    wait_for_end "$reader"
    expect_equal 'how a reader ended' "$CODE" 0
done
# All that the mount may believe.
expect_equal 'files below' "$(find "$MNT/names" -type f -printf '%s\n' | grep -c .)" $((WORKERS * 4000))
told 'at last'
for ((server = 0; server < 4; server++)); do
    expect_below "MiB that server $server took" "$(most "$(server_pid "$server")" VmHWM)" $((MEMORY + BESIDES))
done
expect_below 'MiB that the mount took' "$(most "$(cat "$DATA/mount.pid")" VmHWM)" "$MOUNT"
check_online
stop_cluster
