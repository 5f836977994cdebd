#!/bin/bash
# An NFS server exports a mount. Its client writes, reads, lists, renames and removes; what it has open stays good while
# servers are killed, and when servers, mount and NFS server are all started again. The NFS server is no kernel's: as that
# does it takes handles from the file system (name_to_handle_at) and comes back with them (open_by_handle_at).
# alone: the mount is to have the device number again that it had.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root opens files by their handles'
# The port mapper has one address and one socket on a machine: here it has both for this test alone.
if [[ -z ${NAMESPACE-} ]]; then
    NAMESPACE=own exec unshare --mount --net --propagation private bash "$0"
fi
drop_other_mounts
mount -t tmpfs tmpfs /run
ip link set lo up
rpcbind -f >"$SCRATCH/rpcbind.txt" 2>&1 &
started+=("$!")
cc -O2 -Wall -Werror -o "$SCRATCH/nfs_client" _nfs_client.c -lnfs

EXPORT='nfs://127.0.0.1/pando?nfsport=2049&mountport=2050&version=3'
MANY=3000
mkdir "$SCRATCH/recovery"
# With a number of its own, as no block device is below the mount.
cat >"$SCRATCH/ganesha.conf" <<CONF
NFS_CORE_PARAM { Protocols = 3; NFS_Port = 2049; MNT_Port = 2050; Enable_NLM = false; Enable_RQUOTA = false;
    mount_path_pseudo = true; }
NFSV4 { Graceless = true; RecoveryRoot = $SCRATCH/recovery; }
EXPORT { Export_Id = 1; Path = $MNT; Pseudo = /pando; Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
    Filesystem_Id = 100.1; FSAL { Name = VFS; } }
LOG { Default_Log_Level = EVENT; }
CONF

start_nfs_server() {
    ganesha.nfsd -F -f "$SCRATCH/ganesha.conf" -L "$SCRATCH/ganesha-log.txt" -p "$SCRATCH/ganesha.pid" &
    GANESHA=$!
    started+=("$GANESHA")
    wait_until 'the NFS server to serve' could_mount
    ! has_ended "$GANESHA" || fail "the NFS server ended: $(tail -n 5 "$SCRATCH/ganesha-log.txt")"
}
could_mount() {
    echo 'list /' | "$SCRATCH/nfs_client" "$EXPORT" >/dev/null 2>&1 || has_ended "$GANESHA"
}
stop_nfs_server() {
    kill -TERM "$GANESHA"
    wait_for_end "$GANESHA"
}

start_cluster
echo first >"$MNT/file"
mkdir "$MNT/many"
expect 'a directory on all servers' "$PANDOFS" dir --partitions 4 "$MNT/many" >/dev/null
(cd "$MNT/many" && seq "$MANY" | xargs touch)
start_nfs_server

# ask LINE: has the client do it; its answer is then $ANSWER.
ask() {
    echo "$1" >&"$TO"
    # It may be waiting for servers.
    read -r -t "$PATIENCE" ANSWER <&"$FROM" || fail "'$1' was not answered"
}
# does LINE [ANSWER]: and it succeeds with that.
does() {
    ask "$1"
    expect_equal "'$1'" "$ANSWER" "ok${2:+ $2}"
}
client_is_there() {
    coproc CLIENT { "$SCRATCH/nfs_client" "$EXPORT" 2>"$SCRATCH/client.txt"; }
    # What bash forgets when it ends.
    started+=("$CLIENT_PID")
    exec {TO}>&"${CLIENT[1]}" {FROM}<&"${CLIENT[0]}"
    ask 'open /file' && [[ $ANSWER == 'ok 0' ]]
}
expect 'a client' client_is_there

does 'read 0' first
does 'write 0 other'
expect_equal 'what was written through NFS' "$(cat "$MNT/file")" other
head -c 5000000 /dev/urandom >"$SCRATCH/large"
does "put $SCRATCH/large /large"
expect 'what was put' cmp "$SCRATCH/large" "$MNT/large"
does "get /large $SCRATCH/got"
expect 'what was got' cmp "$SCRATCH/large" "$SCRATCH/got"
does 'mkdir /dir'
does 'rename /large /dir/moved'
does "get /dir/moved $SCRATCH/got"
expect 'what was moved' cmp "$SCRATCH/large" "$SCRATCH/got"
ask 'rmdir /dir'
expect_contains 'removing a directory with a file' "$ANSWER" NFS3ERR_NOTEMPTY
does 'list /many' "$MANY $MANY"
does 'unlink /many/1'
does "list /many" "$((MANY - 1)) $((MANY - 1))"
say 'written, read, listed, renamed and removed through NFS'

for number in 0 1 2 3; do
    kill_server "$number"
    does 'read 0' other
    does "write 0 kill$number"
    does "write 0 other"
    does "get /dir/moved $SCRATCH/got"
    does "list /many" "$((MANY - 1)) $((MANY - 1))"
done
expect 'what was got while servers were killed' cmp "$SCRATCH/large" "$SCRATCH/got"
say 'each server was killed'

# Everything is started again. What this NFS server gives its clients has the device number of the mount in it, as FUSE
# leaves a file system nothing better to tell programs (statfs has no number of it): so it is to have that again. The
# kernel gives a new mount the lowest number that is free.
number=$(stat -c %d "$MNT")
stop_nfs_server
stop_cluster
for ((other = 0; ; other++)); do
    start_cluster
    found=$(stat -c %d "$MNT")
    [[ $found -le $number ]] || fail "somebody else has taken the device number $number"
    [[ $found -lt $number ]] || break
    stop_cluster
    mkdir "$SCRATCH/other-$other"
    mount -t tmpfs tmpfs "$SCRATCH/other-$other"
done
start_nfs_server
does 'read 0' other
does 'write 0 again'
expect_equal 'what was written by a handle from before' "$(cat "$MNT/file")" again
mv "$MNT/file" "$MNT/dir/renamed"
does 'read 0' again
say 'servers, mount and NFS server were started again, and what was open is'

does 'unlink /dir/renamed'
ask 'read 0'
expect_contains 'reading what was removed' "$ANSWER" error
does 'unlink /dir/moved'
does 'rmdir /dir'
expect_equal 'what is left' "$(ls -A "$MNT")" many
stop_nfs_server
! grep -E 'Assertion|Segmentation|signal' "$SCRATCH/ganesha-log.txt" || fail 'the NFS server broke'
check_online
stop_cluster
