# What the end-to-end tests share: a cluster, and ways to expect something and to say what was found.
# A test begins with `. ./_common.sh`; scripts/e2e.sh gives it $PANDOFS and an empty $SCRATCH.
# Nothing here depends on how fast the machine is: what is waited for is a condition, and the deadline
# is there to fail at all.
set -Eeuo pipefail
trap 'echo "FAILED: ${BASH_SOURCE[0]##*/}:$LINENO: $BASH_COMMAND" >&2' ERR
umask 022
# Programs' messages are compared with English ones, and names sorted by their bytes.
export LC_ALL=C
: "${PANDOFS:?the path of the pandofs binary; run the tests with scripts/e2e.sh}"
: "${SCRATCH:?an empty folder; run the tests with scripts/e2e.sh}"

# Where the cluster of `start_cluster` keeps its data, where it is mounted, and what `up` printed.
DATA=$SCRATCH/data
MNT=$SCRATCH/mnt
UP_OUTPUT=$SCRATCH/up-output.txt
# The process id of its `pandofs up`; empty while there is none.
UP=
# Seconds that anything may take before the test gives it up.
PATIENCE=120
# Processes that end with the test: children of its shell, whose ids they may no longer be.
started=()

# say TEXT...: what was found, and when.
say() {
    printf '%4d s  %s\n' "$SECONDS" "$*"
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# skip WHY: nothing can be tested here; the runner says so and counts it as neither passed nor failed.
skip() {
    echo "skipped: $*"
    exit 77
}

# To be called by a test that has a mount name space of its own, before it mounts anything: as long as that has copies
# of other tests' mounts, nothing that those tests unmount has an end.
drop_other_mounts() {
    local other
    while read -r other; do
        umount --lazy "$other" 2>/dev/null || true
    done < <(awk '$3 ~ /^fuse/ { print $2 }' /proc/self/mounts | tac)
}

# expect WHAT COMMAND...: the command succeeds.
expect() {
    local what=$1
    shift
    "$@" || fail "$what: '$*' ended with $?"
}

# expect_equal WHAT FOUND WANTED
expect_equal() {
    [[ $2 == "$3" ]] || fail "$1: found '$2', wanted '$3'"
}

# expect_below WHAT FOUND LIMIT: two whole numbers.
expect_below() {
    [[ $2 -lt $3 ]] || fail "$1: found $2, wanted less than $3"
}

# expect_above WHAT FOUND LIMIT: two whole numbers.
expect_above() {
    [[ $2 -gt $3 ]] || fail "$1: found $2, wanted more than $3"
}

# expect_contains WHAT TEXT PART
expect_contains() {
    [[ $2 == *"$3"* ]] || fail "$1: '$3' is not in '$2'"
}

# expect_refused SAID COMMAND...: the command fails, and what it prints contains SAID.
expect_refused() {
    local said=$1 output
    shift
    if output=$("$@" 2>&1); then
        fail "'$*' succeeded; it was to fail with '$said'"
    fi
    expect_contains "'$*' failed" "$output" "$said"
}

# wait_until WHAT COMMAND...: until the command succeeds, for $PATIENCE seconds at most.
wait_until() {
    local what=$1 deadline=$((SECONDS + PATIENCE))
    shift
    until "$@"; do
        [[ $SECONDS -lt $deadline ]] || fail "waited $PATIENCE s for $what"
        sleep 0.1
    done
}

# has_ended PID: also of one that nobody has waited for yet.
has_ended() {
    [[ ! -e /proc/$1 ]] || grep -qs '^State:[[:space:]]*[XZ]' "/proc/$1/status"
}

# wait_for_end PID: waits for a process that this test started; its exit code is then in $CODE.
wait_for_end() {
    wait_until "process $1 to end" has_ended "$1"
    CODE=0
    wait "$1" || CODE=$?
}

is_mounted() {
    awk -v point="$1" '$2 == point { found = 1 } END { exit !found }' /proc/self/mounts
}

# start_cluster [OPTION OF UP]...: a cluster with a mount, the one that is there or a new one.
start_cluster() {
    # One test after the other may stop and start it; each start has its own output.
    : >"$UP_OUTPUT"
    "$PANDOFS" up --data "$DATA" --mount "$MNT" "$@" >>"$UP_OUTPUT" 2>&1 &
    UP=$!
    started+=("$UP")
    wait_until "the cluster to be up" cluster_is_up_or_ended
    grep -q ' are up$' "$UP_OUTPUT" || fail "'pandofs up' ended: $(cat "$UP_OUTPUT")"
}

cluster_is_up_or_ended() {
    grep -q ' are up$' "$UP_OUTPUT" || has_ended "$UP"
}

# stop_cluster: as Ctrl-C does it. It ends well, no process of it panicked, and what is on disk is
# consistent.
stop_cluster() {
    local panics
    kill -INT "$UP"
    wait_for_end "$UP"
    UP=
    [[ $CODE -eq 0 ]] || fail "'pandofs up' ended with $CODE: $(cat "$UP_OUTPUT")"
    ! is_mounted "$MNT" || fail "$MNT is still mounted"
    panics=$(grep -rhs -A 5 'panicked at' "$DATA"/*log.txt "$DATA"/server-*/log.txt || true)
    [[ -z $panics ]] || fail "a process panicked: $panics"
    expect 'fsck of the stopped cluster' "$PANDOFS" fsck --offline --data "$DATA"
}

# Kills `up`, and waits until its servers and its mount have ended with it.
kill_cluster() {
    local pid pids
    pids=$(cat "$DATA"/server-*/pid "$DATA/mount.pid" 2>/dev/null || true)
    kill -KILL "$UP"
    wait_for_end "$UP"
    for pid in $pids; do
        wait_until "process $pid to end with up" has_ended "$pid"
    done
}

# check_online: fsck of the running cluster finds nothing.
check_online() {
    expect 'fsck of the running cluster' "$PANDOFS" fsck --data "$DATA"
}

# mount_also POINT [OPTION OF MOUNT]...: another mount of the running cluster; its process is then
# $MOUNT_PID and its log POINT-log.txt.
mount_also() {
    local point=$1
    shift
    # What a killed mount left there is no directory.
    mkdir -p "$point" 2>/dev/null || true
    # At once: what an earlier mount there said is not what this one says.
    : >"$point-log.txt"
    "$PANDOFS" mount --data "$DATA" "$@" "$point" >>"$point-log.txt" 2>&1 &
    MOUNT_PID=$!
    started+=("$MOUNT_PID")
    wait_until "$point to be mounted" has_mounted_or_ended "$point" "$MOUNT_PID"
    grep -q ' mounted mountpoint=' "$point-log.txt" ||
        fail "'pandofs mount' ended: $(cat "$point-log.txt")"
}

has_mounted_or_ended() {
    grep -q ' mounted mountpoint=' "$1-log.txt" || has_ended "$2"
}

# find_ports COUNT: $PORT is one that nobody has, as are those after it.
find_ports() {
    local try i
    for ((try = 0; try < 20; try++)); do
        PORT=$((20000 + RANDOM % 10000))
        if (exec 2>/dev/null && for ((i = 0; i < $1; i++)); do ! : <"/dev/tcp/127.0.0.1/$((PORT + i))" || exit 1; done); then
            return
        fi
    done
    fail 'no free ports were found'
}

server_pid() {
    cat "$DATA/server-$1/pid"
}

all_servers_answer() {
    "$PANDOFS" status --data "$DATA" --json >/dev/null 2>&1
}

# kill_server NUMBER: kills that server, and waits until `up` has started it again and it answers. Just before it was
# killed the time was $KILLED_AT.
kill_server() {
    local killed
    killed=$(server_pid "$1")
    # shellcheck disable=SC2034 # A test uses it.
    KILLED_AT=$EPOCHREALTIME
    kill -KILL "$killed"
    wait_until "the end of server $1" has_ended "$killed"
    wait_until 'all servers to answer' all_servers_answer
}

# pretend_new_boot NUMBER: that server, which does not run, is to believe when it starts that its machine was started
# anew: its record of that gets another start's name, and the checksum that goes with it.
pretend_new_boot() {
    perl -e 'my ($path) = @ARGV; open my $in, "<", $path or die; local $/; my $text = <$in>; close $in;
        my ($generation) = $text =~ /"generation": (\d+)/; my @lost = $text =~ /"lost": \[([^\]]*)\]/;
        @lost = $lost[0] =~ /\d+/g;
        my $sum = 0xffffffff;
        for my $byte (unpack "C*", join "", map { "$_ " } 1, $generation, "other", @lost) {
            $sum ^= $byte;
            $sum = $sum & 1 ? ($sum >> 1) ^ 0x82f63b78 : $sum >> 1 for 1 .. 8;
        }
        $sum ^= 0xffffffff;
        open my $out, ">", $path or die;
        printf $out q({"format":1,"generation":%d,"boot":"other","lost":[%s],"sum":%d}), $generation, join(",", @lost), $sum;
        close $out or die' "$DATA/server-$1/data/data/generations.json"
}

mounts_in_scratch() {
    awk -v scratch="$SCRATCH/" 'index($2, scratch) == 1 { print $2 }' /proc/self/mounts
}

# detach MOUNTPOINT: out of sight at once, whoever uses it and whether or not it answers.
detach() {
    umount --lazy "$1" 2>/dev/null || fusermount3 -uz "$1" 2>/dev/null || true
}

# is_child PID: of this shell, and not waited for. The id of one that was waited for may by now be that of another test's
# process: ids come round within a minute where there are 32,768.
is_child() {
    grep -qsx "PPid:[[:space:]]*$BASHPID" "/proc/$1/status"
}

stop_what_was_started() {
    local pid point
    # First, because a mount without its servers does not answer.
    for point in $(mounts_in_scratch); do
        detach "$point"
    done
    # All before the first is waited for: a program that waits for a mount ends when the mount does. The
    # children of `up` end with it.
    for pid in "${started[@]}"; do
        ! is_child "$pid" || kill -KILL "$pid" 2>/dev/null || true
    done
    for pid in "${started[@]}"; do
        wait "$pid" 2>/dev/null || true
    done
}
trap stop_what_was_started EXIT
