#!/bin/sh
# After removing: dpkg calls it with `remove`, `purge` or others, rpm with the number of versions that are left. The
# servers' directories and the cluster map are somebody's data: no package removes them.
set -eu
if command -v ldconfig >/dev/null; then
    ldconfig
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
case $1 in
    purge | 0)
        rm -f /etc/systemd/system/*.wants/pandofs-server@*.service /etc/systemd/system/*.wants/pandofs-mount@*.service
        for kept in /etc/pandofs /var/lib/pandofs; do
            if [ -d "$kept" ] && ! rmdir "$kept" 2>/dev/null; then
                echo "pandofs: $kept is kept"
            fi
        done
        ;;
esac
