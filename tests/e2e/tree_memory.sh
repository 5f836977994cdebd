#!/bin/bash
# What each of the tools for trees takes of memory does not grow with the tree: a hundred thousand files in one directory,
# as many directories, a chain of directories. Each tool goes through all of it with less than LIMIT. FILES=500000 and
# DIRECTORIES=200000 take half an hour.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh
cd "$SCRATCH"

# MiB, and numbers of what is made.
LIMIT=64
FILES=${FILES:-100000}
DIRECTORIES=${DIRECTORIES:-100000}
DEPTH=2000

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
# until somebody waits for it, and not after that: perl asks the kernel when it waits.
within() {
    local wanted=$1 taken
    shift
    taken=$(perl -e 'my ($wanted, @command) = @ARGV;
        my $pid = fork // die "$!\n";
        if (!$pid) { open STDOUT, ">", "out" or die "$!\n"; exec @command or die "$!\n" }
        my $rusage = "\0" x 512;
        my $status = pack "i", 0;
        # wait4
        my $number = `uname -m` =~ /aarch64/ ? 260 : 61;
        syscall($number, $pid, $status, 0, $rusage) == $pid or die "wait4: $!\n";
        my $code = unpack("i", $status) >> 8;
        die "@command ended with $code\n" if $code != $wanted;
        # ru_maxrss comes after two times of two numbers each.
        print +(unpack "q5", $rusage)[4]' "$wanted" "$PANDOFS" "$@") || fail "$*: $taken"
    say "$((taken / 1024)) MiB: $*"
    expect_below "MiB of '$*'" $((taken / 1024)) $LIMIT
}

within 0 walk --json tree
expect_equal 'entries' "$(jq .entries out)" $entries
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
