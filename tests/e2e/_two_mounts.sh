# What two mounts of one file system, $A and $B, see of each other at once: new names, renames, removals,
# sizes, contents and permissions.
# shellcheck shell=bash

# 1. Names. Each time the other mount has looked before, so that it has something old to believe.
for ((i = 0; i < 50; i++)); do
    if ((i % 2)); then here=$A there=$B; else here=$B there=$A; fi
    [[ ! -e $there/name ]] || fail "round $i: a name is there before it was made"
    echo "round $i" >"$here/name"
    expect_equal "round $i: a new file's contents" "$(cat "$there/name")" "round $i"
    mv "$here/name" "$here/renamed"
    [[ ! -e $there/name ]] || fail "round $i: the old name is still there after a rename"
    expect_equal "round $i: a renamed file's contents" "$(cat "$there/renamed")" "round $i"
    expect_equal "round $i: the listing" "$(ls "$there")" renamed
    rm "$there/renamed"
    [[ ! -e $here/renamed ]] || fail "round $i: a removed file is still there"
    expect_equal "round $i: the listing after it" "$(ls "$here")" ''
    mkdir "$here/dir"
    touch "$there/dir/inside"
    expect_refused 'Directory not empty' rmdir "$here/dir"
    rm "$here/dir/inside"
    rmdir "$there/dir"
    expect_refused 'No such file or directory' ls "$here/dir"
done
say '50 rounds of names'

# 2. A name that becomes another file, and one that becomes a directory.
echo first >"$A/replaced"
expect_equal 'before' "$(cat "$B/replaced")" first
echo second >"$A/other"
mv "$A/other" "$B/replaced"
expect_equal 'after' "$(cat "$A/replaced")" second
rm "$B/replaced"
mkdir "$B/replaced"
expect_equal 'kind' "$(stat -c %F "$A/replaced")" directory
rmdir "$A/replaced"
say 'names that change what they stand for'

# 3. Sizes and contents, inline (16 KiB and less) and striped.
for size in 10 4096 16384 16385 3000000; do
    head -c "$size" /dev/urandom >"$A/data"
    expect_equal "size of $size bytes" "$(stat -c %s "$B/data")" "$size"
    expect "contents of $size bytes" cmp "$A/data" "$B/data"
    printf tail >>"$B/data"
    expect_equal "size after an append" "$(stat -c %s "$A/data")" $((size + 4))
    expect_equal "an append" "$(tail -c 4 "$A/data")" tail
    truncate --size=5 "$A/data"
    expect_equal 'size after a truncation' "$(stat -c %s "$B/data")" 5
    expect 'contents after a truncation' cmp "$A/data" "$B/data"
    printf xyz | dd of="$B/data" conv=notrunc status=none
    expect_equal 'the same size with other contents' "$(head -c 3 "$A/data")" xyz
    rm "$A/data"
done
say 'sizes and contents'

# 4. Attributes.
touch "$A/attr"
for mode in 600 640 4755 0; do
    chmod "$mode" "$A/attr"
    expect_equal 'permissions' "$(stat -c %a "$B/attr")" "$mode"
done
touch --date='2004-05-06 07:08:09.123456789 UTC' "$B/attr"
expect_equal 'time' "$(TZ=UTC0 stat -c %y "$A/attr")" '2004-05-06 07:08:09.123456789 +0000'
ln "$A/attr" "$A/attr-2"
expect_equal 'links' "$(stat -c %h "$B/attr")" 2
rm "$B/attr-2"
expect_equal 'links' "$(stat -c %h "$A/attr")" 1
setfattr --name user.a --value b "$A/attr"
expect_equal 'extended attribute' "$(getfattr --only-values --absolute-names -n user.a "$B/attr")" b
if [[ $(id -u) -eq 0 ]]; then
    chown 1234:4321 "$A/attr"
    expect_equal 'owner' "$(stat -c %u:%g "$B/attr")" 1234:4321
fi
mkdir "$A/parent"
for ((i = 1; i <= 5; i++)); do
    mkdir "$A/parent/$i"
    expect_equal 'link count of a directory' "$(stat -c %h "$B/parent")" $((i + 2))
done
say 'permissions, times, links, owners, extended attributes'

# 5. A file that the other mount removes stays readable and writable for whom has it open.
head -c 2000000 /dev/urandom >"$SCRATCH/original"
for size in 2000 2000000; do
    head -c "$size" "$SCRATCH/original" >"$A/open"
    exec {reading}<"$A/open" {writing}>>"$A/open"
    rm "$B/open"
    [[ ! -e $A/open ]] || fail 'the removed file still has its name'
    expect "what is read of $size bytes" cmp <(head -c "$size" "$SCRATCH/original") <(cat <&"$reading")
    echo appended >&"$writing"
    expect_equal 'what was appended' "$(tail -c 9 <"/proc/self/fd/$reading")" appended
    expect_equal 'links' "$(stat -L -c %h "/proc/self/fd/$reading")" 0
    # One that was replaced, too.
    exec {reading}<&- {writing}>&-
    echo old >"$A/open"
    exec {reading}<"$A/open"
    echo new >"$B/new"
    mv "$B/new" "$B/open"
    expect_equal 'a replaced file' "$(cat <&"$reading")" old
    expect_equal 'what replaced it' "$(cat "$A/open")" new
    exec {reading}<&-
    rm "$A/open"
done
say 'files that are open and removed'

# 6. Both append to one file, line by line: nothing is lost when one does so after the other.
for ((i = 0; i < 100; i++)); do
    if ((i % 2)); then echo "$i" >>"$A/log"; else echo "$i" >>"$B/log"; fi
done
expect 'a log of both' diff <(seq 0 99) "$A/log"
expect 'a log of both, seen by the other' diff <(seq 0 99) "$B/log"
# Both make names in one directory at the same time: each name is one's.
mkdir "$A/race"
race() {
    local i won=0
    for ((i = 0; i < 200; i++)); do
        if mkdir "$1/race/$i" 2>/dev/null; then won=$((won + 1)); fi
    done
    echo "$won"
}
race "$B" >"$SCRATCH/won" &
racer=$!
started+=("$racer")
won=$(race "$A")
wait_for_end "$racer"
say "of 200 names one mount made $won and the other $(cat "$SCRATCH/won")"
expect_equal 'names made' $((won + $(cat "$SCRATCH/won"))) 200
expect_equal 'names there' "$(ls "$B/race" | wc -l)" 200
