#!/bin/bash
# Two mounts that cache under leases, as mounts do by default, see at once what the other does. What neither
# changes both know by heart; who does not answer holds nobody up for longer than a lease; and a server that
# is restarted changes nothing before it is safe.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster
A=$MNT
B=$SCRATCH/mount-2
mount_also "$B"
# shellcheck source=tests/e2e/_two_mounts.sh
. ./_two_mounts.sh

# sum FIELD: of all servers, as status has it.
sum() {
    "$PANDOFS" status --data "$DATA" --json | python3 -c '
import json, sys
def of(value):
    if isinstance(value, dict):
        return sum(v if k == sys.argv[1] and isinstance(v, int) else of(v) for k, v in value.items())
    return sum(map(of, value)) if isinstance(value, list) else 0
print(of(json.load(sys.stdin)))' "$1"
}

# 7. What nobody changes costs no server anything, however often it is asked for, for longer than a time-out.
mkdir "$A/quiet"
for ((i = 0; i < 50; i++)); do echo "$i" >"$A/quiet/$i"; done
expect 'stat' stat --format=%s "$B"/quiet/* >/dev/null
# What another mount changed a moment ago is not leased yet.
quiet_round() {
    local before
    before=$(sum requests)
    stat --format=%s "$A"/quiet/* "$B"/quiet/* >/dev/null
    [[ $(($(sum requests) - before)) -lt 20 ]]
}
wait_until 'leases on what nobody changes' quiet_round
before=$(sum requests)
for ((round = 0; round < 20; round++)); do
    stat --format=%s "$A"/quiet/* "$B"/quiet/* >/dev/null
    ! stat "$B/quiet/none" 2>/dev/null || fail 'a name that is not there is there'
done
# The listings for the patterns, and what says that clients live.
expect_below 'requests for 2,000 files' $(($(sum requests) - before)) 500
expect_above 'leases' "$(sum leases)" 50
say "2,000 times stat: $(($(sum requests) - before)) requests"

# 8. Somebody who does not answer holds others up for no longer than a lease, and afterwards sees what they did.
stat "$B"/quiet/* >/dev/null
kill -STOP "$MOUNT_PID"
start=$SECONDS
mv "$A/quiet/1" "$A/quiet/one"
expect_below 'seconds that a rename waited' $((SECONDS - start)) 15
kill -CONT "$MOUNT_PID"
[[ ! -e $B/quiet/1 && -e $B/quiet/one ]] || fail 'a mount that was stopped believes what it believed before'
say 'a mount that does not answer'

# 9. Nothing is lost of this when servers are killed.
for ((round = 0; round < 5; round++)); do
    stat "$B"/quiet/* >/dev/null
    kill_server 0
    echo "after $round" >"$A/quiet/0"
    expect_equal "after a kill" "$(stat --format=%s "$B/quiet/0")" 8
    mv "$A/quiet/0" "$A/quiet/zero"
    [[ ! -e $B/quiet/0 ]] || fail 'a name is still there'
    expect_equal "contents after a kill" "$(cat "$B/quiet/zero")" "after $round"
    mv "$B/quiet/zero" "$B/quiet/0"
    [[ -e $A/quiet/0 ]] || fail 'a name is not there'
done
say 'five kills'

# 10. What is mounted on a directory stays there while other mounts change names, and who works in one stays in it.
if [[ $(id -u) -eq 0 ]]; then
    mkdir "$A/on" "$A/work"
    stat "$B"/quiet/* "$B/on" >/dev/null
    mount -t tmpfs none "$B/on"
    touch "$B/on/here"
    for name in first second third; do
        stat "$B"/quiet/* >/dev/null
        mv "$A/quiet/2" "$A/quiet/$name"
        [[ -e $B/quiet/$name && -e $B/on/here ]] || fail "what is mounted below went with a name"
        mv "$A/quiet/$name" "$A/quiet/2"
    done
    umount "$B/on"
fi
# Programs that work in directories go on working there, while another mount renames what is beside and above them.
mkdir -p "$A/work/in/it"
cat >"$SCRATCH/worker.py" <<'PYTHON'
import os, sys
where = sys.argv[1]
os.chdir(where)
rounds = 0
print("begun", flush=True)
while not os.path.exists(sys.argv[2]):
    if os.getcwd() != where or not os.path.samefile(".", where):
        sys.exit(f"works in {os.getcwd()}")
    rounds += 1
if not rounds:
    sys.exit("nothing was asked")
PYTHON
workers=()
for where in "$B/work" "$B/work/in" "$B/work/in/it"; do
    python3 "$SCRATCH/worker.py" "$where" "$SCRATCH/worked" >"$SCRATCH/worker-${#workers[@]}" 2>&1 &
    workers+=($!)
done
begun() {
    [[ $(cat "$SCRATCH"/worker-* | grep -c begun) -eq 3 ]]
}
wait_until 'programs at work' begun
for ((i = 0; i < 100; i++)); do
    mv "$A/quiet/2" "$A/quiet/two"
    mv "$A/quiet/two" "$A/quiet/2"
    stat "$B"/quiet/2 >/dev/null
    # Attributes of the directories themselves, and names in them.
    touch "$A/work" "$A/work/in"
    mkdir "$A/work/other" "$A/work/in/other"
    ls "$B/work" "$B/work/in" >/dev/null
    rmdir "$A/work/other" "$A/work/in/other"
    [[ ! -e $B/work/other ]] || fail 'a directory is still there'
done
touch "$SCRATCH/worked"
for i in "${!workers[@]}"; do
    wait "${workers[i]}" || fail "a program that works in a directory: $(cat "$SCRATCH/worker-$i")"
done
say 'mount points and working directories'

# The other mount removes the directory that a program works in: as on a local file system it is empty and has no link, nothing
# can be made in it, and one gets out.
mkdir -p "$A/left/dir"
cat >"$SCRATCH/removed.py" <<'PYTHON'
import errno, os, sys
here, there = sys.argv[1:]
os.chdir(here + "/left/dir")
assert os.listdir(".") == []
os.rmdir(there + "/left/dir")
assert os.stat(".").st_nlink == 0
assert os.listdir(".") == []
for make in (lambda: os.mkdir("new"), lambda: os.close(os.open("new", os.O_CREAT | os.O_WRONLY))):
    try:
        make()
        raise SystemExit("something was made in a directory that is gone")
    except OSError as error:
        assert error.errno == errno.ENOENT, error
os.chdir("..")
assert os.listdir(".") == []
PYTHON
expect 'work in a directory that another mount removes' python3 "$SCRATCH/removed.py" "$A" "$B"

expect 'umount' "$PANDOFS" umount "$B"
check_online
stop_cluster
