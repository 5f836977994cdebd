#!/bin/bash
# Layouts: a directory's is inherited by what is made in it, a file without data can be given one, and one with data
# keeps its own; as `pandofs layout` and as an extended attribute. Data is where the layout says, over restarts.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

NAME=user.pandofs.layout

# layout PATH: unit, count and first server, which is null where each file begins on another one.
layout() {
    "$PANDOFS" layout get --json "$MNT/$1" | jq -c '[.unit, .count, .first]'
}

# attribute PATH: the same as the attribute has it.
attribute() {
    getfattr --only-values -n $NAME "$MNT/$1" 2>/dev/null || echo none
}

# objects PATH: bytes of each server's data object, '-' where there is none.
objects() {
    local ino server object
    ino=$(printf '%016x' "$(stat -c %i "$MNT/$1")")
    for server in 0 1 2 3; do
        object=$DATA/server-$server/data/data/${ino: -2}/$ino
        if [[ -e $object ]]; then stat -c %s "$object"; else echo -; fi
    done | paste -sd' '
}

set_layout() {
    expect "layout set $*" "$PANDOFS" layout set "${@:1:$#-1}" "$MNT/${*: -1}"
}

# refused TEXT OPTIONS... PATH: with that in the message, and nothing changes.
refused() {
    local text=$1 before
    shift
    before=$(layout "${*: -1}")
    if "$PANDOFS" layout set "${@:1:$#-1}" "$MNT/${*: -1}" 2>"$SCRATCH/error"; then
        fail "it was set: $*"
    fi
    expect_contains "what is said to layout set $*" "$(cat "$SCRATCH/error")" "$text"
    expect_equal "the layout after layout set $*" "$(layout "${*: -1}")" "$before"
}

start_cluster
mkdir "$MNT/dir" "$MNT/plain"
expect_equal 'the default' "$(layout dir)" '[1048576,4,null]'
expect_equal 'the attribute where nothing is set' "$(attribute dir)" none

# 1. Set on a directory, inherited by files and directories.
set_layout --unit 64K --count 2 --first 1 dir
mkdir "$MNT/dir/below"
head -c 1000000 /dev/urandom >"$MNT/dir/below/file"
for path in dir dir/below dir/below/file; do
    expect_equal "the layout of $path" "$(layout $path)" '[65536,2,1]'
    expect_equal "the attribute of $path" "$(attribute $path)" 'unit=65536 count=2 first=1'
done
# 15 units and the rest: 8 on the first server.
expect_equal 'where the data is' "$(objects dir/below/file)" "- $((8 * 65536)) $((1000000 - 8 * 65536)) -"
cp "$MNT/dir/below/file" "$MNT/plain/file"
expect_equal 'what is made elsewhere' "$(layout plain/file | jq -c '.[:2]')" '[1048576,4]'
say 'a layout is inherited'

# 2. What is not given stays, and 'default' takes it off.
set_layout --first default dir
expect_equal 'without a first server' "$(layout dir)" '[65536,2,null]'
set_layout --count all dir
expect_equal 'over all servers' "$(layout dir)" '[65536,4,null]'
for number in 1 2 3 4 5 6 7 8; do
    : >"$MNT/dir/$number"
    layout "dir/$number" | jq '.[2]'
done | sort -u >"$SCRATCH/firsts"
expect_equal 'the servers on which files begin' "$(paste -sd' ' "$SCRATCH/firsts")" '0 1 2 3'

# 3. A file without data may be given one; with data it keeps its own.
set_layout --unit 4K --count 1 --first 3 dir/1
printf x >"$MNT/dir/2"
refused 'has data' --unit 8K dir/2
refused 'has data' --count 1 dir/below/file
head -c 100000 /dev/urandom >"$MNT/dir/1"
expect_equal 'all of it on one server' "$(objects dir/1)" '- - - 100000'
: >"$MNT/dir/below/file"
expect_equal 'cut to nothing it is where it was' "$(layout dir/below/file)" '[65536,2,1]'
refused 'has data' --count 1 dir/below/file
say 'a file with data keeps its layout'

# 4. What cannot be is refused with the limit.
refused 'a multiple of 4 KiB up to 1 GiB' --unit 5000 dir
refused 'a multiple of 4 KiB up to 1 GiB' --unit 2G dir
refused 'there are 4' --count 5 dir
refused 'they are 0 to 3' --first 4 dir
refused 'nothing to set' dir
ln -s dir "$MNT/link"
mkfifo "$MNT/fifo"
expect_refused 'neither a file nor a directory' "$PANDOFS" layout get "$MNT/fifo"
for value in 'unit=5000' 'count=5' 'first=4' 'stripes=2' ''; do
    before=$(attribute plain)
    if [[ -n $value ]] && setfattr -n $NAME -v "$value" "$MNT/plain" 2>/dev/null; then
        fail "the attribute was set to $value"
    fi
    expect_equal "the attribute after '$value'" "$(attribute plain)" "$before"
done

# 5. As an extended attribute, which no list shows and nothing copies.
expect setfattr setfattr -n $NAME -v 'count=1 unit=128K' "$MNT/plain"
expect_equal 'the attribute' "$(attribute plain)" 'unit=131072 count=1'
expect_equal 'the list of attributes' "$(getfattr -d -m - "$MNT/plain" 2>&1)" ''
head -c 300000 /dev/urandom >"$MNT/plain/small"
expect_equal 'what is made then' "$(layout plain/small | jq -c '.[:2]')" '[131072,1]'
expect 'removing it' setfattr -x $NAME "$MNT/plain"
expect_equal 'the attribute, removed' "$(attribute plain)" none
expect_equal 'the layout then' "$(layout plain)" '[1048576,4,null]'
if setfattr -n $NAME -v 'count=2' "$MNT/plain/small" 2>/dev/null; then
    fail 'the layout of a file with data was set'
fi
say 'and so it is as an extended attribute'

# 6. Only the owner may.
if [[ $(id -u) -eq 0 ]]; then
    chmod 711 "$SCRATCH"
    chmod 777 "$MNT/plain"
    expect_equal 'what another user is told' "$(perl -e '$> = 65534; exec @ARGV' \
        setfattr -n $NAME -v 'count=1' "$MNT/plain" 2>&1 | grep -c 'not permitted')" 1
fi

# 7. It stays.
sums=$(cd "$MNT" && find . -type f -exec sha256sum {} + | sort)
kill_cluster
start_cluster
expect_equal 'the checksums of all files' "$(cd "$MNT" && find . -type f -exec sha256sum {} + | sort)" "$sums"
expect_equal 'the layout of the directory' "$(layout dir)" '[65536,4,null]'
expect_equal 'the layout of a file' "$(layout dir/1)" '[4096,1,3]'
check_online
stop_cluster
