#!/bin/bash
# On a file system that can, cp and sync share data with what they copy, large files and small ones; with --no-reflink
# they do not. A copy that is changed leaves what it was made of alone.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root can mount a file system'
command -v mkfs.xfs >/dev/null || skip 'mkfs.xfs is not installed (xfsprogs)'
truncate --size=2G "$SCRATCH/disk"
mkfs.xfs -q -m reflink=1 "$SCRATCH/disk"
mkdir "$SCRATCH/xfs"
mount -o loop "$SCRATCH/disk" "$SCRATCH/xfs" 2>/dev/null || skip 'there is no loop device, or no XFS'
cd "$SCRATCH/xfs"

mkdir from
head -c 200M /dev/urandom >from/large
head -c 100K /dev/urandom >from/small
truncate -s 300M from/sparse
printf data | dd of=from/sparse bs=1 seek=100000000 conv=notrunc status=none
sync -f .

# shared FILE: whether all its extents are another file's as well. The lines of extents begin with their numbers.
shared() {
    local extents
    extents=$(filefrag -v "$1" | grep -E '^ *[0-9]+:')
    [[ -n $extents ]] && ! grep -qv shared <<<"$extents"
}

# used: KiB of the file system.
used() {
    sync -f .
    df --output=used . | tail -n 1
}

before=$(used)
"$PANDOFS" cp --json from to >"$SCRATCH/done.json"
expect 'the copy' diff -r from to
for file in large small sparse; do
    shared "to/$file" || fail "to/$file shares nothing: $(filefrag -v "to/$file")"
done
expect_equal 'bytes that were copied' "$(jq .bytes "$SCRATCH/done.json")" 0
expect_below 'KiB that the copy took' $(($(used) - before)) 10240
# In the place of an old copy.
echo old >to/small && echo old >to/large
"$PANDOFS" sync from to
shared to/small && shared to/large || fail 'sync shared nothing'

"$PANDOFS" cp --no-reflink --json from plain >"$SCRATCH/done.json"
expect 'the copy' diff -r from plain
for file in large small sparse; do
    if shared "plain/$file"; then fail "plain/$file shares its data"; fi
done
expect_equal 'bytes that were copied' "$(($(jq .bytes "$SCRATCH/done.json") >> 20))" 200

# What is shared is parted when it is written.
sum=$(sha256sum <from/large)
printf changed | dd of=to/large bs=1 seek=1000000 conv=notrunc status=none
expect_equal 'the source' "$(sha256sum <from/large)" "$sum"
cd "$SCRATCH"
umount xfs
