#!/bin/bash
# A source tree goes onto the mount and back with tar, and is the same: contents, modes, links, times.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

TREE=/usr/include

# listing DIR: each object's path, kind, permissions, number of links, size, target, and its
# modification time in nanoseconds. Sizes and link counts of directories are the file system's own.
listing() {
    (cd "$1" && find . -mindepth 1 \( -type d -printf '%P\t%y\t%#m\t\t\t\t%T@\n' \) \
        -o -printf '%P\t%y\t%#m\t%n\t%s\t%l\t%T@\n' | sort)
}

# links DIR: the names of each inode that has several, one inode a line.
links() {
    (cd "$1" && find . -type f -links +1 -printf '%i %P\n' | sort -k 2 |
        awk '{ names[$1] = names[$1] " " $2 } END { for (inode in names) print names[inode] }' | sort)
}

start_cluster
original=$SCRATCH/original
mkdir "$original"
cp -a "$TREE" "$original/tree"
# What a source tree seldom has.
odd=$original/tree/odd
mkdir -p "$odd/deep/er" "$odd/empty"
echo hard >"$odd/one"
ln "$odd/one" "$odd/two"
ln "$odd/one" "$odd/deep/three"
ln -s ../one "$odd/deep/relative"
ln -s /nowhere/at/all "$odd/dangling"
ln -s "$(printf 'x%.0s' {1..1000})" "$odd/long"
mkfifo "$odd/pipe"
: >"$odd/nothing"
truncate --size=3M "$odd/hole"
printf 'name with spaces' >"$odd/a name with spaces"
printf 'bytes' >"$odd/"$'\xff\xfe not UTF-8'
printf 'long' >"$odd/$(printf 'n%.0s' {1..255})"
chmod 0751 "$odd/deep"
chmod 1777 "$odd/empty"
chmod 0400 "$odd/nothing"
chmod 4755 "$odd/one"
touch --date='1971-02-03 04:05:06.123456789 UTC' "$odd/nothing" "$odd/deep"
touch --date='2106-07-08 09:10:11.987654321 UTC' "$odd/hole"
touch --no-dereference --date='2001-01-01 UTC' "$odd/dangling"
wanted=$(listing "$original")
say "$(wc -l <<<"$wanted") objects, $(du -s --apparent-size -h "$original" | cut -f 1)"

pack=(tar --format=pax --sparse -C "$original" -cf - tree)
unpack=(tar --warning=no-timestamp --preserve-permissions -xf -)
mkdir "$MNT/copy"
"${pack[@]}" | "${unpack[@]}" -C "$MNT/copy"
say 'unpacked onto the mount'
# `diff -r` opens what is no file, and would wait for somebody to write to a pipe.
expect 'diff of the copy' diff -r --no-dereference --exclude=pipe "$original" "$MNT/copy"
diff <(echo "$wanted") <(listing "$MNT/copy") || fail 'the copy differs in what is not contents'
expect_equal 'hard links of the copy' "$(links "$MNT/copy")" "$(links "$original")"
[[ -p $MNT/copy/tree/odd/pipe ]] || fail 'the pipe is none on the mount'
say 'the copy is the same'

# Seen by a mount that never wrote it: nothing comes from the kernel's memory.
expect 'umount' "$PANDOFS" umount "$MNT"
mount_also "$MNT"
diff <(echo "$wanted") <(listing "$MNT/copy") || fail 'the copy differs for another mount'

mkdir "$SCRATCH/back"
tar --format=pax --sparse -C "$MNT/copy" -cf - tree | "${unpack[@]}" -C "$SCRATCH/back"
expect 'diff of what came back' diff -r --no-dereference --exclude=pipe "$original" "$SCRATCH/back"
diff <(echo "$wanted") <(listing "$SCRATCH/back") || fail 'what came back differs in what is not contents'
expect_equal 'hard links of what came back' "$(links "$SCRATCH/back")" "$(links "$original")"
say 'what another mount packed is the same'

check_online
rm -rf "$MNT/copy"
expect_equal 'what is left of it' "$(find "$MNT" -mindepth 1)" ''
expect umount "$PANDOFS" umount "$MNT"
stop_cluster
