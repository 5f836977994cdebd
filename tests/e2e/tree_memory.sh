#!/bin/bash
# What each of the tools for trees takes of memory does not grow with the tree: sixty thousand files in one directory,
# as many directories, a chain of directories. Each tool goes through all of it with less than LIMIT. FILES=500000 and
# DIRECTORIES=200000 take half an hour.
# long
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh
cd "$SCRATCH"

# MiB, and numbers of what is made.
LIMIT=64
FILES=${FILES:-60000}
DIRECTORIES=${DIRECTORIES:-60000}
DEPTH=2000
LONG=200000

perl -e 'my ($files, $directories, $depth) = @ARGV;
    mkdir "tree" and mkdir "tree/wide" and mkdir "tree/many" and mkdir "tree/chain" or die "$!\n";
    for (1 .. $files) { open my $file, ">", "tree/wide/f$_" or die "$!\n" }
    for (1 .. $directories) {
        mkdir "tree/many/" . ($_ % 100) if $_ <= 100;
        mkdir "tree/many/" . ($_ % 100) . "/d$_" or die "$!\n";
    }
    chdir "tree/chain";
    for (1 .. $depth) { mkdir "d" and chdir "d" or die "$!\n" }' "$FILES" "$DIRECTORIES" "$DEPTH"
entries=$((FILES + DIRECTORIES + 100 + DEPTH + 4))

# within CODE TOOL...: runs a tool, which ends with that code, and fails if it takes more than LIMIT. What it took is in /proc
# until somebody waits for it, and not after that: perl asks the kernel when it waits. With 'killed' it is killed once the file
# 'state' has KILL_AT bytes.
within() {
    local wanted=$1 taken
    shift
    taken=$(perl -e 'my ($wanted, @command) = @ARGV;
        my $pid = fork // die "$!\n";
        if (!$pid) { open STDOUT, ">", "out" or die "$!\n"; exec @command or die "$!\n" }
        if ($wanted eq "killed") {
            my $end = time + 600;
            until ((-s "state" // 0) >= $ENV{KILL_AT}) {
                select undef, undef, undef, 0.01;
                die "nothing was written\n" if time > $end;
            }
            kill "KILL", $pid;
        }
        my $rusage = "\0" x 512;
        my $status = pack "i", 0;
        # wait4
        my $number = `uname -m` =~ /aarch64/ ? 260 : 61;
        syscall($number, $pid, $status, 0, $rusage) == $pid or die "wait4: $!\n";
        my $ended = unpack("i", $status);
        my $code = $ended & 127 ? "killed" : $ended >> 8;
        die "@command ended with $code\n" if $code ne $wanted;
        # ru_maxrss comes after two times of two numbers each.
        print +(unpack "q5", $rusage)[4]' "$wanted" "$PANDOFS" "$@") || fail "$*: $taken"
    say "$((taken / 1024)) MiB: $*"
    expect_below "MiB of '$*'" $((taken / 1024)) $LIMIT
}

within 0 walk --json tree
expect_equal 'entries' "$(jq .entries out)" $entries
# One group of rows, however many threads there are.
within 0 walk --threads 16 --list parquet --output list.parquet tree
expect_equal 'the end of a Parquet file' "$(tail -c 4 list.parquet)" PAR1
# As many files with two names each as there are files, and more than are sorted in memory at once.
mkdir twice
perl -e 'my ($files) = @ARGV;
    for (1 .. $files) { open my $file, ">", "twice/f$_" or die "$!\n"; print $file "x"; close $file;
        link "twice/f$_", "twice/again$_" or die "$!\n" }' "$FILES"
within 0 walk --json twice
expect_equal 'bytes of files with two names' "$(jq .bytes out)" "$FILES"
expect_equal 'names of them' "$(jq .hard_links out)" $((FILES * 2))
within 0 rm -r twice
# A walk that is interrupted in a directory whose names alone take 50 MB writes those that are left down, and is killed. The same
# goes on from there: all within the limit.
mkdir long
perl -e 'for (1 .. $ARGV[0]) { open my $file, ">", sprintf "long/%0250d", $_ or die "$!\n" }' $LONG
KILL_AT=$((LONG * 240)) within killed walk --checkpoint state --checkpoint-interval 0 --json long
within 0 walk --checkpoint state --resume --json long
expect_equal 'entries of the long directory' "$(jq .entries out)" $((LONG + 1))
[[ ! -e state ]] || fail 'the checkpoint is still there'
within 0 rm -r long
within 0 find tree -name f7777
expect_equal 'what was found' "$(wc -l <out)" 1
within 0 du -s tree
within 0 du --by size tree
within 0 sum tree
within 0 cp tree copy
within 0 cmp --attributes tree copy
mv copy/wide/f1 copy/wide/extra
within 0 sync --delete tree copy
within 0 cmp tree copy
within 0 chmod g-w tree
within 0 chown "$(id -u)" tree
within 0 tar -cf a.tar tree
within 0 rm -r copy
mkdir ours
within 0 tar -xf a.tar -C ours
expect_equal 'unpacked entries' "$(find ours/tree | wc -l)" $entries
rm a.tar
within 0 rm -r ours
# An archive whose directories come first, and which has as many links.
mkdir linked && echo x >linked/first
perl -e 'for (1 .. $ARGV[0]) { my $from = "linked/first"; link $from, sprintf "linked/%0150d", $_ or die "$!\n" }' 60000
tar -cf theirs.tar linked tree
mkdir theirs
within 0 tar -xf theirs.tar -C theirs
expect_equal 'names of one file' "$(stat -c %h theirs/linked/first)" 60001
within 0 rm -r theirs
# From a pipe, in which files wait for threads.
mkdir files piped
for i in $(seq 400); do head -c 1000000 /dev/zero >"files/$i"; done
tar -cf files.tar files
within 0 tar -xf - -C piped <files.tar
expect_equal 'files from a pipe' "$(find piped -type f | wc -l)" 400
within 0 rm -r tree linked files piped
