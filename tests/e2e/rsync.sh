#!/bin/bash
# rsync brings a tree onto the mount; run again it finds nothing to do, and reading everything again
# neither; what changes at the source is brought, and nothing else.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

TREE=/usr/include/linux
[[ -d $TREE ]] || TREE=/usr/include

# transfer OPTION...: what rsync does, an item a line, is then in $items. The tree's own top is left out:
# whether it is an item depends on the second in which it was made.
transfer() {
    items=$(rsync -aHX --itemize-changes "$@" "$source/" "$MNT/tree/" | sed '/ \.\/$/d')
}

start_cluster
source=$SCRATCH/source
cp -a "$TREE" "$source"
ln "$(find "$source" -type f | sort | sed -n 1p)" "$source/linked"
ln -s linked "$source/symbolic"
mkdir "$source/empty"
setfattr --name user.note --value kept "$source/linked"
objects=$(find "$source" -mindepth 1 | wc -l)

mkdir "$MNT/tree"
transfer
expect_equal 'items of the first run' "$(wc -l <<<"$items")" "$objects"
say "the first run brought $objects objects"
transfer
expect_equal 'items of the second run' "$items" ''
say 'the second run found nothing to do'
transfer --checksum
expect_equal 'items of a run that reads everything' "$items" ''
expect 'diff' diff -r --no-dereference "$source" "$MNT/tree"
expect_equal 'an extended attribute' \
    "$(getfattr --only-values --absolute-names -n user.note "$MNT/tree/linked")" kept
expect_equal 'links of a linked file' "$(stat -c %h "$MNT/tree/linked")" 2
say 'reading everything, neither'

echo more >>"$source/linked"
rm -r "$source/empty"
touch --date='2011-11-11 UTC' "$source/symbolic" --no-dereference
echo new >"$source/new"
transfer --delete
found=$(sed -E 's/^(\S+)\s+/\1 /' <<<"$items" | sort)
say "changes that the next run brought:"
echo "$found"
for changed in linked symbolic new empty/; do
    grep -q -F -- " $changed" <<<"$found" || fail "rsync did not see the change of $changed"
done
expect_below 'items of that run' "$(wc -l <<<"$found")" 8
expect 'diff after the changes' diff -r --no-dereference "$source" "$MNT/tree"
transfer --delete --checksum
expect_equal 'items of the last run' "$items" ''

# Back from the mount, too.
rsync -aHX "$MNT/tree/" "$SCRATCH/back/"
expect_equal 'items of a comparison with what came back' \
    "$(rsync -aHX --itemize-changes --checksum --dry-run "$source/" "$SCRATCH/back/")" ''
say 'what came back is the same'

check_online
stop_cluster
