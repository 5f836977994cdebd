#!/bin/bash
# What strace saw real programs do on a local file system is imported and done again on a cluster, by several clients at once:
# the tree that results is what the programs left. So is what a listener saw clients of an NFS server do.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

command -v strace >/dev/null || skip 'there is no strace'
WORK=$SCRATCH/work
# A short life of many programs: processes that are made side by side, pipes, directories that move, names of all kinds.
cat >"$SCRATCH/programs.sh" <<'PROGRAMS'
set -eu
umask 027
ls -lR . >/dev/null
echo more >>before/old
rm before/gone
mkdir -p deep/er/still
for who in one two; do
    (
        mkdir "$who"
        cd "$who"
        tar -x -f "$1"
        mv d3/f1 d3/renamed
        mv d3/f2 d3/renamed
        mv d4 moved
        echo more >>moved/f1
        cp -r d2 ../deep/er/"$who-copy"
        rm -r d1
        mkdir d1
        seq 3000 >d1/f1
        truncate --size=77 d1/f1
        chmod 600 d1/f1
        ln d1/f1 "../deep/$who-link"
        ln -s ../deep symbolic
        touch symbolic/er/"through a link by $who"
        mkfifo fifo
        find . -name 'f[0-5]' -type f | sort | head -n 9 | xargs -n 3 sed -i 's/a/b/'
        mkdir d1 2>/dev/null || true
        rmdir moved 2>/dev/null || true
        cat missing 2>/dev/null || true
        for ((i = 0; i < 20; i++)); do
            echo "$i" >"../deep/er/$who-$i"
            ((i % 3)) || mv "../deep/er/$who-$i" "../deep/er/$who-of-three-$i"
        done
        sort -o sorted d1/f1 && cat sorted d2/f3 | tee both >/dev/null
        python3 - <<PYTHON
import os, shutil
os.mkdir('python')
with open('python/$who \u00e4\n"', 'w') as file:
    file.write('x' * 5000)
    file.flush()
    os.pwrite(file.fileno(), b'y' * 10, 9000)
directory = os.open('python', os.O_RDONLY | os.O_DIRECTORY)
os.mkdir('inside', dir_fd=directory)
os.rename('inside', 'renamed', src_dir_fd=directory, dst_dir_fd=directory)
shutil.copytree('d2', 'python/copied')
os.link('both', 'python/linked')
os.unlink('python/copied/f1')
PYTHON
    ) &
done
wait
cd deep
git init --quiet repository && cd repository
git config user.email a@b && git config user.name c
cp ../er/one-1 file && git add file && git commit --quiet -m first
git mv file other && git commit --quiet -a -m second
git checkout --quiet -b branch HEAD~1
PROGRAMS

mkdir "$SCRATCH/tree"
for ((d = 0; d < 5; d++)); do
    mkdir "$SCRATCH/tree/d$d"
    for ((f = 0; f < 7; f++)); do
        head -c $((f * f * 700)) /dev/zero | tr '\0' a >"$SCRATCH/tree/d$d/f$f"
    done
done
tar -c -f "$SCRATCH/tree.tar" -C "$SCRATCH/tree" .

start_cluster
# traced NAME OPTION...: the programs run below a new $WORK, and what strace saw becomes NAME.trace.
traced() {
    local name=$1
    shift
    rm -rf "$WORK"
    mkdir -p "$WORK/before"
    echo old >"$WORK/before/old"
    echo gone >"$WORK/before/gone"
    (cd "$WORK" && HOME=$SCRATCH strace -f -ttt -T "$@" -o "$SCRATCH/$name.strace" bash "$SCRATCH/programs.sh" "$SCRATCH/tree.tar") ||
        fail "the programs failed under strace $*"
    "$PANDOFS" trace import --from strace --below "$WORK" --json "$SCRATCH/$name.strace" "$SCRATCH/$name.trace" \
        >"$SCRATCH/$name.json" || fail "the import failed"
}
# same WHERE: the tree is the one in $WORK.
same() {
    # What links lead to is not in a recording, but how long it is; git's index is written through memory that no call tells of
    # only by git itself, so it is compared like all else.
    expect 'the same tree' "$PANDOFS" cmp --quick --exclude symbolic "$WORK" "$1"
    local who
    for who in one two; do
        expect_equal 'the mode of a file' "$(stat -c %a "$1/$who/d1/f1")" 600
        expect_equal 'names of a file' "$(stat -c %h "$1/$who/both")" 2
        expect_equal 'what was made through a link' "$(stat -c %F "$1/deep/er/through a link by $who")" 'regular empty file'
        expect_equal 'the link' "$(readlink "$1/$who/symbolic" | wc -c)" "$(readlink "$WORK/$who/symbolic" | wc -c)"
    done
    expect_equal 'a file that was there before' "$(stat -c %s "$1/before/old")" "$(stat -c %s "$WORK/before/old")"
}
for how in plain paths; do
    case $how in
    plain) traced plain ;;
    paths) traced paths -y ;;
    esac
    expect_equal "a cut of $how" "$(jq .cut_short "$SCRATCH/$how.json")" false
    expect_above "lines of $how" "$(jq .lines "$SCRATCH/$how.json")" 10000
    expect_above "operations of $how" "$(jq .operations "$SCRATCH/$how.json")" 1000
    expect_equal "paths of $how that are not known" "$(jq -c '.left_out["path-unknown"]' "$SCRATCH/$how.json")" null
    expect_equal "processes of $how that are not known" "$(jq -c '.left_out["process-unknown"]' "$SCRATCH/$how.json")" null
    expect_above "opened elsewhere by $how" "$(jq .left_out.outside.openat "$SCRATCH/$how.json")" 100
    summary=$("$PANDOFS" trace summarize --json "$SCRATCH/$how.trace")
    for wanted in mkdir:40 create:180 unlink:30 rename:10 write:150 link:3 symlink:1 mknod:1 readdir:20 stat:300; do
        expect_above "${wanted%:*} of $how" "$(jq ".operations.${wanted%:*} // 0" <<<"$summary")" "${wanted#*:}"
    done
    "$PANDOFS" trace replay --data "$DATA" --clients 6 --json "$SCRATCH/$how.trace" >"$SCRATCH/replayed"
    expect_equal "results of $how that differ" "$(jq -c .replayed.examples "$SCRATCH/replayed")" '[]'
    same "$MNT"/pandofs-trace-*
    say "$how: $(jq .lines "$SCRATCH/$how.json") lines, $(jq .operations "$SCRATCH/$how.json") operations," \
        "replayed through the library in $(jq .seconds "$SCRATCH/replayed") s"
    rm -r "$MNT"/pandofs-trace-*
