#!/bin/bash
# fsck finds nothing while four writers change everything, nothing once they have stopped and nothing in
# the servers' directories, even if they were killed; and it does find what is wrong after one server was
# put back to an earlier time than the others.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# A writer: random operations on names that all writers share, until the file $stop is there. It ends with
# an error when an operation fails in a way in which it must not.
cat >"$SCRATCH/writer.pl" <<'PERL'
use strict;
use Errno qw(EEXIST ENOENT ENOTEMPTY ENOTDIR EISDIR EINVAL);
my ($seed, $top, $stop, $counts) = @ARGV;
srand $seed;
my $done = 0;
my %refused;
sub name { "$top/" . ('a' .. 'c')[rand 3] . '/' . int rand 800 }
sub tried {
    return if shift;
    for my $expected (EEXIST, ENOENT, ENOTEMPTY, ENOTDIR, EISDIR, EINVAL) {
        if ($! == $expected) { $refused{"$!"}++; return }
    }
    die "writer $seed: $!\n";
}
while (!-e $stop) {
    my $what = int rand 20;
    if ($what < 7) {
        if (open my $file, '>', name()) {
            print $file 'x' x (0, 10, 5_000, 70_000)[rand 4];
            tried(close $file);
        } else { tried(0) }
    }
    elsif ($what < 9)  { tried(unlink name()) }
    elsif ($what < 12) { tried(rename name(), name()) }
    elsif ($what < 14) { tried(link name(), name()) }
    elsif ($what < 16) { tried(mkdir name() . 'd') }
    elsif ($what < 17) { tried(rmdir name() . 'd') }
    elsif ($what < 18) { tried(rename name() . 'd', name() . 'd') }
    elsif ($what < 19) { tried(rename name() . 'd', name() . 'd/inner') }
    else               { tried(symlink 'somewhere', name()) }
    $done++;
    if ($done % 50 == 0) {
        open my $file, '>', $counts or die "$counts: $!\n";
        print $file "$done\n";
        close $file;
    }
}
print "writer $seed: $done operations; refused: ",
    join(', ', map { "$refused{$_} times '$_'" } sort keys %refused), "\n";
PERL

# By all writers together, but for those whose count is just being written.
operations() {
    cat "$SCRATCH"/count-* 2>/dev/null | awk '{ sum += $1 } END { printf "%d\n", sum }'
}

have_done() {
    [[ $(operations) -ge $1 ]]
}

# A small threshold, so that directories split while they are checked; directories everywhere.
start_cluster --threshold 50 --policy random
mkdir "$MNT/a" "$MNT/b" "$MNT/c"
writers=()
for ((i = 1; i <= 4; i++)); do
    perl "$SCRATCH/writer.pl" "$i" "$MNT" "$SCRATCH/stop" "$SCRATCH/count-$i" >"$SCRATCH/writer-$i" 2>&1 &
    writers+=("$!")
    started+=("$!")
done
wait_until 'the writers to be at work' have_done 400
for ((i = 1; i <= 4; i++)); do
    before=$(operations)
    code=0
    "$PANDOFS" fsck --data "$DATA" --json >"$SCRATCH/report" || code=$?
    after=$(operations)
    expect_equal "problems in check $i ($(jq -c .problems "$SCRATCH/report"))" "$code" 0
    say "check $i: $(jq -r '"\(.records) records in \(.passes) passes, \(.undecided | length) undecided"' \
        "$SCRATCH/report"), while $((after - before)) operations were done"
    for pid in "${writers[@]}"; do
        ! has_ended "$pid" || fail "a writer has ended: $(cat "$SCRATCH"/writer-*)"
    done
    wait_until 'the writers to go on' have_done $((after + 200))
done
touch "$SCRATCH/stop"
for pid in "${writers[@]}"; do
    wait_for_end "$pid"
    expect_equal "the exit code of a writer ($(cat "$SCRATCH"/writer-*))" "$CODE" 0
done
cat "$SCRATCH"/writer-*
splits=$("$PANDOFS" status --data "$DATA" --json | jq '[.servers[].splits] | add')
[[ $splits -gt 0 ]] || fail 'no directory has split'
say "$splits splits happened meanwhile"

# Nothing is left to be decided now, so a problem that shows is one.
check_online
# The listing and what fsck counts are the same.
listed=$(find "$MNT" -mindepth 1 | wc -l)
counted=$("$PANDOFS" status --data "$DATA" --json | jq '[.servers[].entries] | add')
expect_equal 'entries in status and in a listing' "$counted" "$listed"
stop_cluster
say "offline, too: $listed entries"

# One server's directory is put back from a copy: what the others did with it since is half there.
cp -a "$DATA/server-1/data" "$SCRATCH/old"
start_cluster
mkdir "$MNT/new"
for ((i = 0; i < 100; i++)); do
    mkdir "$MNT/new/$i"
    echo x >"$MNT/new/$i/file"
done
stop_cluster
mv "$DATA/server-1/data" "$SCRATCH/right"
mv "$SCRATCH/old" "$DATA/server-1/data"
code=0
"$PANDOFS" fsck --offline --data "$DATA" --json >"$SCRATCH/report" || code=$?
expect_equal 'the exit code when something is wrong' "$code" 4
found=$(jq '.problems | length' "$SCRATCH/report")
[[ $found -ge 1 ]] || fail "nothing is found"
expect_equal 'what the report says' "$(jq .clean "$SCRATCH/report")" false
code=0
"$PANDOFS" fsck --offline --data "$DATA" >"$SCRATCH/printed" || code=$?
expect_equal 'the exit code once more: nothing was changed' "$code" 4
expect_contains 'the last line' "$(tail -n 1 "$SCRATCH/printed")" "$found problems"
say "one server of another time: $found problems, among them"
head -n 3 "$SCRATCH/printed"

# And the right one again.
rm -r "$DATA/server-1/data"
mv "$SCRATCH/right" "$DATA/server-1/data"
start_cluster
expect_equal 'directories that are there again' "$(ls "$MNT/new" | wc -l)" 100
stop_cluster

# All servers die at once in the middle of operations over several of them. Half of one is no problem: fsck of what they
# left finishes it in memory, as they do when they start again.
# Whether something is under way is chance: as often as it takes to have seen it, and 4 times at least.
unfinished=0
for ((round = 1; round <= 4 || (unfinished == 0 && round <= 40); round++)); do
    # Without leases: those of killed mounts would have everybody wait until they have run out.
    start_cluster --cache timeouts
    rm -f "$SCRATCH/stop" "$SCRATCH"/count-*
    writers=()
    for ((i = 1; i <= 4; i++)); do
        perl "$SCRATCH/writer.pl" "$((10 * round + i))" "$MNT" "$SCRATCH/stop" "$SCRATCH/count-$i" \
            >"$SCRATCH/writer-$i" 2>&1 &
        writers+=("$!")
        started+=("$!")
    done
    wait_until 'the writers to be at work' have_done 200
    kill_cluster
    for pid in "${writers[@]}"; do
        # Each ends with an error, as its mount is gone.
        wait_for_end "$pid"
    done
    code=0
    "$PANDOFS" fsck --offline --data "$DATA" --json >"$SCRATCH/report" || code=$?
    expect_equal "problems after kill $round ($(jq -c .problems "$SCRATCH/report"))" "$code" 0
    unfinished=$((unfinished + $(jq '.passing | length' "$SCRATCH/report")))
done
[[ $unfinished -gt 0 ]] || fail 'nothing was under way in any round, which shows nothing'
say "killed $((round - 1)) times: nothing wrong, $unfinished findings that the servers' next start ends"
start_cluster
stop_cluster
