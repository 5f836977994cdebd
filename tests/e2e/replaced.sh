#!/bin/bash
# A file that is replaced by rename again and again on one mount, and opened by name on another one, which is stopped
# for moments, also between a lookup and the open that follows it: there is always a file of that name, and no program is
# told that it is gone.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

SECOND=$SCRATCH/mount-2
# Files opened on the second mount.
OPENS=${PANDOFS_RUNS:-300}

start_cluster
mkdir "$MNT/shared"
echo 0 >"$MNT/shared/name"
mount_also "$SECOND"

python3 - "$MNT/shared" <<'PYTHON' &
import os, sys
os.chdir(sys.argv[1])
while not os.path.exists("end"):
    with open("new", "w") as new:
        new.write("1")
    os.rename("new", "name")
PYTHON
replaces=$!
started+=("$replaces")

python3 - "$MOUNT_PID" <<'PYTHON' &
import os, random, signal, sys, time
mount, choose = int(sys.argv[1]), random.Random(1)
while True:
    os.kill(mount, signal.SIGSTOP)
    try:
        time.sleep(0.04)
    finally:
        os.kill(mount, signal.SIGCONT)
    time.sleep(choose.uniform(0.0001, 0.001))
PYTHON
stops=$!
started+=("$stops")

expect 'opening a file that is replaced' python3 - "$SECOND/shared/name" "$OPENS" <<'PYTHON'
import os, sys
path, opens = sys.argv[1], int(sys.argv[2])
seen, failed = set(), []
for _ in range(opens):
    try:
        file = os.open(path, os.O_RDONLY)
        seen.add(os.fstat(file).st_ino)
        found = os.read(file, 2)
        os.close(file)
        assert found != b"", "an empty file"
        os.chmod(path, 0o600)
    except OSError as error:
        failed.append(error)
print(f"{opens} opens found {len(seen)} files; {len(failed)} failed: {failed[:1]}")
sys.exit(bool(failed) or len(seen) < opens / 10)
PYTHON
kill "$stops"
wait_for_end "$stops"
kill -CONT "$MOUNT_PID"
touch "$MNT/shared/end"
wait_for_end "$replaces"
expect umount "$PANDOFS" umount "$SECOND"
stop_cluster
