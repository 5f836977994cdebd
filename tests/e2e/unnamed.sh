#!/bin/bash
# Files without a name (O_TMPFILE): servers are killed while programs have some open, which read what they wrote
# then and give them names; what has none by the end is gone.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# Opens files without a name in a directory, writes to each, says so, and waits until its input ends; then each
# is read again. Numbers of descriptors are said.
program='
    use strict; use warnings; use Fcntl;
    my ($dir, $count, $exclusive) = @ARGV;
    my $O_TMPFILE = 0x400000 | O_DIRECTORY;
    my @files;
    for my $at (1 .. $count) {
        sysopen my $file, $dir, O_RDWR | $O_TMPFILE | ($exclusive ? O_EXCL : 0), 0640 or die "open: $!";
        my $data = "$at " x ($at * 2000);
        syswrite($file, $data) == length $data or die "write: $!";
        push @files, [$file, $data];
    }
    $| = 1;
    print join(" ", map { fileno $_->[0] } @files), "\n";
    my $end = <STDIN>;
    for (@files) {
        my ($file, $data) = @$_;
        sysseek $file, 0, 0;
        sysread($file, my $read, 1 << 20) == length $data or die "read: $!";
        $read eq $data or die "it holds something else";
    }
    print "same\n";
'

# begin DIRECTORY COUNT EXCLUSIVE: the program in the background; its descriptors are then in `fds`, its process in
# $HOLDER.
begin() {
    rm -f "$SCRATCH/in" "$SCRATCH/out"
    mkfifo "$SCRATCH/in" "$SCRATCH/out"
    perl -e "$program" "$@" <"$SCRATCH/in" >"$SCRATCH/out" &
    HOLDER=$!
    started+=("$HOLDER")
    exec 8>"$SCRATCH/in" 9<"$SCRATCH/out"
    read -r -t "$PATIENCE" -u 9 -a fds || fail 'the program did not open its files'
}

# end: it reads its files again and ends.
end() {
    echo >&8
    local said=nothing
    read -r -t "$PATIENCE" -u 9 said || true
    expect_equal 'what the program read' "$said" same
    wait_for_end "$HOLDER"
    expect_equal 'how it ended' "$CODE" 0
    exec 8>&- 9<&-
}

inodes() {
    "$PANDOFS" status --data "$DATA" --json | jq '[.servers[].inodes] | add'
}

are_inodes() {
    [[ $(inodes) -eq $1 ]]
}

start_cluster --threshold 100
dir=$MNT/dir
mkdir "$dir"
for ((i = 0; i < 500; i++)); do
    : >"$dir/file-$i"
done
partitions_spread() {
    [[ $("$PANDOFS" dir --json "$dir" | jq .partitions) -ge 4 ]]
}
wait_until 'the directory to be in several partitions' partitions_spread
before=$(inodes)
times=$(stat --format='%Y %Z %h' "$dir")

# 1. Closed, they are gone, and the directory has not changed.
begin "$dir" 20 ''
expect_equal 'links of one' "$(stat --dereference --format=%h "/proc/$HOLDER/fd/${fds[0]}")" 0
expect_equal 'inodes' "$(inodes)" $((before + 20))
expect_equal 'names' "$(ls "$dir" | wc -l)" 500
end
wait_until 'the files to be gone' are_inodes "$before"
expect_equal 'times and links of the directory' "$(stat --format='%Y %Z %h' "$dir")" "$times"
say '20 files without a name were closed and are gone'

# 2. All servers are killed one after the other while they are open; half of them get a name then.
begin "$dir" 20 ''
for server in 0 1 2 3; do
    kill_server "$server"
done
for ((i = 0; i < 20; i += 2)); do
    expect 'linkat' ln --logical "/proc/$HOLDER/fd/${fds[i]}" "$dir/named-$i"
    expect_equal 'its links' "$(stat --format=%h "$dir/named-$i")" 1
done
expect_refused 'File exists' ln --logical "/proc/$HOLDER/fd/${fds[1]}" "$dir/named-0"
end
wait_until 'the others to be gone' are_inodes $((before + 10))
for ((i = 0; i < 20; i += 2)); do
    number=$((i + 1))
    expect_equal "what named-$i holds" "$(sha256sum <"$dir/named-$i")" \
        "$(perl -e "print '$number ' x ($number * 2000)" | sha256sum)"
done
say '10 of 20 got a name after all servers were killed'

# 3. A name that was taken away is none to come back from, and one opened with O_EXCL never gets any.
begin "$dir" 1 ''
ln --logical "/proc/$HOLDER/fd/${fds[0]}" "$dir/once"
rm "$dir/once"
expect_refused 'No such file' ln --logical "/proc/$HOLDER/fd/${fds[0]}" "$dir/twice"
end
begin "$dir" 1 exclusive
expect_refused 'No such file' ln --logical "/proc/$HOLDER/fd/${fds[0]}" "$dir/never"
# A program that is killed closes them, too.
kill -KILL "$HOLDER"
wait_for_end "$HOLDER"
exec 8>&- 9<&-
wait_until 'those to be gone' are_inodes $((before + 10))
say 'no second first name, and none with O_EXCL'
check_online
stop_cluster
