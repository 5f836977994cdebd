#!/bin/bash
# What real programs do on a mount is recorded, and comes to the same tree when four clients do it again in an empty
# file system, through the library and through a mount. Where the recording's disk is full, programs notice nothing.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# work DIR: two processes at once, each in a directory of its own and in one that they share.
work() {
    local root=$1 who
    mkdir "$root/shared"
    for who in one two; do
        (
            set -e
            mkdir "$root/$who"
            tar -x -f "$SCRATCH/tree.tar" -C "$root/$who"
            # Files, directories with what is in them, over others, and into the other process's sight.
            mv "$root/$who/d3/f1" "$root/$who/d3/renamed"
            mv "$root/$who/d3/f2" "$root/$who/d3/renamed"
            mv "$root/$who/d4" "$root/$who/moved"
            echo more >>"$root/$who/moved/f1"
            mv "$root/$who/d5" "$root/shared/$who-d5"
            rm -r "$root/$who/d1" "$root/$who/d2/f3"
            # A directory with a name that there was before.
            mkdir "$root/$who/d1"
            seq 3000 >"$root/$who/d1/f1"
            truncate --size=77 "$root/$who/d1/f1"
            ln "$root/$who/d1/f1" "$root/shared/$who-link"
            ln -s somewhere "$root/$who/symbolic"
            mkfifo "$root/$who/fifo"
            ! mkdir "$root/$who/d1" 2>/dev/null
            ! rmdir "$root/$who/moved" 2>/dev/null
            ! stat "$root/$who/missing" >/dev/null 2>&1
            # Written to when it has no name.
            exec 5>"$root/$who/temporary"
            rm "$root/$who/temporary"
            echo gone >&5
            exec 5>&-
            for ((i = 0; i < 40; i++)); do
                echo "$i" >"$root/shared/$who-$i"
                ((i % 3)) || mv "$root/shared/$who-$i" "$root/shared/$who-of-three-$i"
                ((i % 4)) || rm -f "$root/shared/$who-$((i - 2))"
            done
            ls -lR "$root/$who" >/dev/null
        ) &
        eval "$who=$!"
    done
    # shellcheck disable=SC2154 # Both are set by eval.
    wait "$one" && wait "$two"
    touch "$root/shared/all-done"
}
export -f work
export SCRATCH

# A tree of small and larger files, in directories.
mkdir "$SCRATCH/tree"
for ((d = 0; d < 8; d++)); do
    mkdir "$SCRATCH/tree/d$d"
    for ((f = 0; f < 12; f++)); do
        head -c $((f * f * 700)) /dev/zero >"$SCRATCH/tree/d$d/f$f"
    done
done
tar -c -f "$SCRATCH/tree.tar" -C "$SCRATCH/tree" .

# 1. Recorded while a command runs.
start_cluster
mkdir "$SCRATCH/recorded"
expect 'recording' "$PANDOFS" trace record --data "$DATA" --to "$SCRATCH/work.trace" "$SCRATCH/recorded" \
    -- bash -euc 'work "$0"' "$SCRATCH/recorded" 2>"$SCRATCH/record-log.txt"
! is_mounted "$SCRATCH/recorded" || fail 'it is still mounted'
cp -a "$MNT/." "$SCRATCH/original"
summary=$("$PANDOFS" trace summarize --json "$SCRATCH/work.trace")
for wanted in mkdir:18 create:2 rmdir:2 rename:32 renamedir:4 unlink:40 lookup:100 link:2 symlink:2 mknod:2 write:100; do
    kind=${wanted%:*}
    expect_above "recorded $kind" "$(jq ".operations.$kind // 0" <<<"$summary")" $((${wanted#*:} - 1))
done
expect_equal 'rows of table I' "$(jq -r '.table_1 | map(.operation) | join(" ")' <<<"$summary")" \
    'lookup stat open unlink create rename mkdir rmdir renamedir'
expect_equal 'failed removals' "$(jq .failed.rmdir <<<"$summary")" 2
expect_above 'failed lookups' "$(jq .failed.lookup <<<"$summary")" 1
expect_equal 'a cut' "$(jq .cut_short <<<"$summary")" false
# Of the files without a name.
expect_equal 'writes left out' "$(jq .left_out.write <<<"$summary")" 2
expect_below 'operations left out' "$(jq '.left_out | add' <<<"$summary")" 20
expect_contains 'the table' "$("$PANDOFS" trace summarize "$SCRATCH/work.trace")" 'directory rename'
say "recorded $(jq '.operations | add' <<<"$summary") operations of $(jq .clients <<<"$summary") threads"

