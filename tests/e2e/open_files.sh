#!/bin/bash
# Servers and a mount that may have few files open: they open no more than that, wait where they need more, and serve
# everybody in the end.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# For everything that is started from here on; less than what is open at once without a limit.
LIMIT=200
FILES=300
ulimit -n "$LIMIT"

start_cluster --stripe-unit 4096
grep -q "open files are limited to $LIMIT" "$DATA/server-0/log.txt" ||
    fail "server 0 does not say that it has few files: $(cat "$DATA/server-0/log.txt")"
open_files() {
    find "/proc/$(server_pid 0)/fd" -mindepth 1 2>/dev/null | wc -l
}

# 1. Many files at once, of which each has an object on every server.
mkdir "$MNT/dir"
head -c 40000 /dev/urandom >"$SCRATCH/content"
sum=$(sha256sum <"$SCRATCH/content")
writers=()
for ((writer = 0; writer < 6; writer++)); do
    (for ((i = writer; i < FILES; i += 6)); do cp "$SCRATCH/content" "$MNT/dir/$i"; done) &
    writers+=("$!")
    started+=("$!")
done
for writer in "${writers[@]}"; do
    wait_for_end "$writer"
    expect_equal 'a writer' "$CODE" 0
done
expect_equal 'what was written' "$(sha256sum "$MNT"/dir/* | cut -d ' ' -f 1 | sort -u)" "${sum%% *}"
expect_below 'files that server 0 has open' "$(open_files)" "$LIMIT"
say "$FILES files on every server, of which server 0 has $(open_files) files open"

# 2. More connections than fit: whoever comes too late is told so, those that are there are served. Silent ones are
# closed after 10 s.
address=$(jq -r '.servers[0].addresses[0]' "$DATA/cluster.json")
crowd() {
    perl -MIO::Socket::UNIX -e '
        my ($path, $count, $ready, $enough) = @ARGV;
        my @all = grep { defined } map { IO::Socket::UNIX->new(Peer => $path) } 1 .. $count;
        open my $file, ">", $ready or die; close $file;
        until (-e $enough) { select undef, undef, undef, 0.05 }' \
        "${address#unix:}" "$1" "$SCRATCH/ready-$2" "$SCRATCH/enough" &
    started+=("$!")
    wait_until 'the crowd' test -e "$SCRATCH/ready-$2"
}
server=$(server_pid 0)
# Ticks of 10 ms.
processor_time() {
    awk '{ print $14 + $15 }' "/proc/$server/stat"
}
crowd 120 1
crowd 120 2
is_told() {
    grep -q 'refused a connection: all' "$DATA/server-0/log.txt"
}
wait_until 'the server to turn somebody away' is_told
before=$(processor_time)
for ((i = 0; i < 30; i++)); do
    expect_equal "file $i" "$(sha256sum <"$MNT/dir/$i")" "$sum"
    echo "$i" >"$MNT/dir/small-$i"
done
sleep 1
expect_below 'ticks of the processor that it took meanwhile' "$(($(processor_time) - before))" 100
expect_below 'files that server 0 has open' "$(open_files)" "$LIMIT"
say 'a crowd of connections does not keep the mount from being served'
touch "$SCRATCH/enough"

# 3. A limit that is lowered below what is open already: what needs a file fails or waits, and the server neither
# ends nor spins.
prlimit --pid "$server" --nofile="$(open_files):$LIMIT"
rm "$SCRATCH/enough"
crowd 20 3
before=$(processor_time)
cat "$MNT"/dir/* >"$SCRATCH/all" 2>"$SCRATCH/errors" || true
sleep 1
expect_below 'ticks of the processor that it took meanwhile' "$(($(processor_time) - before))" 100
! grep -v 'Input/output error' "$SCRATCH/errors" || fail 'the reader was told something else'
touch "$SCRATCH/enough"
prlimit --pid "$server" --nofile="$LIMIT:$LIMIT"
expect_equal 'what is read then' "$(cd "$MNT/dir" && sha256sum [0-9]* | cut -d ' ' -f 1 | sort -u)" "${sum%% *}"
expect_equal 'the process of server 0' "$(server_pid 0)" "$server"
say "with no file left, $(grep -c . "$SCRATCH/errors" || true) files could not be read"

# 4. A mount that has none left closes connections that it only keeps, and goes on.
mount=$(cat "$DATA/mount.pid")
mount_files() {
    find "/proc/$mount/fd" -mindepth 1 | wc -l
}
prlimit --pid "$mount" --nofile="$(($(mount_files) - 2)):$LIMIT"
for ((i = 0; i < 40; i++)); do
    expect_equal "file $i" "$(sha256sum <"$MNT/dir/$i")" "$sum"
done
kill_server 2
for ((i = 0; i < 40; i++)); do
    expect_equal "file $i" "$(sha256sum <"$MNT/dir/$i")" "$sum"
done
prlimit --pid "$mount" --nofile="$LIMIT:$LIMIT"
check_online
stop_cluster

# 5. With fewer than a server can do with, none is started, and nothing is touched.
CODE=0
(ulimit -n 191 && exec "$PANDOFS" serve --cluster "$DATA/cluster.json" --id 0 --data "$DATA/server-0/data") >"$SCRATCH/few" 2>&1 || CODE=$?
[[ $CODE -ne 0 ]] || fail 'a server started with 191 open files'
grep -q 'needs 192 open files at least, and may have 191: raise the limit' "$SCRATCH/few" ||
    fail "what it says: $(cat "$SCRATCH/few")"

