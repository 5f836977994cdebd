#!/bin/bash
# What a service manager hears of `serve`, `mount` and `up` in units of Type=notify: READY=1, once, when what it has
# started can be used and not before, and nothing of what cannot start.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

MAP=$SCRATCH/cluster.json
SERVERS=$SCRATCH/servers
POINT=$SCRATCH/point

# listen NAME COMMAND...: a socket as a service manager's, $NOTIFY; each word that comes is written to $SAID, with the
# exit code of the command, which is run at that moment.
listen() {
    NOTIFY=$SCRATCH/$1.socket
    SAID=$SCRATCH/$1.said
    shift
    perl -MIO::Socket::UNIX -e '
        my ($path, @command) = @ARGV;
        my $socket = IO::Socket::UNIX->new(Local => $path, Type => SOCK_DGRAM) or die "$!\n";
        $| = 1;
        while (defined $socket->recv(my $said, 4096)) {
            chomp $said;
            my $code = system("sh", "-c", q("$@" >/dev/null 2>&1), "sh", @command) >> 8;
            print "$said $code\n";
        }' "$NOTIFY" "$@" >"$SAID" &
    started+=("$!")
    wait_until 'a socket to notify' test -S "$NOTIFY"
}

heard() {
    grep -q "^$1 " "$SAID"
}

# expect_heard WHAT WANTED: all that was said until now. The socket is asked for it once.
expect_heard() {
    perl -MIO::Socket::UNIX -e '
        IO::Socket::UNIX->new(Peer => $ARGV[0], Type => SOCK_DGRAM)->send("END") or die "$!\n"' "$NOTIFY"
    wait_until "the end of what was said of $1" heard END
    expect_equal "what was said of $1" "$(grep -v '^END ' "$SAID" || true)" "$2"
}

# serve: the server as a service; it is then $SERVICE.
serve() {
    NOTIFY_SOCKET=$NOTIFY "$PANDOFS" serve --cluster "$MAP" --id 0 --data "$SERVERS/0" >>"$SCRATCH/serve.txt" 2>&1 &
    SERVICE=$!
    started+=("$SERVICE")
}

expect format "$PANDOFS" format --cluster "$MAP" --servers "unix:$SCRATCH/server.socket" --data "$SERVERS" >/dev/null

# 1. A server: it answers. One that cannot start, as another one has its directory, has not said that it serves.
listen serve "$PANDOFS" status --json --cluster "$MAP"
serve
server=$SERVICE
wait_until 'the server to be ready' heard READY=1
serve
wait_for_end "$SERVICE"
expect_equal "the exit code of a second server ($(tail -n 1 "$SCRATCH/serve.txt"))" "$CODE" 1
expect_heard 'serve' 'READY=1 0'
say 'a server'

# 2. A mount: it is mounted, and what is on it can be used. One that cannot be mounted has not said so.
mkdir "$POINT"
listen mount mkdir "$POINT/made"
NOTIFY_SOCKET=$NOTIFY "$PANDOFS" mount --cluster "$MAP" "$POINT" >"$SCRATCH/mount.txt" 2>&1 &
mount=$!
started+=("$mount")
wait_until 'the mount to be ready' heard READY=1
expect_refused 'is mounted on' env NOTIFY_SOCKET="$NOTIFY" "$PANDOFS" mount --cluster "$MAP" "$POINT"
expect_heard 'mount' 'READY=1 0'
[[ -d $POINT/made ]] || fail 'a directory was made elsewhere, before it was mounted'
kill -TERM "$mount"
wait_for_end "$mount"
expect_equal "the exit code of mount ($(cat "$SCRATCH/mount.txt"))" "$CODE" 0
! is_mounted "$POINT" || fail 'it is mounted still'
listen background rmdir "$POINT/made"
expect 'mount --background' env NOTIFY_SOCKET="$NOTIFY" "$PANDOFS" mount --background --cluster "$MAP" "$POINT"
expect_heard 'mount --background' 'READY=1 0'
expect umount "$PANDOFS" umount "$POINT"
say 'a mount'

# 3. The server once more: after a stop, a start of which nothing but the log tells what is there.
kill -TERM "$server"
wait_for_end "$server"
expect_equal 'the exit code of serve' "$CODE" 0
listen again "$PANDOFS" status --json --cluster "$MAP"
serve
wait_until 'the server to be ready again' heard READY=1
kill -TERM "$SERVICE"
wait_for_end "$SERVICE"
expect_equal 'the exit code of serve' "$CODE" 0
expect_heard 'serve' 'READY=1 0'

# 4. A whole cluster with its mount: all of it, and its parts say nothing.
listen up touch "$MNT/touched"
NOTIFY_SOCKET=$NOTIFY start_cluster
wait_until 'the cluster to be ready' heard READY=1
expect_equal 'what was made when it was ready' "$(ls "$MNT")" touched
stop_cluster
expect_heard 'up' 'READY=1 0'
