#!/bin/bash
# The POSIX suites below a prefix that is mounted nowhere, by the preloaded library: the own one, built to make its system calls
# by the C library, and pjdfstest. What does not pass there is in lists, each with its reason, and what passes is not.
# long
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh
# shellcheck source=tests/e2e/_pjdfstest.sh
. ./_pjdfstest.sh

[[ $(id -u) -eq 0 ]] || skip 'only root can act as other users'
LIBRARY=${PANDOFS%/*}/libpandofs_preload.so
[[ -f $LIBRARY ]] || fail "there is no $LIBRARY: 'make e2e' builds it"
suite=$(../../scripts/cargo-target.sh)/c-library/release/pandofs-posix
[[ -x $suite ]] || fail "there is no $suite: 'make e2e' builds it"
PREFIX=/pandofs-preload-suites
[[ ! -e $PREFIX ]] || fail "$PREFIX is there, and was to be nowhere"
chmod 755 "$SCRATCH"

preload() {
    LD_PRELOAD=$LIBRARY PANDOFS_PRELOAD_PREFIX=$PREFIX PANDOFS_CLUSTER=$DATA/cluster.json "$@"
}

# Built like this it is right.
disk=$SCRATCH/ext4
mkdir "$disk"
truncate --size=1G "$disk.img"
mkfs.ext4 -q -F "$disk.img"
mount -o loop "$disk.img" "$disk" || skip 'no loop device can be mounted here'
expect 'the suite on ext4' "$suite" "$disk"
say 'the suite on ext4'

# Cases become other users before they first connect, who cannot reach the servers' Unix sockets.
find_ports 2
start_cluster --servers 2 "--tcp=127.0.0.1:$PORT" --trust-network
# Whether a process waits for a lock these cases tell by the number of the system call in which the kernel has it, and by the
# library it sleeps between looks. The 65,000 links take minutes, and tests/e2e/posix.sh makes them.
left_out=(lock.waits_and_wakes_up lock.goes_with_its_process a_waiter_that_is_killed_takes_nothing a_signal_interrupts
    fcntl_lock.deadlock link.as_many_as_there_may_be)
# All say what they found before the test fails.
failed=0
preload mkdir "$PREFIX/posix"
preload "$suite" "$PREFIX/posix" --known preload-posix-known.txt "${left_out[@]/#/--except=}" || failed=1
say 'the suite by the preloaded library'

# Names of cases that do not pass, from a list with reasons.
known=$(sed -E '/^(#|$)/d; s/[[:space:]].*//' preload-pjdfstest-known.txt)
names=$(sed 's/.*/"&",/' <<<"$known")
configuration false "expected_failures = [$names]" >"$SCRATCH/configuration.toml"
preload mkdir "$PREFIX/pjdfstest"
code=0
output=$(preload env NO_COLOR=1 RUST_BACKTRACE=0 pjdfstest --configuration-file "$SCRATCH/configuration.toml" \
    --path "$PREFIX/pjdfstest" --secondary-fs "$disk" 2>&1) || code=$?
if [[ $code -ne 0 ]]; then
    grep --after-context=1 -E '(FAILED|PASSED UNEXPECTEDLY)$' <<<"$output" || echo "$output"
    failed=1
fi
say "pjdfstest by the preloaded library: $(grep '^Summary' <<<"$output")"
[[ $failed -eq 0 ]] || fail 'not all cases are as they are known to be'
check_online
stop_cluster
