#!/bin/bash
# What comes over the network and is not what it should be: servers say what is wrong, close that
# connection, and go on serving everybody else.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

GOLDEN=../../crates/engines/wire/tests/golden
# An administrator, server 1, and the client whose session the golden messages have.
ADMIN=02
SERVER_1=0101
SESSION=ef9bafcdf8acd19101
CLIENT=00${SESSION}01
# The first four letters and the version of an answer to a hello, and what says that it is welcome.
PREAMBLE=504e444f0100
WELCOME=${PREAMBLE}00

talk() {
    perl ./_frames.pl "$@"
}

# warned TEXT: the server has written a line with this since the last `forget`.
warned() {
    tail -c "+$((forgotten + 1))" "$log" | grep -q -F -- "$1"
}

forget() {
    forgotten=$(stat -c %s "$log")
}

# closes_on WHAT WARNING STEP...: after these steps the server closes the connection and warns.
closes_on() {
    local what=$1 warning=$2
    shift 2
    forget
    expect_equal "$what" "$(talk "$address" "$@" closed | tail -n 1)" closed
    wait_until "a warning about $what: $warning" warned "$warning"
    say "$what: $(tail -c "+$((forgotten + 1))" "$log" | grep -F -- "$warning" | head -n 1 | sed 's/^[^ ]* *//')"
}

# A server that panicked or ended would have been started again, with another process.
same_processes() {
    expect_equal 'the servers' "$(cat "$DATA"/server-*/pid)" "$pids"
    expect 'a status' all_servers_answer
}

use_server() {
    address=$(jq -r ".servers[$1].addresses[0]" "$DATA/cluster.json")
    log=$DATA/server-$1/log.txt
}

start_cluster
mkdir "$MNT/dir"
for ((i = 0; i < 50; i++)); do
    head -c $((i * 200)) /dev/urandom >"$MNT/dir/$i"
done
before=$(cd "$MNT" && find . -type f -exec sha256sum {} + | sort)
pids=$(cat "$DATA"/server-*/pid)
fs=$(jq -r .fs "$DATA/cluster.json")
other_fs=$(tr '0-9a-f' '1-9a-f0' <<<"$fs")
# The server that leads shard 0, and so the root.
use_server "$(jq '.shards[0]' "$DATA/cluster.json")"

# One that says nothing is closed in the end; meanwhile, the others.
talk "$address" closed >"$SCRATCH/silent" &
silent=$!
started+=("$silent")

# 1. No frames.
closes_on 'random bytes' 'is over the limit of 4194304' random:1:4096
closes_on 'what a browser sends' 'is over the limit of 4194304' "raw:$(printf 'GET / HTTP/1.1\r\n\r\n' | od -An -tx1 | tr -d ' \n')"
closes_on 'a length of 4 GiB' 'a frame of 4294967295 bytes is over the limit' raw:ffffffff00000000
closes_on 'a length just over the limit' 'a frame of 4194305 bytes is over the limit' raw:0100400000000000
closes_on 'a hello with a wrong checksum' 'it was damaged on its way' "damaged:${PREAMBLE}0002"
closes_on 'a message after the hello with a wrong checksum' 'closing the connection of an administrator: a frame of 3 bytes has the checksum' \
    "hello:$fs:$ADMIN" damaged:010203
forget
expect_equal 'half a message' "$(talk "$address" "hello:$fs:$ADMIN" raw:ff000000aabbccdd00112233 | tail -n 1)" sent
wait_until 'a warning about half a message' warned 'an administrator closed its connection within a message, after 12 bytes of it'

# 2. No hello, or another's.
closes_on 'an empty hello' "does not speak PandoFS's protocol" frame:
closes_on 'another magic' "does not speak PandoFS's protocol" frame:504e445801000002
closes_on 'another version' 'speaks version 1 of the protocol and this peer version 7' frame:504e444f070001
closes_on 'another file system' "belongs to the file system $fs, not to $other_fs" "hello:$other_fs:$ADMIN"
closes_on 'a hello that goes on too long' 'cannot be read' "hello:$fs:${ADMIN}ff"
closes_on 'a hello of nobody' 'cannot be read' "hello:$fs:09"
closes_on 'a server that is not in the map' 'server 99 connects, which is not in the cluster map' "hello:$fs:0163"
# Who is refused hears why: the version first, so that any other version understands that.
expect_equal 'the answer to another version' "$(talk "$address" frame:504e444f070001 answer | tail -n 1)" "${PREAMBLE}01010107"
expect_equal 'the answer to another magic' "$(talk "$address" frame:aabbccddeeff answer | tail -n 1)" "${PREAMBLE}0100"
expect_contains 'the answer to a proper hello' "$(talk "$address" "hello:$fs:$ADMIN")" "$WELCOME"

# 3. No messages. What a lookup of NAME in the root looks like; first one that is right, so that it is the
# name that is refused below.
session=$SESSION
look_up() {
    printf 'frame:01000001%s000100000000%s%02x%s' "$session" 0001 "$((${#1} / 2))" "$1"
}
expect_equal 'the answer to a lookup of a name that is not there' \
    "$(talk "$address" "hello:$fs:$CLIENT" "$(look_up 6e6f6e65)" answer | tail -n 1)" 0100010000
