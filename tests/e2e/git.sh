#!/bin/bash
# git keeps a repository of 1,000 files on the mount: commit, clone, gc, fsck.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null HOME=$SCRATCH
export GIT_AUTHOR_NAME=Test GIT_AUTHOR_EMAIL=test@example.org
export GIT_COMMITTER_NAME=Test GIT_COMMITTER_EMAIL=test@example.org
FILES=1000

start_cluster
repository=$MNT/repository
git init --quiet --initial-branch=main "$repository"
for ((i = 0; i < FILES; i++)); do
    dir=$repository/part$((i % 20))/$((i % 7))
    [[ -d $dir ]] || mkdir -p "$dir"
    # From one line to some two thousand: inline files and files in data objects.
    seq -f "line %g of file $i" $((1 + i * i % 2100)) >"$dir/file-$i.txt"
done
ln -s part0 "$repository/link"
chmod +x "$repository/part1/1/file-1.txt"
say "$FILES files are written"

git -C "$repository" add --all
git -C "$repository" commit --quiet --message 'All files'
tracked=$(git -C "$repository" ls-files | wc -l)
expect_equal 'tracked files' "$tracked" $((FILES + 1))
expect_equal 'status after the commit' "$(git -C "$repository" status --porcelain)" ''
say "$tracked files are committed"

git -C "$repository" checkout --quiet -b other
git -C "$repository" rm --quiet -r part3
git -C "$repository" mv part4 moved
echo changed >>"$repository/part5/5/file-5.txt"
git -C "$repository" commit --quiet --all --message 'Remove, move, change'
git -C "$repository" checkout --quiet main
git -C "$repository" merge --quiet --no-ff --no-edit other
expect_equal 'status after the merge' "$(git -C "$repository" status --porcelain)" ''
expect_equal 'the moved files' "$(git -C "$repository" ls-files moved | wc -l)" $((FILES / 20))
[[ ! -e $repository/part3 ]] || fail 'part3 is still there'
say 'a branch was made, changed and merged'

# On one file system a clone's objects are hard links.
git clone --quiet "$repository" "$MNT/clone"
linked=$(find "$MNT/clone/.git/objects" -type f -links +1 | wc -l)
[[ $linked -gt $FILES ]] || fail "only $linked of the clone's objects are hard links"
git -C "$repository" gc --quiet --prune=now
expect_equal 'loose objects after gc' \
    "$(git -C "$repository" count-objects -v | awk '$1 == "count:" { print $2 }')" 0
expect_equal 'packs after gc' "$(find "$repository/.git/objects/pack" -name '*.pack' | wc -l)" 1
for checked in "$repository" "$MNT/clone"; do
    expect "git fsck of $checked" git -C "$checked" fsck --full --strict --no-progress
done
say "cloned ($linked objects by hard links), collected, checked"

# The same by way of packs, to another file system.
git clone --quiet --no-local "$repository" "$SCRATCH/local"
expect 'git fsck of the clone on the local disk' git -C "$SCRATCH/local" fsck --full --strict --no-progress
for other in "$MNT/clone" "$SCRATCH/local"; do
    expect "diff with $other" diff -r --no-dereference --exclude=.git "$repository" "$other"
    expect_equal "the head of $other" "$(git -C "$other" rev-parse HEAD)" \
        "$(git -C "$repository" rev-parse HEAD)"
done
[[ -x $MNT/clone/part1/1/file-1.txt ]] || fail 'the clone lost an executable bit'
say 'both clones are the same as the original'

rm -rf "$MNT/clone"
git -C "$repository" fsck --full --no-progress
check_online
stop_cluster
