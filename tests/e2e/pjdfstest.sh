#!/bin/bash
# pjdfstest, the POSIX suite that others wrote: what passes on ext4 passes on the mount, in directories of which each
# is spread over servers, and nothing is left out.
# Some cases remount the file system with mount(8), which runs `pandofs` from one of the system's folders. In a
# mount name space of its own this can be the one that is tested, whatever is installed.
# long
if [[ $(id -u) -eq 0 && -z ${OWN_MOUNTS:-} ]]; then
    OWN_MOUNTS=1 exec unshare --mount --propagation private bash "$0"
fi
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh
[[ -z ${OWN_MOUNTS:-} ]] || drop_other_mounts

# As many test cases as this version of it has on Linux.
CASES=398
# Of them those that have the file system remounted read-only.
REMOUNTING=13
# Makes as many links of one file as there may be, in one directory.
MOST_LINKS=link::link_count_max

[[ $(id -u) -eq 0 ]] || skip 'only root can act as other users, make devices and remount'
chmod 755 "$SCRATCH"
setpriv --reuid nobody --regid nogroup --clear-groups test -x "$SCRATCH" ||
    skip "other users cannot reach $SCRATCH: set TMPDIR to a place that they can"

# shellcheck source=tests/e2e/_pjdfstest.sh
. ./_pjdfstest.sh
configuration false >"$SCRATCH/stay.toml"
configuration true >"$SCRATCH/remount.toml"

# The C library knows how many links a file may have from a table of the file systems in the kernel, so that
# for every one behind FUSE it answers 127, which the suite takes for "unknown" and leaves out the test of it.
cat >"$SCRATCH/link_max.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>

long pathconf(const char *path, int name)
{
    long (*real)(const char *, int) = dlsym(RTLD_NEXT, "pathconf");
    return name == _PC_LINK_MAX ? 65000 : real(path, name);
}
C
cc -shared -fPIC -o "$SCRATCH/link_max.so" "$SCRATCH/link_max.c" -ldl

# suite PLACE CONFIGURATION [OPTION OR NAME]...: the lines "NAME RESULT" of what it printed are then in $RESULTS. Each test
# leaves open what it opened, so that those that remount are run by themselves: what is open for writing is in the way
# of a remount, on every file system.
suite() {
    local output code=0
    output=$(LD_PRELOAD=$SCRATCH/link_max.so NO_COLOR=1 RUST_BACKTRACE=0 pjdfstest \
        --configuration-file "$SCRATCH/$2.toml" --path "$1" --secondary-fs "$SCRATCH/elsewhere" \
        "${@:3}" 2>&1) || code=$?
    if [[ $code -ne 0 ]]; then
        grep --after-context=1 'FAILED$' <<<"$output" || echo "$output"
        fail "pjdfstest $1 ${*:3}: $(grep '^Summary' <<<"$output")"
    fi
    RESULTS=$(awk 'NF == 2 && $2 ~ /^(ok|skipped)$/ { print $1, $2 }' <<<"$output" | sort)
    say "$1 ${3-}: $(grep '^Summary' <<<"$output")"
}

# with RESULT: the names of cases that ended so.
with() {
    awk -v result="$1" '$2 == result { print $1 }' <<<"$RESULTS"
}

mkdir "$SCRATCH/elsewhere" "$SCRATCH/programs"
ln -s "$PANDOFS" "$SCRATCH/programs/pandofs"
mount --bind "$SCRATCH/programs" /usr/local/sbin
mount -t tmpfs none "$SCRATCH/elsewhere"

# What is to pass.
disk=$SCRATCH/ext4
mkdir "$disk"
truncate --size=1G "$disk.img"
mkfs.ext4 -q -F "$disk.img"
mount -o loop "$disk.img" "$disk" || skip 'no loop device can be mounted here'
suite "$disk" stay
expect_equal 'cases on ext4' "$(wc -l <<<"$RESULTS")" "$CASES"
passing=$(with ok)
suite "$disk" remount ::erofs
expect_equal 'cases with a remount on ext4' "$(with ok | wc -l)" "$REMOUNTING"
remounting=$(with ok)
expect_equal 'cases that ext4 passes' "$(sort -u <<<"$passing"$'\n'"$remounting" | wc -l)" "$CASES"
umount "$disk"

start_cluster
# In four partitions from the first entry on.
mkdir "$MNT/spread"
"$PANDOFS" dir --partitions 4 "$MNT/spread" >/dev/null
mkdir "$MNT/spread/probe"
expect_equal 'partitions of a new directory' "$("$PANDOFS" dir --json "$MNT/spread/probe" | jq .partitions)" 4
# While a directory is on one server links in it are ordinary operations; spread, most of the 65,000 would wait for two
# servers' disks.
mkdir "$MNT/whole"
"$PANDOFS" dir --threshold 100000 "$MNT/whole" >/dev/null

mapfile -t names < <(grep -vx "$MOST_LINKS" <<<"$passing" | sed 's/^/pjdfstest::tests::/')
suite "$MNT/spread" stay --exact "${names[@]}"
passing_here=$(with ok)
suite "$MNT/whole" stay --exact "pjdfstest::tests::$MOST_LINKS"
passing_here+=$'\n'$(with ok)
expect_equal 'cases that pass here' "$(sort <<<"$passing_here")" "$passing"

suite "$MNT/spread" remount ::erofs
expect_equal 'cases with a remount that pass here' "$(with ok)" "$remounting"

check_online
stop_cluster