closes_on 'a name with a slash' 'holds no such message' "hello:$fs:$CLIENT" "$(look_up 612f62)"
closes_on 'a name with a NUL' 'holds no such message' "hello:$fs:$CLIENT" "$(look_up 610062)"
closes_on 'the name .' 'holds no such message' "hello:$fs:$CLIENT" "$(look_up 2e)"
closes_on 'the name ..' 'holds no such message' "hello:$fs:$CLIENT" "$(look_up 2e2e)"
closes_on 'no name' 'holds no such message' "hello:$fs:$CLIENT" "$(look_up '')"
closes_on 'a request of no kind' 'holds no such message' "hello:$fs:$CLIENT" frame:01630000
closes_on 'a message of another server that is none' 'closing the connection of server 1: a frame of' "hello:$fs:$SERVER_1" frame:01ffffffff
refused=$(printf 'not the session that said hello' | od -An -tx1 | tr -d ' \n')
expect_equal 'the answer to a request in the name of another session' \
    "$(talk "$address" "hello:$fs:$ADMIN" "$(look_up 6e6f6e65)" answer | tail -n 1)" "010001081f$refused"
same_processes

# Space for a data object: 2^61 bytes of it, which no disk has, and one byte more than files may have. Nothing
# is taken, and no object made.
allocate() {
    printf 'frame:0101078180808080804001%s0000' "$1"
}
free_bytes() {
    stat --file-system --format='%a %S' "$DATA" | awk '{ printf "%d\n", $1 * $2 }'
}
free=$(free_bytes)
expect_equal 'the answer to a request for 2 EiB' \
    "$(talk "$address" "hello:$fs:$CLIENT" "$(allocate 00808080808080808020)" answer | tail -n 1)" 0101040a
expect_equal 'the answer to a request for more than files may have' \
    "$(talk "$address" "hello:$fs:$CLIENT" "$(allocate 01808080808080808040)" answer | tail -n 1)" 0101040d
expect_above 'free bytes' "$(free_bytes)" $((free - (256 << 20)))
expect_equal 'objects' "$(find "$DATA" -name '*0001000000000001*')" ''
same_processes

# 4. Golden messages with a few bytes changed, to all servers and from all kinds of peers.
for ((server = 0; server < 4; server++)); do
    use_server "$server"
    for peer in "$CLIENT" "$ADMIN"; do
        say "$(talk "$address" "mutate:$((server + 1)):1000:$fs:$peer:$GOLDEN/requests-1.txt") (server $server)"
    done
done
same_processes

# 5. What another server says, of shards and with entries that there cannot be: to shard 0, from a shard of
# another server.
root_server=$(jq '.shards[0]' "$DATA/cluster.json")
other=$(((root_server + 1) % 4))
use_server "$root_server"
peer=$(printf '01%02x' "$other")
from=$(printf '%02x' "$(jq ".shards | index($other)" "$DATA/cluster.json")")

# drops WHAT WARNING BODY: the server drops the message, and warns.
drops() {
    forget
    expect "$1" talk "$address" "hello:$fs:$peer" "frame:$3" >"$SCRATCH/talk"
    wait_until "a warning about $1: $2" warned "that cannot be right: $2"
    say "$1: $(tail -c "+$((forgotten + 1))" "$log" | grep -F -- "$2" | head -n 1 | sed 's/^[^ ]* *//')"
}

drops 'an inode that moved to no shard' 'shard 127 of 64' "0106${from}0001017f"
drops 'an inode of no shard' 'shard 127 of 64' "0106${from}0001818080808080c03f01"
drops 'an operation that fails as an inode is on no shard' 'shard 127 of 64' "0100${from}0000000003000500""03017f"
drops 'an operation of another coordinator' 'the coordinator is shard 63 and not 0' "0100${from}00000000063f0500"
drops 'a map with no shard' 'shard 127 of 64' "0104${from}0001010200""7f0101"
drops 'a split of another shard' 'the source of a chunk is shard 63' "0101${from}003f0501000000"
drops 'an entry that is none' 'an entry that moves' "0101${from}00${from}0501000101""6102ffff0000"
drops 'an entry that leads to no shard' 'shard 127 of 64' "0101${from}00${from}0501000101""610301007f0000"
same_processes

wait_for_end "$silent"
expect_equal 'a connection that says nothing' "$(cat "$SCRATCH/silent")" closed

# 6. Nothing was harmed.
after=$(cd "$MNT" && find . -type f -exec sha256sum {} + | sort)
expect_equal 'the files' "$after" "$before"
check_online
stop_cluster

# 7. Over TCP, too.
DATA=$SCRATCH/data-tcp
find_ports 4
expect_refused --trust-network "$PANDOFS" up --data "$DATA-tcp" --no-mount "--tcp=127.0.0.1:$PORT"
start_cluster "--tcp=127.0.0.1:$PORT" --trust-network
pids=$(cat "$DATA"/server-*/pid)
fs=$(jq -r .fs "$DATA/cluster.json")
use_server 0
expect_equal 'its address' "$address" "tcp:127.0.0.1:$PORT"
echo hello >"$MNT/file"
exec {connection}<>"/dev/tcp/127.0.0.1/$PORT"
printf 'GET / HTTP/1.1\r\n\r\n' >&"$connection"
expect_equal 'what a browser gets' "$(cat <&"$connection")" ''
exec {connection}>&-
closes_on 'random bytes over TCP' 'is over the limit of 4194304' random:2:100
closes_on 'another file system over TCP' 'belongs to the file system' "hello:$other_fs:$ADMIN"
same_processes
expect_equal 'a file' "$(cat "$MNT/file")" hello
check_online

# 8. What servers say to one another with a few bytes changed. A lie that can be true is believed, so the
# file system is not looked at afterwards; but no server stops.
for ((server = 0; server < 4; server++)); do
    use_server "$server"
    other=$(((server + 1) % 4))
    from=$(jq ".shards | index($other)" "$DATA/cluster.json")
    to=$(jq ".shards | index($server)" "$DATA/cluster.json")
    peer=$(printf '01%02x' "$other")
    say "$(talk "$address" "mutate:$((server + 1)):500:$fs:$peer:$GOLDEN/peers-1.txt:$from:$to") (server $server)"
done
same_processes
stop_cluster