# The command's exit code is that of the recording; what cannot be written to is refused before anything is run.
code=0
"$PANDOFS" trace record --data "$DATA" --to "$SCRATCH/short.trace" "$SCRATCH/recorded" -- sh -c 'exit 7' 2>/dev/null || code=$?
expect_equal 'the exit code' "$code" 7
expect_refused 'No space left on device' "$PANDOFS" trace record --data "$DATA" --to /dev/full "$SCRATCH/recorded" -- true
! is_mounted "$SCRATCH/recorded" || fail 'it is mounted though it cannot be recorded'

# 2. A disk that becomes full ends the recording: programs go on, and what was recorded can be read.
if [[ $EUID -eq 0 ]] && mkdir "$SCRATCH/small" && mount -t tmpfs -o size=64k none "$SCRATCH/small"; then
    mkdir "$MNT/again"
    mount_also "$SCRATCH/also" --trace "$SCRATCH/small/full.trace"
    expect 'programs with a full disk' bash -euc 'work "$0"' "$SCRATCH/also/again"
    wait_until 'the message' grep -q 'the recording ends here' "$SCRATCH/also-log.txt"
    [[ -e $MNT/again/shared/all-done ]] || fail 'programs did not come to their end'
    expect 'unmounting' "$PANDOFS" umount "$SCRATCH/also"
    wait_for_end "$MOUNT_PID"
    expect_equal "the mount's exit code" "$CODE" 0
    summary=$("$PANDOFS" trace summarize --json "$SCRATCH/small/full.trace")
    expect_equal 'a cut' "$(jq .cut_short <<<"$summary")" true
    expect_above 'what was recorded before' "$(jq '.operations | add' <<<"$summary")" 100
    umount "$SCRATCH/small"
    say "recorded $(jq '.operations | add' <<<"$summary") operations until the disk was full"
fi
stop_cluster

# 3. Done again in an empty file system, whose mount is recorded too.
DATA=$SCRATCH/other-data
start_cluster --trace "$SCRATCH/up.trace"
same() {
    local left
    left=$(find "$1" -mindepth 1 | wc -l)
    expect_above 'entries' "$left" 200
    # What links lead to is not recorded, but how long it is.
    expect 'the same tree' "$PANDOFS" cmp --quick --exclude symbolic "$SCRATCH/original" "$1"
    for who in one two; do
        expect_equal 'the link' "$(readlink "$1/$who/symbolic" | wc -c)" "$(readlink "$SCRATCH/original/$who/symbolic" | wc -c)"
        expect_equal 'names of a file' "$(stat -c %h "$1/shared/$who-link")" 2
    done
}
"$PANDOFS" trace replay --data "$DATA" --clients 4 --json "$SCRATCH/work.trace" >"$SCRATCH/replayed"
expect_equal 'results that differ' "$(jq -c .replayed.differing "$SCRATCH/replayed")" '{}'
same "$MNT"/pandofs-trace-*
say "replayed through the library in $(jq .seconds "$SCRATCH/replayed") s"
mkdir "$MNT/on"
"$PANDOFS" trace replay --on "$MNT/on" --clients 4 --json "$SCRATCH/work.trace" >"$SCRATCH/replayed"
expect_equal 'results that differ on a mount' "$(jq -c .replayed.differing "$SCRATCH/replayed")" '{}'
same "$MNT"/on/pandofs-trace-*
say "replayed through the mount in $(jq .seconds "$SCRATCH/replayed") s"
"$PANDOFS" trace replay --data "$DATA" ../../crates/papers/workload/traces/fpfs-table-1.trace >"$SCRATCH/table"
expect_contains 'the shipped trace' "$(cat "$SCRATCH/table")" 'operations a second'
# As many clients as FPFS was measured with, in the order of each, and as they come.
"$PANDOFS" trace synthetic --scale 0.0002 --clients 256 "$SCRATCH/crowd.trace" >"$SCRATCH/table"
for clients in '' '--clients 256'; do
    # shellcheck disable=SC2086 # Two words or none.
    "$PANDOFS" trace replay --data "$DATA" $clients --json "$SCRATCH/crowd.trace" >"$SCRATCH/replayed"
    expect_equal 'clients of the crowd' "$(jq .clients "$SCRATCH/replayed")" 256
    expect_equal 'operations of the crowd' "$(jq '.operations | add' "$SCRATCH/replayed")" 3888
    expect_equal 'results of the crowd that differ' "$(jq -c '.replayed.examples // []' "$SCRATCH/replayed")" '[]'
    say "256 clients took $(jq .seconds "$SCRATCH/replayed") s"
done
expect_refused '1 to 256 clients, not 257' "$PANDOFS" trace replay --data "$DATA" --clients 257 "$SCRATCH/crowd.trace"
check_online
stop_cluster
summary=$("$PANDOFS" trace summarize --json "$SCRATCH/up.trace")
expect_equal 'a cut of the whole mount' "$(jq .cut_short <<<"$summary")" false
expect_above 'what the replay did through the mount' "$(jq .operations.renamedir <<<"$summary")" 3
