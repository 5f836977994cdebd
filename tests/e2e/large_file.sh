#!/bin/bash
# Large files: beyond 4 GiB, sparse, cut and grown again, appended to; and 300 MB in and back.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

GIB=$((1 << 30))

# put OFFSET TEXT: into the file, wherever that is.
put() {
    printf '%s' "$2" | dd of="$file" bs=64K seek="$1" oflag=seek_bytes conv=notrunc status=none
}

# get OFFSET COUNT: with NUL bytes shown as '.'.
get() {
    dd if="$file" bs=64K skip="$1" count="$2" iflag=skip_bytes,count_bytes status=none | tr '\0' .
}

# kib_in_data_objects: what the servers' data objects take on disk, with their 256 directories each.
kib_in_data_objects() {
    du -sk "$DATA"/server-*/data/data | awk '{ sum += $1 } END { print sum }'
}

# 1. Sparse: only what is written takes space.
start_cluster
file=$MNT/sparse
size=$((5 * GIB))
truncate --size="$size" "$file"
expect_equal 'size' "$(stat -c %s "$file")" "$size"
expect_equal 'blocks of a file of which nothing was written' "$(stat -c %b "$file")" 0
expect_equal 'its end' "$(get $((size - 3)) 100)" '...'
for offset in 0 $((GIB - 2)) $((2 * GIB - 2)) $((4 * GIB - 2)) $((4 * GIB + 4096)) $((size - 4)); do
    put "$offset" "at $offset"
done
size=$((size - 4 + ${#offset} + 3))
expect_equal 'size after a write over the end' "$(stat -c %s "$file")" "$size"
for offset in 0 $((GIB - 2)) $((2 * GIB - 2)) $((4 * GIB - 2)) $((4 * GIB + 4096)) $((5 * GIB - 4)); do
    expect_equal "what is at $offset" "$(get "$offset" $((${#offset} + 3)))" "at $offset"
done
expect_equal 'what is before and after' "$(get $((4 * GIB + 4093)) 20)" '...at 4294971392....'
expect_below 'KiB in data objects' "$(kib_in_data_objects)" 20000
say "a file of $size bytes is there in $(kib_in_data_objects) KiB"

# A copy elsewhere, through memory that other files have pushed it out of.
expect umount "$PANDOFS" umount "$MNT"
mount_also "$MNT"
expect_equal 'what another mount reads' "$(get $((4 * GIB - 3)) 8)" '.at 4294'
expect_equal 'the size it sees' "$(stat -c %s "$file")" "$size"

# 2. What was cut off does not come back.
truncate --size=$((4 * GIB)) "$file"
expect_equal 'the end after a cut at 4 GiB' "$(get $((4 * GIB - 4)) 100)" '..at'
truncate --size=$((5 * GIB)) "$file"
expect_equal 'what was cut off' "$(get $((4 * GIB - 4)) 30)" '..at..........................'
expect_equal 'what was cut off further on' "$(get $((4 * GIB + 4096)) 10)" '..........'
put $((4 * GIB + 10)) again
expect_equal 'what is written there' "$(get $((4 * GIB + 8)) 9)" '..again..'
for cut in $((2 * GIB)) $((GIB - 1)) 100000 4097 4096 7; do
    truncate --size="$cut" "$file"
    truncate --size=$((6 * GIB)) "$file"
    expect_equal "what follows a cut at $cut" "$(get "$cut" 8)" '........'
done
expect_equal 'what was never cut off' "$(get 0 10)" 'at 0......'
truncate --size=0 "$file"
expect_equal 'size after a cut to nothing' "$(stat -c %s:%b "$file")" 0:0
say 'cut and grown again: zeros'

# 3. Appending to one over 4 GiB.
truncate --size=$((4 * GIB + 1)) "$file"
printf 'the end' >>"$file"
printf ', really' >>"$file"
expect_equal 'what was appended' "$(get $((4 * GIB)) 100)" '.the end, really'

# 4. Space in advance, and given back, beyond 4 GiB; what cannot be is refused, and harms nothing.
expect 'space in advance' fallocate --offset $((4 * GIB)) --length 8M "$file"
expect_equal 'the size' "$(stat -c %s "$file")" $((4 * GIB + (8 << 20)))
expect_above 'KiB in data objects' "$(kib_in_data_objects)" 8191
expect_above 'KiB of the file' $(($(stat -c %b "$file") / 2)) 8191
expect_equal 'what is there' "$(get $((4 * GIB)) 18)" '.the end, really..'
expect 'a hole' fallocate --punch-hole --offset $((4 * GIB + 1)) --length 8M "$file"
expect_equal 'the size with a hole' "$(stat -c %s "$file")" $((4 * GIB + (8 << 20)))
expect_equal 'what was in the hole' "$(get $((4 * GIB)) 18)" '..................'
expect_below 'KiB of the file with a hole' $(($(stat -c %b "$file") / 2)) 4096
expect_refused 'File too large' truncate --size=$((0x7fffffffffffffff)) "$file"
expect_refused 'No space left' fallocate --length $((1 << 50)) "$file"
expect_equal 'the file after refusals' "$(stat -c %s "$file")" $((4 * GIB + (8 << 20)))
rm "$file"
say 'appended; space reserved and given back; impossible sizes are refused'

# 5. 300 MB in and back, also with writes and reads that no unit of stripes is a multiple of.
original=$SCRATCH/original
head -c 300000007 /dev/urandom >"$original"
sum=$(sha256sum <"$original")
cp "$original" "$MNT/copy"
expect_equal 'checksum on the mount' "$(sha256sum <"$MNT/copy")" "$sum"
say '300 MB were copied in'
expect umount "$PANDOFS" umount "$MNT"
mount_also "$MNT"
cp "$MNT/copy" "$SCRATCH/back"
expect_equal 'checksum of what came back' "$(sha256sum <"$SCRATCH/back")" "$sum"
rm "$SCRATCH/back"
say 'and back'
# Each server has its part: 300 MB in stripes of 1 MiB over four.
for server in 0 1 2 3; do
    part=$(du -s --block-size=1 "$DATA/server-$server/data/data" | cut -f 1)
    [[ $part -gt 70000000 && $part -lt 85000000 ]] || fail "server $server has $part bytes of it"
done
dd if="$original" of="$MNT/odd" bs=123457 status=none
expect_equal 'checksum after odd writes' "$(sha256sum <"$MNT/odd")" "$sum"
expect_equal 'checksum of odd reads' "$(dd if="$MNT/odd" bs=54323 status=none | sha256sum)" "$sum"
say 'in writes and reads of odd sizes'
# Overwritten in the middle.
printf 'in the middle' | dd of="$MNT/odd" seek=150000000 oflag=seek_bytes conv=notrunc status=none
printf 'in the middle' | dd of="$original" seek=150000000 oflag=seek_bytes conv=notrunc status=none
expect 'a comparison after a write in the middle' cmp "$original" "$MNT/odd"

# 6. What is removed gives its space back.
rm "$MNT/copy" "$MNT/odd"
space_is_back() {
    [[ $(kib_in_data_objects) -lt 20000 ]]
}
wait_until 'the space of removed files' space_is_back
say 'the space is back'
check_online
expect umount "$PANDOFS" umount "$MNT"
stop_cluster
