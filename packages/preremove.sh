#!/bin/sh
# Before removing: dpkg calls it with `remove` or `upgrade VERSION`, rpm with the number of versions that will be left.
set -eu
case $1 in
    remove | 0) ;;
    *) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
    systemctl stop 'pandofs-mount@*.service'
    systemctl stop 'pandofs-server@*.service' pandofs-servers.target
fi
