#!/bin/bash
# Machines of servers that lose power while a mount lives on (the servers believe so): fsync of each file and directory
# that was changed through the mount before, and was not forced, fails with EIO once, and once through each descriptor
# that was open all the time. What was forced is there, and no
# fsync of it fails; nor does any after servers were only killed.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

UNIT=65536
LOST='Input/output error'

# start_machine_anew NUMBER...: kills these servers, and has them believe that their machine was started anew before
# they were started again. Until that is done `up` starts none.
start_machine_anew() {
    local server killed
    kill -STOP "$UP"
    for server in "$@"; do
        killed=$(server_pid "$server")
        kill -KILL "$killed"
        wait_until "the end of server $server" has_ended "$killed"
        pretend_new_boot "$server"
    done
    kill -CONT "$UP"
    wait_until 'all servers to answer' all_servers_answer
}

# fails_once PATH...: fsync of each fails, the next one does not, nor the one after that.
fails_once() {
    local path
    for path in "$@"; do
        expect_refused "$LOST" sync "$path"
        expect "the second fsync of $path" sync "$path"
        expect "the third fsync of $path" sync "$path"
    done
}

# fsync_of DESCRIPTOR
fsync_of() {
    python3 -c 'import os, sys; os.fsync(int(sys.argv[1]))' "$1"
}

# each_fails_once DESCRIPTOR...: fsync through each of them, all of one file, fails, whoever was told before; the next one
# does not.
each_fails_once() {
    local descriptor
    for descriptor in "$@"; do
        expect_refused "$LOST" fsync_of "$descriptor"
        expect "the second fsync of descriptor $descriptor" fsync_of "$descriptor"
    done
}

# does_not_fail PATH...: fsync of all of them.
does_not_fail() {
    local path
    for path in "$@"; do
        expect "fsync of $path" sync "$path"
    done
}

# change NAME: a file of several units and one that fits its inode, a directory with names, and a file with a new name:
# all made, and nothing forced. The first one stays open, for writing, as descriptors 7 and 8, as if by
# two programs.
change() {
    exec 7>"$MNT/$1-large"
    exec 8>>"$MNT/$1-large"
    cat "$SCRATCH/content" >&7
    echo small >"$MNT/$1-small"
    mkdir "$MNT/$1-names"
    touch "$MNT/$1-names/"{a,b,c}
    echo moved >"$MNT/$1-before"
    mv "$MNT/$1-before" "$MNT/$1-moved"
}

# changed NAME: what is to be forced of that; the root has new names.
changed() {
    printf '%s\n' "$MNT/$1-"{large,small,names,names/a,moved} "$MNT"
}

head -c $((8 * UNIT)) /dev/urandom >"$SCRATCH/content"
start_cluster --servers 2 --stripe-unit $UNIT
change forced
exec 7>&- 8>&-
mapfile -t forced < <(changed forced)
does_not_fail "${forced[@]}"

# 1. Servers that are killed have lost nothing.
change killed
kill_server 0
kill_server 1
mapfile -t killed < <(changed killed)
does_not_fail "${killed[@]}"
exec 7>&- 8>&-
say 'no fsync failed after servers were killed'

# 2. Their machine is started anew. Another mount has changed nothing and is told nothing.
mount_also "$SCRATCH/other"
ls -l "$SCRATCH/other" >/dev/null
change lost
start_machine_anew 0 1
does_not_fail "$SCRATCH/other" "$SCRATCH/other/lost-large" "$SCRATCH/other/lost-names"
does_not_fail "${forced[@]:0:5}" "${killed[@]:0:5}"
mapfile -t lost < <(changed lost)
fails_once "${lost[@]}"
for path in "${lost[@]}"; do
    # Inodes are told as SHARD.SERIAL.
    ino=$(stat -c %i "$path")
    ino=$((ino >> 48)).$((ino & ((1 << 48) - 1)))
    told=$(grep -c "changes of inode $ino that server [01] had acknowledged may be lost" "$DATA/mount-log.txt" || true)
    expect_above "what the mount's log says of $path" "$told" 0
done
each_fails_once 7 8
say 'each fsync of what was not forced failed once, and none of what was'

# What is changed from then on counts anew, through the descriptor that was open all the time as well.
cat "$SCRATCH/content" >&7
echo again >>"$MNT/lost-small"
touch "$MNT/lost-names/d"
does_not_fail "${lost[@]}"
exec 7>&- 8>&-
# And is as safe as anything that was forced.
start_machine_anew 0 1
does_not_fail "${forced[@]}" "${killed[@]}" "${lost[@]}"
say 'what was changed and forced afterwards was not lost'

# 3. What a program did in between does not hide it: it reads, writes, and closes; and one of two machines suffices.
change half
start_machine_anew 1
cmp "$MNT/half-large" "$SCRATCH/content"
printf x >&7
exec 7>&- 8>&-
fails_once "$MNT/half-large"
start_machine_anew 0
mapfile -t half < <(changed half)
for path in "${half[@]}"; do
    # Of what was on the one server alone, or was forced with it, there may be nothing to tell any more.
    sync "$path" 2>/dev/null || true
done
does_not_fail "${half[@]}"
say 'one of two machines suffices, whatever was done in between'

# 4. All that was forced is there, for whoever reads it from the servers.
expect umount "$PANDOFS" umount "$SCRATCH/other"
expect umount "$PANDOFS" umount "$MNT"
mount_also "$MNT"
for name in forced killed; do
    expect "the content of $name-large" cmp "$MNT/$name-large" "$SCRATCH/content"
    expect_equal "the content of $name-small" "$(cat "$MNT/$name-small")" small
    expect_equal "the names of $name" "$(ls "$MNT/$name-names")" $'a\nb\nc'
    expect_equal "the content of $name-moved" "$(cat "$MNT/$name-moved")" moved
done
cat "$SCRATCH/content" "$SCRATCH/content" | cmp - "$MNT/lost-large" || fail 'the content of lost-large'
expect_equal 'the content of lost-small' "$(cat "$MNT/lost-small")" $'small\nagain'
expect_equal 'the names of lost' "$(ls "$MNT/lost-names")" $'a\nb\nc\nd'
expect umount "$PANDOFS" umount "$MNT"
check_online
stop_cluster
