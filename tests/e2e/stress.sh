#!/bin/bash
# stress-ng, which verifies what it does: each of its stressors for file systems on the mount, alone, by two processes
# for about a second. None fails, none is skipped, and none leaves anything behind.
# long
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'without the rights of root some stressors do little'

# Of the class `filesystem` all but those that have nothing to do with the mount (binderfs, eventfd, procfs), that
# may hang the machine (bind-mount), that no file system but a few has anything for (verity), and fiemap, which the
# kernel does not pass on to a file system behind FUSE. (Nor io-uring, of 0.15.06: its statx is told that there is no such
# file on ext4 as well. fio.sh has io_uring.) Then what does its input and output on files.
STRESSORS=(
    access chattr chdir chmod chown copy-file dentry dir dirdeep dirmany dnotify dup fallocate fcntl
    fanotify file-ioctl filename flock fpunch fsize fstat getdent handle hdd inode-flags inotify io iomix ioprio lease link
    locka lockf lockofd mknod open rename symlink sync-file touch utime xattr
    aio aiol chroot msync readahead revio seek sendfile
)

# Runs what follows the mount's path, in a mount name space that has none of the other FUSE file systems.
# shellcheck disable=SC2016 # This is for the other shell to expand.
WITHOUT_OTHER_MOUNTS='mount=$1
    shift
    while read -r other; do
        [[ $other == "$mount" ]] || umount --lazy "$other"
    done < <(awk "\$3 ~ /^fuse/ { print \$2 }" /proc/self/mounts | tac)
    exec "$@"'

start_cluster
for stressor in "${STRESSORS[@]}"; do
    options=()
    seconds=1
    case $stressor in
    # So many operations and not so many seconds: when its time is over, 0.15.06 also checks the buffers of reads that
    # it did not wait for ("unexpected data mismatch", one time in five on a file system that takes a millisecond).
    aiol) seconds=120 options=(--aiol-ops 500) ;;
    hdd) options=(--hdd-bytes 32m --hdd-opts "utimes,fsync,wr-rnd,rd-rnd") ;;
    iomix) options=(--iomix-bytes 64m) ;;
    seek) options=(--seek-punch) ;;
    esac
    folder=$MNT/$stressor
    mkdir "$folder"
    code=0
    alone=()
    # It watches every mount of the machine, and so would wait for one of somebody else that does not answer.
    [[ $stressor != fanotify ]] || alone=(unshare --mount bash -c "$WITHOUT_OTHER_MOUNTS" bash "$MNT")
    # Some work where they are started and not in the folder that they are told.
    output=$(cd "$folder" && "${alone[@]}" stress-ng --temp-path "$folder" --verify --timeout "$seconds" \
        --"$stressor" 2 "${options[@]}" 2>&1) || code=$?
    [[ $code -eq 0 ]] || fail "$stressor ended with $code: $output"
    # It ends well also when it says that something was not as expected, or that it did nothing.
    ! grep -E --max-count=20 '^stress-ng: fail:|unexpected|skip' <<<"$output" || fail "$stressor"
    rmdir "$folder" || fail "$stressor left behind: $(find "$folder" | head)"
done
say "${#STRESSORS[@]} stressors found nothing wrong"

# Directories, names and data at the same time.
mkdir "$MNT/together"
cd "$MNT/together"
expect 'stressors together' stress-ng --quiet --temp-path "$MNT/together" --verify --timeout 5 \
    --dentry 1 --dir 1 --hdd 1 --hdd-bytes 16m --iomix 1 --iomix-bytes 16m --link 1 --rename 2 --symlink 1 --xattr 1
cd "$SCRATCH"
rmdir "$MNT/together"
check_online
stop_cluster
