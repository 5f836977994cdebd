#!/bin/bash
# A file that nobody has changed is read again out of the kernel's memory; what another mount has closed is seen by who opens
# the file then, whatever the kernel has of it.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster
OTHER=$SCRATCH/other
mount_also "$OTHER"

# Bytes that servers have read for clients.
read_bytes() {
    "$PANDOFS" status --data "$DATA" --json | jq '[.servers[].data_read] | add'
}

# Data sets are read again and again.
mkdir "$MNT/set"
for ((i = 0; i < 20; i++)); do
    head -c $((20000 + 5000 * i)) /dev/urandom >"$SCRATCH/file-$i"
    cp "$SCRATCH/file-$i" "$MNT/set/file-$i"
done
read_all() {
    for ((i = 0; i < 20; i++)); do
        cmp "$SCRATCH/file-$i" "$OTHER/set/file-$i" || fail "file $i is not what was written"
    done
}
before=$(read_bytes)
read_all
first=$(read_bytes)
expect_above 'bytes that servers read for the first reading' $((first - before)) 1300000
read_all
read_all
expect_equal 'bytes that servers read for two more' $(($(read_bytes) - first)) 0

# What this mount has made is in its kernel's memory from the first reading on (`cp -a` gives it its times), but for the last
# page of each file, which it has not written whole.
mkdir "$MNT/own"
cp -a "$SCRATCH"/file-* "$MNT/own"
before=$(read_bytes)
for ((i = 0; i < 20; i++)); do
    cmp "$SCRATCH/file-$i" "$MNT/own/file-$i" || fail "own file $i is not what was written"
done
expect_below 'bytes that servers read of what was written here' $(($(read_bytes) - before)) $((20 * 4096))
for ((i = 0; i < 20; i++)); do
    printf '%d' "$i" | dd of="$OTHER/own/file-$i" conv=notrunc status=none
    printf '%d' "$i" | dd of="$SCRATCH/file-$i" conv=notrunc status=none
    cmp "$SCRATCH/file-$i" "$MNT/own/file-$i" || fail "own file $i is not what the other mount wrote"
done

# Each mount in turn writes over what the other has just read, and all but closes it: as many bytes, at once, also by a
# mapping and to one place.
for ((i = 0; i < 40; i++)); do
    if ((i % 2)); then from=$MNT to=$OTHER; else from=$OTHER to=$MNT; fi
    printf '%020000d' "$i" >"$SCRATCH/new"
    case $((i % 3)) in
    0) dd if="$SCRATCH/new" of="$from/set/file-0" conv=notrunc status=none ;;
    1) cp "$SCRATCH/new" "$from/set/file-0" ;;
    2) python3 - "$SCRATCH/new" "$from/set/file-0" <<'EOF'
import mmap, os, sys
new = open(sys.argv[1], "rb").read()
file = os.open(sys.argv[2], os.O_RDWR)
with mmap.mmap(file, len(new)) as mapped:
    mapped[:] = new
    mapped.flush()
os.close(file)
EOF
    ;;
    esac
    cmp "$SCRATCH/new" <(head -c 20000 "$to/set/file-0") || fail "$to has not what was written through $from in round $i"
    cmp "$SCRATCH/new" <(head -c 20000 "$from/set/file-0") || fail "$from has not what it wrote in round $i"
done

# What is appended, cut off and given back its time.
for ((i = 0; i < 20; i++)); do
    echo "line $i" >>"$MNT/lines"
    expect_equal "lines through the other mount in round $i" "$(wc -l <"$OTHER/lines")" $((i + 1))
    touch -d '2020-01-01' "$OTHER/lines"
    expect_equal "lines in round $i" "$(wc -l <"$MNT/lines")" $((i + 1))
done
truncate -s 7 "$OTHER/lines"
expect_equal 'what is left of the lines' "$(cat "$MNT/lines")" 'line 0'

expect 'umount' "$PANDOFS" umount "$OTHER"
check_online
stop_cluster
