#!/bin/bash
# pjdfstest, the POSIX suite that others wrote: all of it passes on the mount, and nothing is left out.
# Some cases remount the file system with mount(8), which runs `pandofs` from one of the system's folders. In a
# mount name space of its own this can be the one that is tested, whatever is installed.
if [[ $(id -u) -eq 0 && -z ${OWN_MOUNTS:-} ]]; then
    OWN_MOUNTS=1 exec unshare --mount --propagation private bash "$0"
fi
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh
[[ -z ${OWN_MOUNTS:-} ]] || drop_other_mounts

# As many test cases as this version of it has on Linux; ext4 passes them all.
CASES=398
# Of them those that have the file system remounted read-only.
REMOUNTING=13

[[ $(id -u) -eq 0 ]] || skip 'only root can act as other users, make devices and remount'
chmod 755 "$SCRATCH"
setpriv --reuid nobody --regid nogroup --clear-groups test -x "$SCRATCH" ||
    skip "other users cannot reach $SCRATCH: set TMPDIR to a place that they can"

# All that the suite can be told that a file system can do and Linux has. Two users that every Debian has.
configuration() {
    cat <<TOML
[features]
posix_fallocate = {}
rename_ctime = {}
stat_st_birthtime = {}
utime_now = {}
utimensat = {}

[settings]
# Seconds between two changes whose times must differ; those on the mount are in nanoseconds.
naptime = 0.01
allow_remount = $1

[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
TOML
}
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

# suite CONFIGURATION [PART OF NAMES]: what it printed is then in $OUTPUT, without colours. Each test leaves
# open what it opened, so that those that remount are run by themselves: what is open for writing is in the way
# of a remount, on every file system.
suite() {
    local code=0
    OUTPUT=$(LD_PRELOAD=$SCRATCH/link_max.so NO_COLOR=1 RUST_BACKTRACE=0 pjdfstest \
        --configuration-file "$SCRATCH/$1.toml" --path "$MNT" --secondary-fs "$SCRATCH/elsewhere" \
        "${@:2}" 2>&1) || code=$?
    if [[ $code -ne 0 ]]; then
        grep --after-context=1 'FAILED$' <<<"$OUTPUT" || echo "$OUTPUT"
        fail "pjdfstest ${*:2}: $(grep '^Summary' <<<"$OUTPUT")"
    fi
}

mkdir "$SCRATCH/elsewhere" "$SCRATCH/programs"
ln -s "$PANDOFS" "$SCRATCH/programs/pandofs"
mount --bind "$SCRATCH/programs" /usr/local/sbin
mount -t tmpfs none "$SCRATCH/elsewhere"

# One of the cases makes 65,000 links in one directory. While it is on one server these are ordinary operations;
# spread, most would wait for two servers' disks.
start_cluster --threshold 100000

suite stay
expect_equal 'cases that are left out' "$(grep --count ' skipped$' <<<"$OUTPUT")" "$REMOUNTING"
expect_equal 'cases' "$(sed -n 's/^Summary.*, //p' <<<"$OUTPUT")" "$CASES total"
say "$(grep '^Summary' <<<"$OUTPUT")"

suite remount ::erofs
expect_equal 'cases with a remount' "$(sed -n 's/^Summary: //p' <<<"$OUTPUT")" \
    "0 failed, 0 skipped, $REMOUNTING passed, 0 expected failures, $REMOUNTING total"
say "with remounts: $(grep '^Summary' <<<"$OUTPUT")"

check_online
stop_cluster
