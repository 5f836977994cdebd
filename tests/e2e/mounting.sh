#!/bin/bash
# Mounting as mount(8) does: by type, from a line of a table, changed while it is mounted; and what programs
# find that keep handles of files.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root mounts by mount(8)'
# fuse3's mount.fuse looks for the program by its name where programs are installed: there it is for this test
# alone.
if [[ -z ${NAMESPACE-} ]]; then
    NAMESPACE=own exec unshare --mount --propagation private bash "$0"
fi
drop_other_mounts
mkdir "$SCRATCH/bin"
ln -s "$PANDOFS" "$SCRATCH/bin/pandofs"
ln -s "$PANDOFS" "$SCRATCH/bin/mount.fuse.pandofs"
mount --bind "$SCRATCH/bin" /usr/local/bin

start_cluster
echo content >"$MNT/file"
mkdir "$MNT/directory"

# options_of POINT: those of the mount itself and of the file system.
options_of() {
    findmnt --noheadings --output OPTIONS --mountpoint "$1"
}

expect_equal 'the type of a mount' "$(findmnt --noheadings --output FSTYPE --mountpoint "$MNT")" fuse.pandofs

# 1. mount -t, by the cluster map and by the directory of a cluster.
second=$SCRATCH/second
mkdir "$second"
for source in "$DATA/cluster.json" "pandofs:$DATA/cluster.json" "$DATA"; do
    expect "mount -t fuse.pandofs $source" mount -t fuse.pandofs -o "nosuid,log=$SCRATCH/second-log.txt" "$source" "$second"
    expect_equal 'a file on the second mount' "$(cat "$second/file")" content
    expect_contains 'its options' ",$(options_of "$second")," ,nosuid,
    expect_equal 'its source' "$(findmnt --noheadings --output SOURCE --mountpoint "$second")" "$source"
    expect_contains 'the cluster, found by the mount' "$("$PANDOFS" dir "$second/directory")" '0 entries'
    expect_refused 'is mounted on' mount -t fuse.pandofs "$source" "$second"
    expect_contains 'its log' "$(cat "$SCRATCH/second-log.txt")" mounted
    expect 'umount' "$PANDOFS" umount "$second"
done
expect 'the helper of its own' "$SCRATCH/bin/mount.fuse.pandofs" "$DATA/cluster.json" "$second" -sv -o ro -t fuse.pandofs
expect_contains 'its options' ",$(options_of "$second")," ,ro,
expect 'umount' "$PANDOFS" umount "$second"
touch -a -d @1000 "$MNT/file"
expect 'a mount without times of access' mount -t fuse.pandofs -o noatime "$DATA" "$second"
expect_contains 'its options' ",$(options_of "$second")," ,noatime,
expect_equal 'a file that is read' "$(cat "$second/file")" content
expect 'umount' "$PANDOFS" umount "$second"
expect_equal 'its time of access' "$(stat -c %X "$MNT/file")" 1000
expect 'a mount as by default' mount -t fuse.pandofs "$DATA" "$second"
expect_contains 'its options' ",$(options_of "$second")," ,relatime,
# As of other file systems, set-id bits and devices have effect unless it is told otherwise; not so by pandofs mount.
for word in nosuid nodev; do
    [[ ,$(options_of "$second"), != *,$word,* ]] || fail "a mount by mount(8) has $word"
    expect_contains 'the options of the mount of up' ",$(options_of "$MNT")," ",$word,"
done
expect_equal 'a file that is read' "$(cat "$second/file")" content
expect_above 'its time of access there' "$(stat -c %X "$second/file")" 1000
expect 'umount' "$PANDOFS" umount "$second"
is_accessed() {
    [[ $(stat -c %X "$MNT/file") -gt 1000 ]]
}
wait_until 'the first mount to see the time of access' is_accessed
# Every write of a mount with -o sync is on disk when it has ended, and of a file that was opened so: also those that go
# past the kernel's cache, of which the kernel does not ask for it.
forces() {
    "$PANDOFS" status --data "$DATA" --json | jq '[.servers[].log_syncs] | add'
}
# The file is there before, so that nothing else is forced.
for written in 'sync append' 'sync direct' 'async append,dsync' 'async direct,sync' 'sync nonblock'; do
    read -r option how <<<"$written"
    rm -f "$MNT/forced"
    cp /dev/null "$MNT/forced"
    expect "a mount with $option" mount -t fuse.pandofs -o "$option" "$DATA" "$second"
    before=$(forces)
    expect "writing with $how" dd if=/dev/zero of="$second/forced" bs=4096 count=20 oflag="$how" conv=notrunc status=none
    expect_above "forces of the log by 20 writes with $how on a mount with $option" $(($(forces) - before)) 19
    expect 'umount' "$PANDOFS" umount "$second"
