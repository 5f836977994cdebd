#!/bin/sh
# Before removing: dpkg calls it with `remove` or `upgrade VERSION`, rpm with the number of versions that will be left.
set -eu
case $1 in
    remove | 0) ;;
    *) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
    systemctl stop 'pandofs-mount@*.service'
fi
# What fstab or somebody mounted, the newest first: without its servers, whoever looks at it would wait. It has written what it
# has when its process ends. What programs use still is out of sight.
findmnt --noheadings --list --notruncate --types fuse.pandofs --output TARGET | tac | while IFS= read -r point; do
    pandofs umount "$point" || pandofs umount --lazy "$point" || true
done
if [ -d /run/systemd/system ]; then
    systemctl stop 'pandofs-server@*.service' pandofs-servers.target
fi
