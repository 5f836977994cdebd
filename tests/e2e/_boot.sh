#!/bin/bash
# _boot.sh ROOT: systemd of the system in the folder ROOT as the first process of PID, mount, UTS, IPC and cgroup name spaces
# that the caller has made. What it says is in /run/systemd.txt there.
set -euo pipefail
root=$1
mount --bind "$root" "$root"
cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs -o mode=755 tmpfs dev
while read -r name major minor; do
    mknod -m 666 "dev/$name" c "$major" "$minor"
done <<'DEVICES'
null 1 3
zero 1 5
full 1 7
random 1 8
urandom 1 9
tty 5 0
fuse 10 229
DEVICES
mkdir dev/pts dev/shm run/before
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
pivot_root . run/before
umount --lazy run/before
exec env -i container=test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=console --show-status=no \
    </dev/null >/run/systemd.txt 2>&1
