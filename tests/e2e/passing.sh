#!/bin/bash
# Two mounts, as they are mounted by default, pass files to each other: four workers, two on each, take what others
# put into their folders, check it, add to it and hand it on, by rename, by copy and by link. No file is lost, none is
# there twice, and each reader sees all that was written before it was handed on.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

FILES=100
HOPS=60

start_cluster --stripe-unit 65536
OTHER=$SCRATCH/mount-2
mount_also "$OTHER"

cat >"$SCRATCH/worker.py" <<'PYTHON'
"""worker.py MOUNT WORKER HOPS: hands files on until the file `stop` is in its folder.

A file begins with its name and then has, for each hop, a line of a length that depends on the hop, so that
a file that lacks something or has something twice is found."""
import os, random, sys, time

mount, worker, hops = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
WORKERS = 4
inbox, work, done = (os.path.join(mount, f) for f in (f"inbox-{worker}", f"work-{worker}", "done"))
draw = random.Random(worker)

def line(name, hop):
    # From files beside their inodes to files of several stripes.
    return f"{hop} {name} ".encode() + bytes([65 + hop % 26]) * ((hop * 7919) % 9000) + b"\n"

def check(path, name):
    """The hops of the file at `path`."""
    with open(path, "rb") as file:
        found = file.read()
        size = os.fstat(file.fileno()).st_size
    wanted, hop = b"", 0
    while len(wanted) < len(found):
        wanted += line(name, hop)
        hop += 1
    if found != wanted or size != len(found) or os.stat(path).st_size != size:
        sys.exit(f"worker {worker}: {path} has {len(found)} bytes, its size is {size}, "
                 f"{len(wanted)} would be {hop} hops: {found[-60:]!r}")
    return hop

def hand_on(name):
    mine = os.path.join(work, name)
    os.rename(os.path.join(inbox, name), mine)
    hop = check(mine, name)
    if hop == hops:
        os.rename(mine, os.path.join(done, name))
        return
    to = os.path.join(mount, f"inbox-{draw.choice([w for w in range(WORKERS) if w != worker])}", name)
    way = hop % 4
    if way == 0:  # The same file grows.
        with open(mine, "ab") as file:
            file.write(line(name, hop))
        os.rename(mine, to)
    elif way == 1:  # Another file with other contents takes its place.
        with open(mine, "rb") as file, open(mine + ".new", "wb") as new:
            new.write(file.read() + line(name, hop))
        os.rename(mine + ".new", mine)
        os.rename(mine, to)
    elif way == 2:  # Cut and written in place.
        with open(mine, "r+b") as file:
            contents = file.read()
            file.seek(0)
            file.truncate()
            file.write(contents + line(name, hop))
            file.flush()
            os.fsync(file.fileno())
        os.rename(mine, to)
    else:  # By a second name.
        with open(mine, "ab") as file:
            file.write(line(name, hop))
        os.link(mine, to)
        os.unlink(mine)

while True:
    names = os.listdir(inbox)
    for name in names:
        if name == "stop":
            sys.exit(0)
        hand_on(name)
    if not names:
        time.sleep(0.01)
PYTHON

mkdir "$MNT/done" "$MNT"/{inbox,work}-{0..3}
for ((i = 0; i < FILES; i++)); do
    echo "0 file-$i " >"$MNT/new"
    mv "$MNT/new" "$MNT/inbox-$((i % 4))/file-$i"
done
workers=()
for worker in 0 1 2 3; do
    mount=$MNT
    [[ $((worker % 2)) -eq 0 ]] || mount=$OTHER
    python3 "$SCRATCH/worker.py" "$mount" "$worker" "$HOPS" &
    workers+=("$!")
done
started+=("${workers[@]}")

all_are_done() {
    local worker
    for worker in "${workers[@]}"; do
        ! has_ended "$worker" || fail 'a worker ended: see above'
    done
    [[ $(find "$MNT/done" -type f | wc -l) -eq $FILES ]]
}
wait_until "$FILES files to be handed on $HOPS times" all_are_done
for worker in 0 1 2 3; do
    touch "$MNT/stop"
    mv "$MNT/stop" "$MNT/inbox-$worker/stop"
    wait_for_end "${workers[$worker]}"
    expect_equal "how worker $worker ended" "$CODE" 0
done
say "$FILES files went $HOPS times from one to another"
for mount in "$MNT" "$OTHER"; do
    expect_equal 'files that came through' "$(find "$mount/done" -name 'file-*' | wc -l)" "$FILES"
    expect_equal 'what is left elsewhere' "$(find "$mount"/inbox-* "$mount"/work-* -type f ! -name stop)" ''
    expect_equal 'links' "$(find "$mount/done" -type f -links +1)" ''
done
check_online
stop_cluster
