#!/bin/sh
# After installing: dpkg calls it with `configure [OLD VERSION]`, rpm with the number of versions that are there now.
set -eu
case $1 in
    configure) upgraded=${2:-} ;;
    1) upgraded= ;;
    [0-9]*) upgraded=yes ;;
    # What dpkg says when it puts back what it could not replace or remove.
    *) upgraded=yes ;;
esac

if ! getent passwd pandofs >/dev/null; then
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers /usr/lib/sysusers.d/pandofs.conf
    else
        useradd --system --user-group --home-dir /var/lib/pandofs --no-create-home --shell /usr/sbin/nologin pandofs
    fi
fi
if command -v ldconfig >/dev/null; then
    ldconfig
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    # Programs wait for servers meanwhile. A mount stays as it is, since programs use it. A server takes what time it needs to
    # apply its log, and the package manager waits no longer than this; the server goes on.
    if [ -n "$upgraded" ] && ! timeout 90 systemctl try-restart 'pandofs-server@*.service'; then
        echo "pandofs: servers are not all started again: see 'systemctl list-units pandofs-server@*' and" \
            "'journalctl -u pandofs-server@N'" >&2
    fi
fi
