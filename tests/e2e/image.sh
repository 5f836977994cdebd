#!/bin/bash
# The container image: two servers and a mount run in a container of it, are used, stopped as an engine does it, and found again by
# another container that has their data.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root can make another system'
for tool in mmdebstrap umoci crun jq; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
[[ -e /dev/fuse ]] || skip 'there is no /dev/fuse'
if [[ -z ${NAMESPACE-} ]]; then
    NAMESPACE=own exec unshare --mount --propagation private bash "$0"
fi
drop_other_mounts
# crun does not run where both versions of control groups are.
mount -t cgroup2 cgroup2 /sys/fs/cgroup

SCRIPTS=$(realpath ../../scripts)
expect 'making the deb' "$SCRIPTS/packages.sh" --programs "$(dirname "$PANDOFS")" --out "$SCRATCH/dist" >"$SCRATCH/made.txt"
deb=$(grep '\.deb$' "$SCRATCH/made.txt")
image=$(expect 'making the image' "$SCRIPTS/image.sh" --deb "$deb" --out "$SCRATCH/dist")
say "made $(basename "$image"), $(($(stat --format %s "$image") >> 20)) MiB"
mkdir "$SCRATCH/layout"
tar -C "$SCRATCH/layout" -xf "$image"
version=$(jq -r '.manifests[0].annotations["org.opencontainers.image.ref.name"]' "$SCRATCH/layout/index.json")
expect_equal 'its version' "$version" "$(dpkg-deb --field "$deb" Version)"
expect 'unpacking the image' umoci unpack --image "$SCRATCH/layout:$version" "$SCRATCH/bundle" 2>"$SCRATCH/umoci.txt"
mkdir "$DATA"

# container NAME ARGUMENT...: a container of the image that runs pandofs with these arguments, on the servers' data; it is then
# $CONTAINER.
container() {
    local name=pandofs-test-$$-$1 config=$SCRATCH/bundle/config.json arguments
    shift
    [[ -e $SCRATCH/config.json ]] || cp "$config" "$SCRATCH/config.json"
    arguments=$(printf '%s\n' "$@" | jq --raw-input --null-input '[inputs]')
    # What podman lets a container do, and what it needs to mount.
    jq --argjson arguments "$arguments" --arg data "$DATA" '
        .process.terminal = false
        | .process.args = .process.args[:1] + $arguments
        | .process.capabilities[] = ["CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
            "CAP_SETGID", "CAP_SETUID", "CAP_SYS_ADMIN"]
        | .linux.devices += [{path: "/dev/fuse", type: "c", major: 10, minor: 229, fileMode: 438}]
        | .mounts |= map(select(.destination != "/var/lib/pandofs"))
        | .mounts += [{destination: "/var/lib/pandofs", type: "bind", source: $data, options: ["rbind", "rw"]}]
        ' "$SCRATCH/config.json" >"$config"
    # At once: what an earlier one said is not what this one says.
    : >"$SCRATCH/said.txt"
    crun --cgroup-manager=disabled --root "$SCRATCH/crun" run --bundle "$SCRATCH/bundle" "$name" >>"$SCRATCH/said.txt" 2>&1 &
    CONTAINER=$!
    started+=("$CONTAINER")
    NAME=$name
}

# in_it COMMAND...
in_it() {
    crun --cgroup-manager=disabled --root "$SCRATCH/crun" exec "$NAME" "$@"
}

# stop: as an engine does it.
stop() {
    expect 'stopping it' crun --root "$SCRATCH/crun" kill "$NAME" TERM
    wait_for_end "$CONTAINER"
    expect_equal "how it ended ($(cat "$SCRATCH/said.txt"))" "$CODE" 0
}

is_up_or_ended() {
    grep -q ' are up$' "$SCRATCH/said.txt" || has_ended "$CONTAINER"
}

# up NAME: two servers and a mount.
up() {
    container "$1" up --servers 2 --data /var/lib/pandofs --mount /mnt/pando
    wait_until 'it to be up' is_up_or_ended
    expect_contains 'what it says' "$(cat "$SCRATCH/said.txt")" ' are up'
}

container help --help
wait_for_end "$CONTAINER"
expect_contains 'its help' "$(cat "$SCRATCH/said.txt")" "$("$PANDOFS" --help | head -n 1)"
up first
expect 'using it' in_it sh -c 'cp -r /usr/share/perl5 /mnt/pando/tree && diff -r /usr/share/perl5 /mnt/pando/tree'
expect 'fsck in it' in_it pandofs fsck --data /var/lib/pandofs
expect_equal 'a tool on it' "$(in_it pandofs find /mnt/pando/tree -type f | wc -l)" "$(find "$SCRATCH/bundle/rootfs/usr/share/perl5" -type f | wc -l)"
stop
say 'a container was used'
up second
expect 'what was there' in_it diff -r /usr/share/perl5 /mnt/pando/tree
stop
expect 'fsck of what it left' "$PANDOFS" fsck --offline --data "$DATA"
say 'another one found what it left'
