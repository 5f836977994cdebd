#!/bin/bash
# A mount with time-outs (--cache timeouts): what another mount does it sees after a second at the latest, and then all
# of it; with longer time-outs, as much later.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster
mkdir "$MNT/dir"
second=$SCRATCH/mount-2
mount_also "$second" --cache timeouts

# The shell command after MOUNT is asked for over and over, until it prints WANTED; it may print the other thing in
# answer to a question that was put before the limit, and never after: however slow the machine is, what is answered
# with what was is taken for that before the time it was asked.
# expect_seen WHAT LIMIT_MS MOUNT_COMMAND CHANGE WANTED
expect_seen() {
    perl - "$@" <<'PERL' || fail "$1"
use strict;
use Time::HiRes qw(time);
my ($what, $limit, $look, $change, $wanted) = @ARGV;
sub look { my $found = eval $look; return defined $found ? $found : "none" }
# What there was is believed from before the change on.
my $before = look();
die "$what: '$before' was there before\n" if $before eq $wanted;
system("bash", "-c", $change) == 0 or die "$change failed\n";
my $changed = time;
my $last = 0;
while (1) {
    my $asked = time;
    my $found = look();
    last if $found eq $wanted;
    die "$what: found '$found'\n" if $found ne $before;
    $last = ($asked - $changed) * 1000;
    die sprintf("%s: still '%s' %d ms after it was changed\n", $what, $found, $last) if $last > $limit;
}
# From then on it is as it is.
for (1 .. 1000) {
    my $found = look();
    die "$what: '$found' again\n" if $found ne $wanted;
}
printf "%s: last seen as it was after %d ms\n", $what, $last;
PERL
}

# The kernel counts in ticks of 10 ms at most, and rounds up.
LIMIT=1020
for round in 1 2 3; do
    file=dir/file-$round
    : >"$MNT/$file"
    mode="sprintf('%o', (stat('$second/$file'))[2] & 0777)"
    expect_seen 'a mode' $LIMIT "$mode" "chmod 600 '$MNT/$file'" 600
    expect_seen 'a size' $LIMIT "-s '$second/$file' || 'empty'" "echo hello >'$MNT/$file'" 6
    expect_seen 'a name that is gone' $LIMIT "-e '$second/$file' ? 'there' : 'gone'" "rm '$MNT/$file'" gone
    expect_seen 'a name that is new' $LIMIT "-e '$second/$file' ? 'there' : 'gone'" ": >'$MNT/$file'" there
    expect_seen 'a directory that was renamed' $LIMIT "-e '$second/dir-$round/$file' ? 'there' : 'gone'" \
        "mkdir -p '$MNT/dir-$round/dir' && mv '$MNT/$file' '$MNT/dir-$round/dir/'" there
done

# Contents, after closing and opening.
echo old >"$MNT/contents"
expect_equal 'contents' "$(cat "$second/contents")" old
echo newer >"$MNT/contents"
is_newer() {
    [[ $(cat "$second/contents") == newer ]]
}
wait_until 'the contents to be seen' is_newer
expect 'umount' "$PANDOFS" umount "$second"

# Half an hour is not over yet.
mount_also "$second" -o entry_timeout=1800,attr_timeout=1800,negative_timeout=1800
expect_equal 'a mode' "$(stat -c %a "$second/contents")" 644
chmod 640 "$MNT/contents"
expect_equal 'the mode that is believed still' "$(stat -c %a "$second/contents")" 644
expect_equal 'the mode' "$(stat -c %a "$MNT/contents")" 640
expect 'umount' "$PANDOFS" umount "$second"
check_online
stop_cluster
