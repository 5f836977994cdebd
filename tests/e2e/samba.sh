#!/bin/bash
# Samba shares two mounts of one file system with other machines: a tree that is put into one share is read back
# from both, renamed, changed and removed through them; while servers of the file system are killed, too.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'Samba becomes other users, which only root can'

FILES=150
# Nobody else's, with what else runs on this machine; on the loopback interface only.
PORT=$((20000 + $$ % 20000))

start_cluster
OTHER=$SCRATCH/mount-2
mount_also "$OTHER"
samba=$SCRATCH/samba
mkdir -p "$samba"/{private,lock,state,cache,pid,ncalrpc} "$MNT/shared"
cat >"$samba/smb.conf" <<CONF
[global]
server role = standalone server
interfaces = lo
bind interfaces only = yes
smb ports = $PORT
private dir = $samba/private
lock directory = $samba/lock
state directory = $samba/state
cache directory = $samba/cache
pid directory = $samba/pid
ncalrpc dir = $samba/ncalrpc
disable spoolss = yes
load printers = no
map to guest = Bad User
guest account = root
strict sync = yes
store dos attributes = yes
guest ok = yes
read only = no
[one]
path = $MNT/shared
[two]
path = $OTHER/shared
CONF
# In a process group of its own, all of which it ends when it ends.
smbd --foreground --configfile="$samba/smb.conf" --debug-stdout >"$samba/output.txt" 2>&1 &
server=$!
started+=("$server")

# client SHARE COMMANDS: what it prints; it ends well also when commands fail, and then says so.
client() {
    local output
    output=$(smbclient --no-pass --port="$PORT" --debuglevel=0 "//127.0.0.1/$1" --command "$2" 2>&1) ||
        { echo "$output" && return 1; }
    ! grep 'NT_STATUS_' <<<"$output" || return 1
    echo "$output"
}

answers_or_ended() {
    client one ls >/dev/null 2>&1 || has_ended "$server"
}
wait_until 'Samba to answer' answers_or_ended
! has_ended "$server" || fail "Samba ended: $(tail -n 20 "$samba/output.txt")"

# A tree of files of all sizes, with names that are no English ones.
tree=$SCRATCH/tree
for ((i = 0; i < FILES; i++)); do
    mkdir -p "$tree/part $((i % 7))/größe-$((i % 3))"
    head -c $((i * i * 150)) /dev/urandom >"$tree/part $((i % 7))/größe-$((i % 3))/file $i"
done
export LC_ALL=C.UTF-8
expect 'put a tree' client one "lcd $SCRATCH; recurse ON; prompt OFF; mput tree" >/dev/null
export LC_ALL=C
for mount in "$MNT" "$OTHER"; do
    expect "what is at $mount" diff -r "$tree" "$mount/shared/tree"
done
say "$FILES files, $(du -sh --apparent-size "$tree" | cut -f 1), are put into the one share"

# get_tree SHARE: into an empty folder, compared.
get_tree() {
    rm -rf "$SCRATCH/got"
    mkdir "$SCRATCH/got"
    LC_ALL=C.UTF-8 expect "get the tree from $1" client "$1" "lcd $SCRATCH/got; recurse ON; prompt OFF; mget tree" \
        >/dev/null
    expect "what was got from $1" diff -r "$tree" "$SCRATCH/got/tree"
}
get_tree one
get_tree two
say 'and got from both'

head -c 5000000 /dev/urandom >"$SCRATCH/large"
expect 'rename, replace and remove' client two "cd tree; put $SCRATCH/large new; rename new moved; mkdir empty; \
    rmdir empty; put $SCRATCH/large twice; del twice; setmode moved +r; allinfo moved" >/dev/null
expect 'what was put and renamed' cmp "$SCRATCH/large" "$MNT/shared/tree/moved"
expect_equal 'names' "$(cd "$MNT/shared/tree" && echo *[!0-9])" 'moved'
expect_contains 'a removed name' "$(client one 'cd tree; get twice' || true)" NT_STATUS_OBJECT_NAME_NOT_FOUND
expect 'remove' client one 'cd tree; setmode moved -r; del moved' >/dev/null
say 'renamed, replaced and removed through the other'

while :; do
    get_tree one || exit 1
    get_tree two || exit 1
    : >"$SCRATCH/got-while-killed"
done &
getter=$!
started+=("$getter")
for number in 0 1 2 3; do
    kill_server "$number"
    rm -f "$SCRATCH/got-while-killed"
    wait_until 'the tree to be got again' test -e "$SCRATCH/got-while-killed" -o ! -e "/proc/$getter"
    ! has_ended "$getter" || fail 'the tree was not got while servers were killed'
done
kill -KILL "$getter"
wait_for_end "$getter"
say 'the tree was got while each server was killed'

expect 'remove the tree' client two 'deltree tree' >/dev/null
expect_equal 'what is left' "$(ls -A "$MNT/shared")" ''
kill -TERM "$server"
wait_for_end "$server"
! grep -E 'PANIC|INTERNAL ERROR' "$samba/output.txt" || fail 'Samba panicked'
check_online
stop_cluster
