#!/bin/bash
# A program starts another one while servers stand still: execve(2) closes the files that are not passed on, which waits
# for a server, and meanwhile the kernel lets nobody read /proc/PID/stat of the process. A mount that did so to find out
# whether the program is being killed would wait for its own answer, for ever, and so would every ps.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

cat >"$SCRATCH/start.py" <<'PYTHON'
import os, signal, subprocess, sys, threading, time
folder, servers = sys.argv[1], [int(pid) for pid in sys.argv[2:]]
# Closed by execve, as all that Python opens; and what was written is told to their shards only then.
files = [open(f"{folder}/file-{number}", "wb", 0) for number in range(16)]
for file in files:
    file.write(b"-" * (1 << 20))
for pid in servers:
    os.kill(pid, signal.SIGSTOP)
try:
    ended = threading.Thread(target=subprocess.run, args=(["/bin/true"],), kwargs={"close_fds": False})
    ended.start()
    # The mount looks after those that have waited for a while.
    ended.join(5)
    print("it waited" if ended.is_alive() else "it did not wait")
finally:
    for pid in servers:
        os.kill(pid, signal.SIGCONT)
ended.join()
PYTHON

# Closing a file waits for no server where that is told later.
start_cluster --no-restart --sync-names
servers=()
for ((number = 0; number < 4; number++)); do
    servers+=("$(server_pid "$number")")
done
python3 "$SCRATCH/start.py" "$MNT" "${servers[@]}" >"$SCRATCH/said.txt" &
program=$!
started+=("$program")
PATIENCE=60
wait_until 'the program that was started to end' has_ended "$program"
wait_for_end "$program"
expect_equal 'its exit code' "$CODE" 0
expect_equal 'what it said' "$(cat "$SCRATCH/said.txt")" 'it waited'
say 'it went on when the servers did'
check_online
stop_cluster
