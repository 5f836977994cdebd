#!/bin/bash
# `pandofs top` shows what goes on: hot directories by their paths, who waits for a server that is stopped or for leases of a
# mount that is, and what was slow. Logs name slow operations and where their time went. On a terminal it leaves as it came.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

top() {
    "$PANDOFS" top --data "$DATA" "$@"
}
# seen FILTER: whether jq finds it in the next half a second.
seen() {
    top --json --count 1 --interval 500ms >"$SCRATCH/top.json" && jq -e "$1" "$SCRATCH/top.json" >/dev/null
}

expect_refused 'give --once' "$PANDOFS" top --data "$DATA"
start_cluster --servers 2 --no-restart --policy random --sync-names --slow 200ms
mkdir -p "$MNT/some/hot"
(
    i=0
    while [[ ! -e $SCRATCH/end ]]; do
        echo "$((i++))" >"$MNT/some/hot/file-$((i % 500))"
    done
) &
work=$!
started+=("$work")
wait_until 'the directory to be the hottest' seen \
    '.directories[0] | .path == "/some/hot" and .requests_per_second > 0 and (.servers | length) > 0'
expect 'rates of both servers' jq -e \
    '.servers | length == 2 and all(.state == "up" and .load >= 0 and .memory_bytes > 0) and any(.requests_per_second > 0)' \
    "$SCRATCH/top.json" >/dev/null
expect 'operations with the client that asked' jq -e \
    ".slow[] | select(.path == \"/some/hot\") | .client | test(\"process $(cat "$DATA/mount.pid")\")" "$SCRATCH/top.json" >/dev/null
text=$(top --once)
for wanted in 'Servers' 'Hottest directories' '/some/hot' 'Slowest operations' 'Who waits'; do
    expect_contains 'what --once shows' "$text" "$wanted"
done
expect_contains 'what --numbers shows' "$(top --once --numbers)" 'directory '
expect_equal 'documents' "$(top --json --count 3 --interval 100ms | jq -s length)" 3
say 'a hot directory is named by its path'

# On a terminal: q ends it, and so does a signal; the terminal is as before.
cat >"$SCRATCH/screen.py" <<'PYTHON'
import fcntl, os, pty, select, signal, struct, sys, termios, time

how, patience, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    os.environ["TERM"] = "xterm-256color"
    os.execv(command[0], command)
seen, sent, until = b"", False, time.monotonic() + patience
while time.monotonic() < until:
    if select.select([terminal], [], [], 0.1)[0]:
        try:
            read = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not read:
            break
        seen += read
    if not sent and b"q quit" in seen and b"hot" in seen:
        sent = True
        if how == "key":
            os.write(terminal, b"spq")
        else:
            os.kill(pid, signal.SIGTERM)
else:
    os.kill(pid, signal.SIGKILL)
_, status = os.waitpid(pid, 0)
left = b"\x1b[?1049l" in seen
print("code", os.waitstatus_to_exitcode(status), "left" if left else "not left")
PYTHON
for how in key signal; do
    expect_equal "how it ends by a $how" \
        "$(python3 "$SCRATCH/screen.py" "$how" "$PATIENCE" "$PANDOFS" top --data "$DATA")" 'code 0 left'
done
say 'on a terminal it ends by a key or a signal, and restores it'
touch "$SCRATCH/end"
wait_for_end "$work"

# A mount that stands still has leases of what the other one changes.
mount_also "$SCRATCH/other"
holder=$MOUNT_PID
echo old >"$MNT/leased"
stat "$SCRATCH/other/leased" >/dev/null
waits_for_holder() {
    seen ".waiting[] | select(.operation == \"set_attr\") | .waits_for | test(\"leases of client .*process $holder\")"
}
# change_seen MODE: whether the change is seen waiting before it has ended. (A server leases nothing to a client before its
# disk has that it is one, so that the first change may have nobody to wait for.)
change_seen() {
    stat "$SCRATCH/other/leased" >/dev/null
    kill -STOP "$holder"
    chmod "$1" "$MNT/leased" &
    local changes=$! is_seen=1
    started+=("$changes")
    while ! has_ended "$changes" && ((is_seen)); do
        ! waits_for_holder || is_seen=0
    done
    kill -CONT "$holder"
    wait_for_end "$changes"
    expect_equal 'the change' "$CODE" 0
    return "$is_seen"
}
rounds=1
until change_seen $((600 + 40 * (rounds % 2))); do
    rounds=$((rounds + 1))
    expect_below 'changes of which none was seen to wait' "$rounds" 20
done
is_in_log() {
    grep -rqs "$1" "$2"
}
wait_until 'the log to name it' is_in_log \
    "slow: set_attr of inode [0-9.]* (client .*, process $(cat "$DATA/mount.pid")) took .* for leases of client" \
    "$DATA"
say 'who waits for a mount that is stopped is named with that mount'

# A server that stands still has a part in what the other one is asked for, and is asked by the mount itself.
mkdir "$MNT"/before-{0..9}
kill -STOP "$(server_pid 1)"
waiters=()
named() {
    grep -q "slow: $2 of .* is under way for .* and waits for server 1: of it .* for server 1" "$DATA/$1"
}
for ((i = 0; i < 10; i++)); do
    touch "$MNT/before-$i/file" &
    waiters+=("$!")
done
started+=("${waiters[@]}")
wait_until 'the log of the mount to name server 1' named mount-log.txt '[a-z]*'
for ((i = 0; i < 8; i++)); do
    mkdir "$MNT/away-$i" &
    waiters+=("$!")
done
started+=("${waiters[@]}")
waits_for_stopped() {
    seen '.waiting[] | select(.operation == "mkdir" and .waits_for == "server 1")'
}
wait_until 'a directory to be seen waiting for server 1' waits_for_stopped
CODE=0
text=$(top --once 2>&1) || CODE=$?
expect_equal 'the exit code of --once with a server away' "$CODE" 3
expect_contains 'what --once shows' "$text" '1 away: '
wait_until 'the log of server 0 to name server 1' named server-0/log.txt mkdir
kill -CONT "$(server_pid 1)"
for pid in "${waiters[@]}"; do
    wait_for_end "$pid"
    expect_equal 'the exit code of what has waited' "$CODE" 0
done
say 'logs name the server that was waited for'
"$PANDOFS" umount "$SCRATCH/other"
check_online
stop_cluster