done
# Every change of names of a mount with -o dirsync or -o sync is on disk when it has ended.
# expect_forced_names DIRECTORY: by twenty of each.
expect_forced_names() {
    local before number change
    for change in touch ln mv rm mkfifo; do
        before=$(forces)
        for number in {1..20}; do
            case $change in
                touch) : >"$1/$number" ;;
                ln) ln "$1/$number" "$1/other-$number" ;;
                mv) mv "$1/$number" "$1/moved-$number" ;;
                rm) rm "$1/moved-$number" ;;
                mkfifo) mkfifo "$1/fifo-$number" ;;
            esac
        done
        expect_above "forces of the log by 20 times $change" $(($(forces) - before)) 19
    done
    rm -r "$1"
}
for option in dirsync sync; do
    mkdir "$MNT/names"
    expect "a mount with $option" mount -t fuse.pandofs -o "$option" "$DATA" "$second"
    expect_contains 'its options' ",$(options_of "$second")," ",$option,"
    expect_forced_names "$second/names"
    expect 'umount' "$PANDOFS" umount "$second"
done
# What noatime keeps of a directory and a link, nodiratime of a directory alone. This mount sees a time at once.
mkdir "$MNT/times"
cp "$(type -P true)" "$MNT/times/program"
for kept in 'noatime 1000 1000 1000' 'nodiratime 1000 now now'; do
    read -r option directory link file <<<"$kept"
    # Of a new link, as the kernel remembers where one leads.
    ln -s nowhere "$MNT/times/link-$option"
    touch -a -h -d @1000 "$MNT/times" "$MNT/times/link-$option" "$MNT/times/program"
    expect "a mount with $option" mount -t fuse.pandofs -o "$option" "$DATA" "$second"
    [[ -n $(ls "$second/times") && $(readlink "$second/times/link-$option") == nowhere ]] || fail 'what was made is not there'
    cat "$second/times/program" >/dev/null
    for found in "times $directory" "times/link-$option $link" "times/program $file"; do
        read -r name wanted <<<"$found"
        time=$(stat -c %X "$second/$name")
        if [[ $wanted == now ]]; then
            expect_above "the time of access of $name with $option" "$time" 1000
        else
            expect_equal "the time of access of $name with $option" "$time" "$wanted"
        fi
    done
    expect 'umount' "$PANDOFS" umount "$second"
done

# relatime: the second reading since a change does not count. It counts when servers are told, which the first mount sees.
touch -a -d @1000 "$MNT/file"
expect 'a mount with relatime' mount -t fuse.pandofs -o relatime "$DATA" "$second"
expect_equal 'a file that is read' "$(cat "$second/file")" content
wait_until 'the first mount to see the time of access' is_accessed
accessed=$(stat -c %x "$second/file")
expect 'umount' "$PANDOFS" umount "$second"
expect 'a mount with relatime' mount -t fuse.pandofs -o relatime "$DATA" "$second"
expect_equal 'a file that is read again' "$(cat "$second/file")" content
expect_equal 'its time of access' "$(stat -c %x "$second/file")" "$accessed"
expect 'umount' "$PANDOFS" umount "$second"
expect 'a mount with strictatime' mount -t fuse.pandofs -o strictatime "$DATA" "$second"
expect_equal 'a file that is read strictly' "$(cat "$second/file")" content
[[ $(stat -c %x "$second/file") > $accessed ]] || fail 'strictatime: a reading was not counted'
expect 'umount' "$PANDOFS" umount "$second"