done
mkdir "$MNT/on"
"$PANDOFS" trace replay --on "$MNT/on" --clients 6 --json "$SCRATCH/paths.trace" >"$SCRATCH/replayed"
expect_equal 'results on a mount that differ' "$(jq -c .replayed.examples "$SCRATCH/replayed")" '[]'
same "$MNT"/on/pandofs-trace-*

# A trace that was cut makes a recording that says so; a line that makes no sense is told, and what was there stays.
head -c 500000 "$SCRATCH/plain.strace" >"$SCRATCH/cut.strace"
"$PANDOFS" trace import --from strace --below "$WORK" "$SCRATCH/cut.strace" "$SCRATCH/cut.trace" >"$SCRATCH/said"
expect_contains 'what was said of a cut' "$(cat "$SCRATCH/said")" 'cut short'
expect_contains 'the summary of a cut' "$("$PANDOFS" trace summarize "$SCRATCH/cut.trace")" 'cut short'
before=$(sha256sum <"$SCRATCH/cut.trace")
{
    head -n 5 "$SCRATCH/plain.strace"
    echo 'this is no line'
} >"$SCRATCH/bad.strace"
expect_refused 'bad.strace: line 6: no time stamp' \
    "$PANDOFS" trace import --from strace --below "$WORK" "$SCRATCH/bad.strace" "$SCRATCH/cut.trace"
expect_equal 'what was there before' "$(sha256sum <"$SCRATCH/cut.trace")" "$before"
expect_equal 'files that are left' "$(find "$SCRATCH" -maxdepth 1 -name '*.new' | wc -l)" 0
expect_refused 'this is no text of nfsdump' \
    "$PANDOFS" trace import --from nfsdump "$SCRATCH/plain.strace" "$SCRATCH/cut.trace"
expect_refused '--below' "$PANDOFS" trace import --from strace "$SCRATCH/plain.strace" "$SCRATCH/cut.trace"

# What the documentation shows.
sed -n '/^```strace$/,/^```$/p' ../../docs/traces.md | grep -v '^```' >"$SCRATCH/shown.strace"
"$PANDOFS" trace import --from strace --below /home/u/src "$SCRATCH/shown.strace" "$SCRATCH/shown.trace" >"$SCRATCH/said"
expect_equal 'the example of strace' "$("$PANDOFS" trace summarize --json "$SCRATCH/shown.trace" | jq -c '[.operations, .failed]')" \
    '[{"mkdir":1,"create":1,"lookup":1,"write":1},{"lookup":1}]'
sed -n '/^```nfsdump$/,/^```$/p' ../../docs/traces.md | grep -v '^```' >"$SCRATCH/nfs.txt"
"$PANDOFS" trace import --from nfsdump --json "$SCRATCH/nfs.txt" "$SCRATCH/nfs.trace" >"$SCRATCH/nfs.json"
expect_equal 'what is left out of the example' "$(jq -c .left_out "$SCRATCH/nfs.json")" '{}'
rm -r "$MNT/on"
"$PANDOFS" trace replay --data "$DATA" --json "$SCRATCH/nfs.trace" >"$SCRATCH/replayed"
expect_equal 'results of NFS that differ' "$(jq -c .replayed.examples "$SCRATCH/replayed")" '[]'
expect_equal 'the tree of the example' "$(cd "$MNT"/pandofs-trace-* && find . -mindepth 1 -printf '%p %y %s\n' | grep -v ' d ' | sort)" \
    './fh-2/Mail/inbox f 64'
check_online
stop_cluster
