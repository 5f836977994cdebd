# A bare Debian in a folder, with a systemd of its own. To be read after _common.sh, by a test that has a mount name space of
# its own. Its network is this machine's.

# The folder, and the process id of its systemd while it runs.
ROOT=$SCRATCH/root
INIT=
# The group of all of its processes.
GROUP=$SCRATCH/cgroup/pandofs-test-$$

# make_root: the Debian that this machine runs, as programs are linked to its libraries.
make_root() {
    local suite
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME-}")
    mmdebstrap --variant=minbase --include=systemd,systemd-sysv "$suite" "$ROOT" 2>"$SCRATCH/mmdebstrap.txt" ||
        fail "mmdebstrap: $(tail -n 20 "$SCRATCH/mmdebstrap.txt")"
    # There is no console.
    ln -s /dev/null "$ROOT/etc/systemd/system/console-getty.service"
    mkdir "$SCRATCH/cgroup"
    mount -t cgroup2 cgroup2 "$SCRATCH/cgroup"
}

# boot_root: until its services are started.
boot_root() {
    local launcher
    mkdir -p "$GROUP"
    # Before its name space begins, so that the group is all that it sees.
    bash -c 'echo $$ >"$1/cgroup.procs" && exec unshare --mount --pid --uts --ipc --cgroup --fork --kill-child=KILL \
        --propagation private bash ./_boot.sh "$2"' bash "$GROUP" "$ROOT" >"$SCRATCH/boot.txt" 2>&1 &
    launcher=$!
    started+=("$launcher")
    wait_until 'systemd to begin' find_init "$launcher"
    wait_until "services to be started ($(cat "$SCRATCH/boot.txt"))" is_booted
}

find_init() {
    INIT=$(pgrep --parent "$1" --exact systemd)
}

is_booted() {
    [[ $(inside systemctl is-system-running 2>/dev/null) == @(running|degraded) ]]
}

# inside COMMAND...: in that system, as root.
inside() {
    nsenter --target "$INIT" --all --root --wd env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C DEBIAN_FRONTEND=noninteractive \
        "$@" </dev/null
}

# shut_root_down: as its administrator does.
shut_root_down() {
    local init=$INIT
    inside systemctl poweroff
    wait_until 'the system to be down' has_ended "$init"
    INIT=
}

remove_groups() {
    [[ ! -d $GROUP ]] || find "$GROUP" -depth -type d -exec rmdir {} + 2>/dev/null
}

# What was left in it ends with the first process; the kernel needs a moment for that.
remove_root() {
    stop_what_was_started
    # With all that is mounted in the scratch folder its groups went out of sight.
    [[ ! -d $SCRATCH/cgroup ]] || mount -t cgroup2 cgroup2 "$SCRATCH/cgroup"
    wait_until 'its groups to be gone' remove_groups
    umount --lazy "$SCRATCH/cgroup" 2>/dev/null || true
}
trap remove_root EXIT
