#!/bin/bash
# Branch files: files whose inodes go to other servers than their entries, as a directory asks for. They are used
# as any other file, also while servers are killed, and all of it is there and whole afterwards.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# So many units of files, each in a place drawn at random, that every server has some of them (one with a tenth of the
# shards is passed over by 1 in 30,000 runs).
WIDTH=2
FILES=200
ROUNDS=30

start_cluster
mkdir "$MNT/spread" "$MNT/together"
expect_equal 'the policy of files' "$("$PANDOFS" dir --file-policy "ddg:$WIDTH" --json "$MNT/spread" |
    jq -r .file_policy)" "ddg:$WIDTH"
expect_equal 'the policy of files elsewhere' "$("$PANDOFS" dir --json "$MNT/together" | jq -r .file_policy)" with-entry
expect_refused 'the width is to be a number from 1 on' \
    "$PANDOFS" dir --file-policy ddg:0 "$MNT/spread"

# inodes: of each server, a number a line.
inodes() {
    "$PANDOFS" status --data "$DATA" --json | jq '.servers[].inodes'
}

# grew DIRECTORY: on how many servers inodes become more when files are made in it.
grew() {
    local before file
    before=$(inodes)
    for ((file = 0; file < FILES; file++)); do
        echo "content $file" >"$1/file-$file"
    done
    paste <(echo "$before") <(inodes) | awk '$2 > $1' | wc -l
}

expect_equal 'servers with new inodes, each with its entry' "$(grew "$MNT/together")" 1
expect_equal 'servers with new inodes by dir-grain' "$(grew "$MNT/spread")" 4

# What is made below inherits it; links, fifos and names of every kind.
mkdir "$MNT/spread/below"
expect_equal 'the policy below' "$("$PANDOFS" dir --json "$MNT/spread/below" | jq -r .file_policy)" "ddg:$WIDTH"
cd "$MNT/spread/below"
for ((round = 0; round < ROUNDS; round++)); do
    ln -s "target $round" "symbolic-$round"
    [[ $(readlink "symbolic-$round") == "target $round" ]] || fail "symbolic link $round"
    mkfifo -m 600 "fifo-$round"
    [[ -p fifo-$round ]] || fail "fifo $round"
    ln "../file-$round" "hard-$round"
    [[ $(stat -c %h "hard-$round") -eq 2 ]] || fail "hard link $round"
done
# A file that is unlinked while it is open is there until it is closed.
for ((round = 0; round < ROUNDS; round++)); do
    exec 7<>"open-$round"
    rm "open-$round"
    echo "unseen $round" >&7
    [[ $(cat /proc/self/fd/7) == "unseen $round" ]] || fail "an open file without a name, $round"
    exec 7>&-
done
# Nobody but its owner may open it, and who makes it has it open all the same.
chmod 777 .
python3 - <<'PYTHON'
import os
if os.geteuid() == 0:
    os.setegid(12345)
    os.seteuid(12345)
for number in range(30):
    descriptor = os.open(f"closed-{number}", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0)
    os.write(descriptor, b"mine")
    assert os.pread(descriptor, 4, 0) == b"mine"
    os.close(descriptor)
PYTHON
cd "$OLDPWD"

# Servers are killed while a program makes, renames and removes them.
cat >"$SCRATCH/work.sh" <<'WORK'
set -e
cd "$1"
for ((number = 0; number < 600; number++)); do
    echo "$number" >"made-$number"
    ((number % 3)) || mv "made-$number" "renamed-$number"
    ((number % 3 != 1)) || rm "made-$number"
done
WORK
mkdir "$MNT/spread/killed"
bash "$SCRATCH/work.sh" "$MNT/spread/killed" >"$SCRATCH/work" 2>&1 &
worker=$!
started+=("$worker")
# made COUNT: as many are there, or the program has ended.
made() {
    [[ $(find "$MNT/spread/killed" -mindepth 1 | wc -l) -ge $1 ]] || has_ended "$worker"
}
for server in 0 1 2 3; do
    wait_until 'files to be made' made $((server * 60 + 20))
    kill_server "$server"
done
wait_for_end "$worker"
[[ $CODE -eq 0 ]] || fail "the program ended with $CODE: $(cat "$SCRATCH/work")"
expect_equal 'files' "$(find "$MNT/spread/killed" -type f | wc -l)" 400
for ((number = 0; number < 600; number += 3)); do
    [[ $(cat "$MNT/spread/killed/renamed-$number") == "$number" ]] || fail "renamed-$number"
    [[ $(cat "$MNT/spread/killed/made-$((number + 2))") == "$((number + 2))" ]] || fail "made-$((number + 2))"
done
for ((file = 0; file < FILES; file++)); do
    [[ $(cat "$MNT/spread/file-$file") == "content $file" ]] || fail "file-$file"
done
check_online
rm -r "$MNT/spread"
check_online
stop_cluster
