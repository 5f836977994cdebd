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
expect_equal 'a file that is read' "$(cat "$second/file")" content
expect_above 'its time of access there' "$(stat -c %X "$second/file")" 1000
expect 'umount' "$PANDOFS" umount "$second"
is_accessed() {
    [[ $(stat -c %X "$MNT/file") -gt 1000 ]]
}
wait_until 'the first mount to see the time of access' is_accessed
expect_refused 'no such option' mount -t fuse.pandofs -o nosuch "$DATA" "$second"
expect_refused 'there is no cluster map' mount -t fuse.pandofs "$SCRATCH/no-map.json" "$second"

# 2. As from /etc/fstab.
printf '%s %s fuse.pandofs defaults,nofail,_netdev,x-systemd.automount,attr_timeout=0 0 0\n' "$DATA/cluster.json" "$second" >"$SCRATCH/fstab"
expect 'mount by a table' mount --fstab "$SCRATCH/fstab" "$second"
expect_equal 'a file on the mount by a table' "$(cat "$second/file")" content

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

# 5. Handles that outlive what the kernel remembers, as an NFS server's do.
handle=$(perl ./_handles.pl make "$second/file")
handle_of_directory=$(perl ./_handles.pl make "$second/directory")
expect 'umount' "$PANDOFS" umount "$second"
expect 'mount again' mount --fstab "$SCRATCH/fstab" "$second"
expect_equal 'a file opened by its handle' "$(perl ./_handles.pl read "$second" "$handle")" content
expect 'a directory opened by its handle' perl ./_handles.pl open "$second" "$handle_of_directory"
rm "$MNT/file"
# The second mount tells a little later that it has closed the file.
is_stale() {
    [[ $(perl ./_handles.pl open "$second" "$handle" 2>&1) == *'Stale file handle'* ]]
}
wait_until 'the handle to be stale' is_stale
expect 'umount' "$PANDOFS" umount "$second"
check_online
stop_cluster

# 6. A service manager hears once that all is up, from the one that it has started.
DATA=$SCRATCH/data-notify
perl -MIO::Socket::UNIX -e '
    my $socket = IO::Socket::UNIX->new(Local => $ARGV[0], Type => SOCK_DGRAM) or die "$!\n";
    $| = 1;
    while (defined $socket->recv(my $said, 4096)) { print "$said\n" }' "$SCRATCH/notify" >"$SCRATCH/said" &
started+=("$!")
wait_until 'a socket to notify' test -S "$SCRATCH/notify"
NOTIFY_SOCKET=$SCRATCH/notify start_cluster
said_ready() {
    [[ -s $SCRATCH/said ]]
}
wait_until 'READY=1' said_ready
stop_cluster
expect_equal 'what the service manager heard' "$(cat "$SCRATCH/said")" READY=1