expect 'a mount with noexec' mount -t fuse.pandofs -o noexec "$DATA" "$second"
expect_refused 'Permission denied' "$second/times/program"
expect 'umount' "$PANDOFS" umount "$second"
expect 'a program' "$MNT/times/program"

# Links lead nowhere, and can be read.
ln -s file "$MNT/link"
expect 'a mount with nosymfollow' mount -t fuse.pandofs -o nosymfollow "$DATA" "$second"
expect_contains 'its options' ",$(options_of "$second")," ,nosymfollow,
expect_equal 'a link' "$(readlink "$second/link")" file
expect_refused 'Too many levels of symbolic links' cat "$second/link"
expect 'umount' "$PANDOFS" umount "$second"

# What is so anyway, and what cannot be had.
expect 'a mount with usual words' mount -t fuse.pandofs -o acl,user_xattr,hard,loud,noiversion,subtype=pandofs "$DATA" "$second"
expect 'umount' "$PANDOFS" umount "$second"
expect_refused 'no such option' mount -t fuse.pandofs -o nosuch "$DATA" "$second"
for word in mand=mandatory iversion=counted allow_root=allow_other auto_unmount=umount fsname=x=source noacl=lists uid=5=owners; do
    expect_refused "${word##*=}" mount -t fuse.pandofs -o "${word%=*}" "$DATA" "$second"
done
expect_refused 'there is no cluster map' mount -t fuse.pandofs "$SCRATCH/no-map.json" "$second"

# 2. As from /etc/fstab.
printf '%s %s fuse.pandofs defaults,nofail,_netdev,x-systemd.automount,attr_timeout=0 0 0\n' "$DATA/cluster.json" "$second" >"$SCRATCH/fstab"
expect 'mount by a table' mount --fstab "$SCRATCH/fstab" "$second"
expect_equal 'a file on the mount by a table' "$(cat "$second/file")" content
for source in "$DATA/cluster.json" "pandofs:$DATA/cluster.json" "$DATA"; do
    expect 'umount' "$PANDOFS" umount "$second"
    printf '%s %s fuse.pandofs defaults 0 0\n' "$source" "$second" >"$SCRATCH/all"
    # It knows the second time that there is nothing to do.
    expect 'mount --all' mount --all --fstab "$SCRATCH/all"
    expect 'mount --all once more' mount --all --fstab "$SCRATCH/all"
    expect_equal 'mounts by a table' "$(findmnt --noheadings --output TARGET | grep -c "$second\$")" 1
done
expect 'umount' "$PANDOFS" umount "$second"
expect 'mount by a table' mount --fstab "$SCRATCH/fstab" "$second"

# 3. Changed while it is mounted.
expect 'remount,ro' mount -o remount,ro "$second"
expect_contains 'its options' ",$(options_of "$second")," ,ro,
expect_refused 'Read-only file system' touch "$second/new"
expect_equal 'a file, read-only' "$(cat "$second/file")" content
expect 'remount,rw' mount -o remount,rw "$second"
expect 'a new file' touch "$second/new"
expect 'remount,ro of the first' mount -o remount,ro "$MNT"
expect_refused 'Read-only file system' touch "$MNT/new2"
expect 'remount,rw of the first' mount -o remount,rw "$MNT"
# The mount's own process goes by it, too. A reading counts unless it is read-only or noatime.
for option in ro noatime strictatime; do
    touch -a -d @1000 "$MNT/file"
    expect "remount,$option" mount -o "remount,$option" "$second"
    expect_equal 'a file that is read' "$(cat "$second/file")" content
    expect 'umount' "$PANDOFS" umount "$second"
    if [[ $option == strictatime ]]; then
        expect_above "the time of access after remount,$option" "$(stat -c %X "$MNT/file")" 1000
    else
        expect_equal "the time of access after remount,$option" "$(stat -c %X "$MNT/file")" 1000
    fi
    expect 'mount again' mount --fstab "$SCRATCH/fstab" "$second"
done
expect 'remount,sync' mount -o remount,sync "$second"
for how in append direct; do
    cp /dev/null "$MNT/forced"
    before=$(forces)
    expect "writing with $how" dd if=/dev/zero of="$second/forced" bs=4096 count=20 oflag="$how" conv=notrunc status=none
    expect_above "forces of the log by 20 writes with $how after remount,sync" $(($(forces) - before)) 19
