#!/bin/bash
# An overlay whose upper and work directories are on a mount: files that are changed, directories that are renamed, and
# white-outs of what is gone from the layer below, which the overlay makes by renaming (RENAME_WHITEOUT); also when it
# is mounted again. What is cached under leases, as it is by default, and by time-outs.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root mounts overlays'
grep -qw overlay /proc/filesystems || modprobe overlay 2>/dev/null || skip 'this kernel has no overlayfs'
if [[ -z ${NAMESPACE-} ]]; then
    NAMESPACE=own exec unshare --mount --propagation private bash "$0"
fi
drop_other_mounts

lower=$SCRATCH/lower
merged=$SCRATCH/merged
mkdir -p "$lower/dir/sub" "$lower/gone-dir" "$merged"
for name in kept changed gone moved dir/one dir/two dir/sub/deep gone-dir/inside; do
    echo "lower $name" >"$lower/$name"
done

# On a directory that is in partitions from the first entry on, and on one that is not.
use_overlays() {
    local cache=$1 partitions
    for partitions in 1 4; do
        place=$MNT/$cache-$partitions
        mkdir "$place"
        "$PANDOFS" dir --partitions "$partitions" --threshold 100 "$place" >/dev/null
        mkdir "$place/upper" "$place/work"
        # redirect_dir: directories of the layer below are renamed as such, by an attribute.
        mount_overlay() {
            expect "an overlay with its upper layer in $partitions partitions" mount -t overlay overlay \
                -o "lowerdir=$lower,upperdir=$place/upper,workdir=$place/work,redirect_dir=on" "$merged"
        }
        is_as_changed() {
            expect_equal "what is there $1" "$(cd "$merged" && find . -type f | sort | paste -sd ' ')" \
                './changed ./dir-2/one ./dir-2/sub/deep ./dir-2/two ./kept ./moved-2 ./new ./new-dir/file'
            expect_equal "a file that was changed $1" "$(paste -sd ' ' "$merged/changed")" 'lower changed upper'
            expect_equal "a file that was not $1" "$(cat "$merged/kept")" 'lower kept'
            expect_equal "a file that was moved $1" "$(cat "$merged/moved-2")" 'lower moved'
            expect_equal "a file far down $1" "$(cat "$merged/dir-2/sub/deep")" 'lower dir/sub/deep'
        }
        mount_overlay
        echo upper >>"$merged/changed"
        echo new >"$merged/new"
        mkdir "$merged/new-dir"
        echo file >"$merged/new-dir/file"
        rm "$merged/gone"
        rm -r "$merged/gone-dir"
        mv "$merged/moved" "$merged/moved-2"
        mv "$merged/dir" "$merged/dir-2"
        is_as_changed 'at once'
        expect 'umount of the overlay' umount "$merged"
        for name in gone gone-dir moved dir; do
            expect_equal "the white-out of $name" "$(stat -c '%F %t:%T' "$place/upper/$name")" 'character special file 0:0'
        done
        mount_overlay
        is_as_changed 'on an overlay that was mounted again'
        # What was gone comes back.
        echo again >"$merged/gone"
        expect_equal 'a file that is made again' "$(cat "$merged/gone")" again
        expect 'umount of the overlay' umount "$merged"
        expect_equal 'what was a white-out' "$(stat -c %F "$place/upper/gone")" 'regular file'
        say "overlay with $partitions partitions, with $cache"
    done
}

for cache in leases timeouts; do
    start_cluster --cache "$cache"
    use_overlays "$cache"
    expect_equal 'the layer below' "$(cat "$lower/gone")" 'lower gone'
    check_online
    stop_cluster
done
