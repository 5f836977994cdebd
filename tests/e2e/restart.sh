#!/bin/bash
# A cluster that is stopped and started again has its data, attributes and times; so has one of whose
# servers one was killed while nothing was under way, even before what it acknowledged was forced.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# What must be the same afterwards: each object's path, kind, permissions, owner, group, links, size,
# target and the times in nanoseconds; extended attributes; contents.
snapshot() {
    (
        cd "$MNT"
        find . -printf '%P\t%y\t%#m\t%U:%G\t%n\t%s\t%l\t%T@\t%C@\n' | sort
        find . -type f -print0 | sort -z | xargs -0 getfattr --dump -m -
        find . -type f -print0 | sort -z | xargs -0 sha256sum
    )
}

entries() {
    "$PANDOFS" status --data "$DATA" --json | jq '[.servers[].entries] | add'
}

# A small threshold, so that a directory is in several partitions when the servers stop.
start_cluster --threshold 100
mkdir -p "$MNT/tree/deep/er" "$MNT/many"
for ((i = 0; i < 600; i++)); do
    echo "$i" >"$MNT/many/file-$i"
done
for ((i = 0; i < 600; i += 3)); do
    rm "$MNT/many/file-$i"
done
head -c 5000000 /dev/urandom >"$MNT/tree/large"
echo small >"$MNT/tree/small"
ln "$MNT/tree/small" "$MNT/tree/deep/linked"
ln -s deep/er "$MNT/tree/link"
mkfifo "$MNT/tree/pipe"
setfattr --name user.note --value kept "$MNT/tree/small"
chmod 0640 "$MNT/tree/small"
chmod 2775 "$MNT/tree/deep"
touch --date='1999-12-31 23:59:59.5 UTC' "$MNT/tree/large"
mv "$MNT/tree/large" "$MNT/tree/deep/er/moved"
partitions_spread() {
    [[ $("$PANDOFS" dir --json "$MNT/many" | jq .partitions) -ge 4 ]]
}
wait_until "'many' to be in several partitions" partitions_spread
before=$(snapshot)
count=$(entries)
say "$count entries, of which 'many' has $(ls "$MNT/many" | wc -l)"

stop_cluster
say 'stopped'
start_cluster
diff <(echo "$before") <(snapshot) || fail 'something is different after a stop'
expect_equal 'entries after a stop' "$(entries)" "$count"
say 'started again, the same'

# What is done after a start comes on top of what was there.
echo more >>"$MNT/tree/deep/linked"
expect_equal 'the linked file' "$(cat "$MNT/tree/small")" $'small\nmore'
rm "$MNT/many/file-1"
mkdir "$MNT/after"
before=$(snapshot)
count=$(entries)

# Nothing asked for a sync: a server's process may be killed all the same, as what it wrote is with the
# system. `up` starts it again.
for server in 0 1 2 3; do
    killed=$(server_pid "$server")
    kill -KILL "$killed"
    wait_until "the end of server $server" has_ended "$killed"
    wait_until 'all servers to answer' all_servers_answer
    [[ $(server_pid "$server") != "$killed" ]] || fail "server $server was not started again"
    diff <(echo "$before") <(snapshot) || fail "something is different after server $server was killed"
    say "server $server was killed and is back: the same"
done
expect_contains 'what up said' "$(cat "$UP_OUTPUT")" "server 3 serves again"
expect_equal 'entries after all servers were killed' "$(entries)" "$count"
check_online

# All of it at once: up itself is killed, and with it what it started.
pids=$(cat "$DATA"/server-*/pid "$DATA/mount.pid")
kill -KILL "$UP"
wait_for_end "$UP"
for pid in $pids; do
    wait_until "process $pid to end with up" has_ended "$pid"
done
start_cluster
diff <(echo "$before") <(snapshot) || fail 'something is different after up was killed'
say 'up was killed and is back: the same'
rm -rf "$MNT/tree" "$MNT/many" "$MNT/after"
expect_equal 'entries at the end' "$(entries)" 0
stop_cluster
