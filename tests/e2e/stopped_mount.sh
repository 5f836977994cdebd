#!/bin/bash
# A mount without file locks that stands still for longer than servers wait: whoever reads and writes there what another
# mount has removed meanwhile goes on with what was there or is told; nobody reads zeros, and nobody takes for written what
# nobody has. What was not removed goes on as if nothing had been.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster
A=$MNT
B=$SCRATCH/mount-2
mount_also "$B"
stopped=$MOUNT_PID

head -c 3000000 /dev/urandom >"$SCRATCH/original"
for name in gone kept; do
    cp "$SCRATCH/original" "$A/$name"
    head -c 2000 "$SCRATCH/original" >"$A/small-$name"
done

# The program has them open, uses them a little, and again when there is a file `go`. Nothing of what it reads then is in
# the kernel's memory: it has read the first pages only, and reads at random places.
cat >"$SCRATCH/program.py" <<'PROGRAM'
import os, sys, time

point, original, go = sys.argv[1:]
data = open(original, "rb").read()
names = ["gone", "kept", "small-gone", "small-kept"]
files = {name: os.open(f"{point}/{name}", os.O_RDWR) for name in names}
for name, fd in files.items():
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    assert os.pread(fd, 1000, 0) == data[:1000], name
open(f"{go}.ready", "w").close()
while not os.path.exists(go):
    time.sleep(0.1)

failed = []
for name, fd in files.items():
    length = 2000 if "small" in name else len(data)
    troubles = 0

    def attempt(what, do):
        global troubles
        try:
            return do()
        except OSError as error:
            troubles += 1
            print(f"{name}: {what}: {error.strerror}")
            return None

    def look(what, expected):
        step = 500_000 if length > 2000 else 700
        for at in range(0, length, step):
            found = attempt(f"{what} at {at}", lambda: os.pread(fd, 600, at))
            if found is not None and found != expected[at : at + 600]:
                failed.append(f"{name}: {what} at {at} gave other bytes than were there")

    look("reading", data[:length])
    written = data[:length] + b"after"
    attempt("writing", lambda: os.pwrite(fd, b"after", length))
    attempt("forcing", lambda: os.fsync(fd))
    # What was cached is not asked for again: through the mount, whatever the kernel has.
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    length += 5
    look("reading again", written)
    attempt("closing", lambda: os.close(fd))
    if "kept" in name and troubles:
        failed.append(f"{name} was not removed, and {troubles} calls failed")
    if "gone" in name and not troubles:
        failed.append(f"{name} was removed with all that was written to it, and nobody was told")
for failure in failed:
    print("FAILED:", failure)
sys.exit(bool(failed))
PROGRAM
python3 "$SCRATCH/program.py" "$B" "$SCRATCH/original" "$SCRATCH/go" >"$SCRATCH/program.txt" 2>&1 &
program=$!
started+=("$program")
wait_until 'the program to have its files open' test -e "$SCRATCH/go.ready"

kill -STOP "$stopped"
# Servers let go of a session after 60 s in which they heard nothing of it.
sleep 63
rm "$A/gone" "$A/small-gone"
say 'a mount stood still, and files that it has open are removed'
kill -CONT "$stopped"
touch "$SCRATCH/go"
wait_for_end "$program"
cat "$SCRATCH/program.txt"
expect_equal 'what the program says' "$CODE" 0
expect_contains "the mount's log" "$(cat "$B-log.txt")" 'is open and was removed, as its server had not heard'
for name in kept small-kept; do
    length=$(($(stat --format=%s "$A/$name") - 5))
    expect "contents of $name" cmp "$A/$name" <(head -c "$length" "$SCRATCH/original" && printf after)
done
say 'the program of a mount that stood still was told'

# The mount goes on.
echo new >"$B/new"
expect_equal 'what it writes afterwards' "$(cat "$A/new")" new
expect 'umount' "$PANDOFS" umount "$B"
check_online
stop_cluster