done
expect 'remount,async,dirsync' mount -o remount,async,dirsync "$second"
mkdir "$MNT/names"
expect_forced_names "$second/names"
# What cannot be changed may be said again; otherwise all stays as it was.
expect 'remount with what is so' mount -o remount,rw,attr_timeout=0,cache=timeouts,hard "$second"
for option in soft=3s cache=none attr_timeout=3 threads=3 nolock; do
    name=${option%%=*}
    expect_refused "${name/nolock/local_lock} cannot be changed while it is mounted" mount -o "remount,ro,$option" "$second"
    expect_contains "its options after a refused change of $option" ",$(options_of "$second")," ,rw,
done

# 4. Programs that run are not cut off by who wants to write to them.
cp "$(command -v sleep)" "$second/sleep"
"$second/sleep" 1000 &
sleeper=$!
started+=("$sleeper")
size=$(stat -c %s "$second/sleep")
program_runs() {
    [[ $(readlink "/proc/$sleeper/exe") == "$second/sleep" ]]
}
wait_until 'the program to run' program_runs
expect_refused 'Text file busy' perl -MFcntl -e 'sysopen(F, $ARGV[0], O_RDONLY | O_TRUNC) or die "$!\n"' "$second/sleep"
expect_equal 'the size of a program that runs' "$(stat -c %s "$second/sleep")" "$size"
kill "$sleeper"
wait "$sleeper" || true

# 5. Handles that outlive what the kernel remembers, as an NFS server's do: another mount later, and after all servers
# were killed. Of a directory the kernel looks for the way up, from each `..` to the next.
mkdir -p "$second/directory/a/b/c"
echo deep >"$second/directory/a/b/c/file"
handle=$(perl ./_handles.pl make "$second/file")
declare -A handles
for path in '' directory directory/a/b/c directory/a/b/c/file; do
    handles[x$path]=$(perl ./_handles.pl make "$second/$path")
done
# handles_lead_where_they_did WHEN
handles_lead_where_they_did() {
    local path
    for path in directory/a/b/c directory ''; do
        expect_equal "the directory '$path' by its handle $1" \
            "$(perl ./_handles.pl where "$second" "${handles[x$path]}")" "$second${path:+/$path}"
    done
    expect_equal "a file by its handle $1" "$(perl ./_handles.pl read "$second" "$handle")" content
    expect_equal "a file far down by its handle $1" \
        "$(perl ./_handles.pl read "$second" "${handles[xdirectory/a/b/c/file]}")" deep
}
expect 'umount' "$PANDOFS" umount "$second"
expect 'mount again' mount --fstab "$SCRATCH/fstab" "$second"
handles_lead_where_they_did 'on another mount'
expect 'umount' "$PANDOFS" umount "$second"
kill_cluster
start_cluster
expect 'mount again' mount --fstab "$SCRATCH/fstab" "$second"
handles_lead_where_they_did 'after all servers were killed'
# Those who have the mount meanwhile wait.
killed=$(cat "$DATA"/server-*/pid)
for pid in $killed; do
    kill -KILL "$pid"
done
handles_lead_where_they_did 'while all servers are started again'
wait_until 'all servers to answer' all_servers_answer
for pid in $killed; do
    ! grep -qx "$pid" "$DATA"/server-*/pid || fail "server process $pid was not killed"
done
# A directory that was moved is found where it is now.
mv "$MNT/directory/a/b" "$MNT/directory/moved"
expect 'umount' "$PANDOFS" umount "$second"
expect 'mount again' mount --fstab "$SCRATCH/fstab" "$second"
expect_equal 'a directory that was moved, by its handle' \
    "$(perl ./_handles.pl where "$second" "${handles[xdirectory/a/b/c]}")" "$second/directory/moved/c"
rm "$MNT/file"
# The second mount tells a little later that it has closed the file.
is_stale() {
    [[ $(perl ./_handles.pl open "$second" "$handle" 2>&1) == *'Stale file handle'* ]]
}
wait_until 'the handle to be stale' is_stale
expect 'umount' "$PANDOFS" umount "$second"
check_online
stop_cluster
