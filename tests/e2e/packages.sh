#!/bin/bash
# The packages in a bare Debian with its own systemd: installed, started, used, upgraded while they are used, started again with
# the machine, removed and purged, with what the servers hold kept. The rpm beside it has the same files.
# long
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root can make another system'
for tool in mmdebstrap rpm man nsenter; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
[[ -e /dev/fuse ]] || skip 'there is no /dev/fuse'
if [[ -z ${NAMESPACE-} ]]; then
    NAMESPACE=own exec unshare --mount --propagation private bash "$0"
fi
drop_other_mounts
# shellcheck source=tests/e2e/_bare_root.sh
. ./_bare_root.sh

SOURCES=$(realpath ../..)
DIST=$SCRATCH/dist
NEXT=99.0.0
for version in '' "$NEXT"; do
    expect 'making packages' "$SOURCES/scripts/packages.sh" --programs "$(dirname "$PANDOFS")" --out "$DIST" \
        ${version:+--version "$version"} >>"$SCRATCH/made.txt"
done
new=$(grep "_$NEXT-.*\.deb$" "$SCRATCH/made.txt")
old=$(grep '\.deb$' "$SCRATCH/made.txt" | grep -v "_$NEXT-")
rpm=$(grep '\.rpm$' "$SCRATCH/made.txt" | grep -v -- "-$NEXT-")
say "made $(basename "$old"), $(basename "$new") and $(basename "$rpm")"

# 1. The rpm: known to rpm, with the files of the deb but for two folders, and its programs run.
expect_contains 'what the rpm needs' "$(rpm -qp --requires "$rpm")" 'libc.so.6(GLIBC_'
expect_equal 'its settings' "$(rpm -qp --configfiles "$rpm")" /etc/pandofs/pandofs.env
# files: a list of files with one name for the folders that differ.
files() {
    sed -E -e 's|^\.||' -e 's|^/usr/lib/[a-z0-9_]+-linux-gnu/|/LIB/|; s|^/usr/lib64/|/LIB/|' \
        -e 's|/zsh/[a-z-]+/|/ZSH/|' | grep -v '/$' | sort
}
mkdir "$SCRATCH/rpm" "$SCRATCH/deb"
expect 'installing the rpm' rpm --root "$SCRATCH/rpm" --dbpath /var/lib/rpm --install --nodeps --noscripts "$rpm" 2>"$SCRATCH/rpm.txt"
expect 'unpacking the deb' dpkg-deb --extract "$old" "$SCRATCH/deb"
expect_equal 'the files of both' \
    "$(diff <(cd "$SCRATCH/rpm" && find . ! -type d ! -path './var/lib/rpm/*' | files) \
        <(cd "$SCRATCH/deb" && find . ! -type d | files))" ''
expect_equal 'its version' "$("$SCRATCH/rpm/usr/bin/pandofs" --version)" "$("$PANDOFS" --version)"
say "the rpm has the $(find "$SCRATCH/deb" ! -type d | wc -l) files of the deb"

# 2. Manual pages: of each program and subcommand, without a fault, and each page that one leads to is there.
pages=0
for page in "$SCRATCH"/deb/usr/share/man/man*/*.gz; do
    # Pages lead to each other by their place in the manual.
    text=$(cd "$SCRATCH/deb/usr/share/man" && MANWIDTH=100 man --warnings=w --local-file "$page" 2>"$SCRATCH/faults")
    expect_equal "faults of $(basename "$page")" "$(cat "$SCRATCH/faults")" ''
    expect_contains "$(basename "$page")" "$text" SYNOPSIS
    pages=$((pages + 1))
done
for name in pandofs pandofs-mount pandofs-server-add pandofs-find pandofs-walk pandofs-walk-tar pandofs-mpi; do
    [[ -e $SCRATCH/deb/usr/share/man/man1/$name.1.gz ]] || fail "there is no page $name"
done
say "$pages manual pages"

# 3. Installed: nothing runs yet, and a server without anything to serve is not started again and again.
make_root
# What it logs outlives a start.
mkdir -p "$ROOT/var/log/journal"
boot_root
mkdir "$ROOT/packages"
cp "$old" "$new" "$ROOT/packages"
say 'a bare Debian is up'
expect 'installing the deb' inside apt-get install --yes --no-install-recommends "/packages/$(basename "$old")" >"$SCRATCH/apt.txt" 2>&1
expect_equal 'the folder of servers' "$(inside stat --format '%U %a' /var/lib/pandofs)" 'root 755'
expect_equal 'what runs' "$(inside systemctl list-units --all --no-legend 'pandofs-*')" ''
expect 'the units' inside systemd-analyze verify --man=no /usr/lib/systemd/system/pandofs-{server@,mount@}.service
expect_refused '' inside systemctl start pandofs-server@0
# of UNIT PROPERTY
of() {
    inside systemctl show --property "$2" --value "$1"
}
# One that is to be started again is `activating` meanwhile.
expect_equal 'how the server ended' "$(of pandofs-server@0 ActiveState) $(of pandofs-server@0 ExecMainStatus)" 'failed 78'
expect_contains 'what it said' "$(inside journalctl --unit pandofs-server@0)" 'there is no cluster map'
for shell in /usr/share/bash-completion/completions/pandofs{,-walk,-mpi}; do
    expect 'a completion' inside bash -c "complete() { [[ \$* == *${shell##*/}* ]] && told=yes; }; . $shell && [[ -n \$told ]]"
done
say 'the deb is installed'

# 4. Three servers and a mount, for an ordinary user.
expect 'making a file system' inside pandofs format --cluster /etc/pandofs/cluster.json --data /var/lib/pandofs \
    --servers unix:/run/pandofs/0/socket,unix:/run/pandofs/1/socket,unix:/run/pandofs/2/socket
expect 'starting servers' inside systemctl enable --now --quiet pandofs-server@{0,1,2}
for id in 0 1 2; do
    expect_equal "whose server $id is" "$(inside stat --format '%U %a' "/var/lib/pandofs/$id")" 'pandofs 700'
    expect_equal "who runs server $id" "$(inside stat --format %U "/proc/$(of "pandofs-server@$id" MainPID)")" pandofs
done
mkdir "$ROOT/mnt/pando" "$ROOT/mnt/other"
expect 'mounting' inside systemctl enable --now --quiet pandofs-mount@mnt-pando
expect 'a directory' inside install --directory --owner nobody /mnt/pando/work
# as_user SCRIPT
as_user() {
    inside runuser --user nobody -- bash -c "$1"
}
expect 'using it' as_user 'cp -r /usr/share/perl5 /mnt/pando/work/tree && diff -r /usr/share/perl5 /mnt/pando/work/tree'
echo '/etc/pandofs/cluster.json /mnt/other fuse.pandofs noauto,_netdev,ro 0 0' >>"$ROOT/etc/fstab"
expect 'mounting by fstab' inside mount /mnt/other
expect 'what is there' inside diff -r /usr/share/perl5 /mnt/other/work/tree
expect 'unmounting' inside umount /mnt/other
say 'three servers and a mount are used'

# 5. What is killed comes back, and programs go on.
# is_another UNIT PID
is_another() {
    [[ $(of "$1" MainPID) != @(0|"$2") && $(of "$1" ActiveState) == active ]]
}
for unit in pandofs-server@1 pandofs-mount@mnt-pando; do
    pid=$(of "$unit" MainPID)
    inside systemctl kill --signal=KILL "$unit"
    wait_until "$unit to be back" is_another "$unit" "$pid"
done
expect 'what is there' as_user 'diff -r /usr/share/perl5 /mnt/pando/work/tree'
say 'what was killed is back'

# 6. Upgraded while a program writes: servers are new, the mount is the same, and so are settings.
echo 'PANDOFS_SERVER_OPTIONS=--memory 200M' >>"$ROOT/etc/pandofs/pandofs.env"
as_user 'until [[ -e /tmp/enough ]]; do n=$((n + 1)); echo $n >/mnt/pando/work/$n || exit 1; done; echo $n >/tmp/written' &
writer=$!
started+=("$writer")
servers=$(of 'pandofs-server@*' MainPID)
mounted=$(of pandofs-mount@mnt-pando MainPID)
expect 'upgrading' inside apt-get install --yes --no-install-recommends "/packages/$(basename "$new")" >>"$SCRATCH/apt.txt" 2>&1
expect_equal 'the version' "$(inside dpkg-query --show --showformat '${Version}' pandofs)" "$NEXT-1"
for pid in $servers; do
    ! grep -qx "$pid" <<<"$(of 'pandofs-server@*' MainPID)" || fail "server process $pid was not started again"
done
expect_equal 'the process of the mount' "$(of pandofs-mount@mnt-pando MainPID)" "$mounted"
expect_contains 'the command line of a server' "$(inside cat "/proc/$(of pandofs-server@0 MainPID)/cmdline" | tr '\0' ' ')" \
    '--memory 200M'
touch "$ROOT/tmp/enough"
wait_for_end "$writer"
expect_equal 'how the program ended that wrote meanwhile' "$CODE" 0
written=$(cat "$ROOT/tmp/written")
expect 'all that it wrote' as_user "for n in \$(seq $written); do [[ \$(cat /mnt/pando/work/\$n) == \$n ]] || exit 1; done"
expect 'what was there' as_user 'diff -r /usr/share/perl5 /mnt/pando/work/tree'
say "upgraded while $written files were written"

# 7. The machine is started again: all comes by itself. When it went down the mount ended before its servers.
shut_root_down
boot_root
wait_until 'the mount' inside mountpoint --quiet /mnt/pando
expect 'what was there' as_user 'diff -r /usr/share/perl5 /mnt/pando/work/tree'
expect 'fsck' inside pandofs fsck --cluster /etc/pandofs/cluster.json
expect_equal 'what ended when, as the machine went down' "$(inside journalctl --unit 'pandofs-*' --output=cat |
    grep -oE 'unmounted /mnt/pando|server [0-9] stopped' | tail -n 4 | sed 's/[0-9] //')" \
    $'unmounted /mnt/pando\nserver stopped\nserver stopped\nserver stopped'
say 'the machine was started again'

# 8. Removed: nothing runs or is mounted, by a unit or by fstab, and what the servers hold is there, also for who installs it
# again.
expect 'mounting by fstab' inside mount /mnt/other
expect 'removing' inside apt-get remove --yes pandofs >>"$SCRATCH/apt.txt" 2>&1
expect 'no mount to be left' inside bash -c '! grep " fuse.pandofs " /proc/mounts'
expect_equal 'processes' "$(inside bash -c 'grep -l pandofs /proc/[0-9]*/comm' || true)" ''
expect_equal 'programs' "$(find "$ROOT"/usr/{bin,sbin} -name '*pandofs*')" ''
expect 'installing it again' inside apt-get install --yes --no-install-recommends "/packages/$(basename "$new")" >>"$SCRATCH/apt.txt" 2>&1
expect_contains 'settings' "$(cat "$ROOT/etc/pandofs/pandofs.env")" '--memory 200M'
expect 'starting it again' inside systemctl start pandofs-server@{0,1,2} pandofs-mount@mnt-pando
expect 'what was there' as_user 'diff -r /usr/share/perl5 /mnt/pando/work/tree'
say 'removed and installed again'

# 9. Purged: what a package brought is gone, what a file system holds is not.
expect 'purging' inside apt-get purge --yes pandofs >"$SCRATCH/purge.txt" 2>&1
expect_contains 'what it says' "$(cat "$SCRATCH/purge.txt")" 'pandofs: /var/lib/pandofs is kept'
[[ ! -e $ROOT/etc/pandofs/pandofs.env ]] || fail 'settings are left'
expect_equal 'units' "$(find "$ROOT/etc/systemd" -name 'pandofs*')" ''
for kept in etc/pandofs/cluster.json var/lib/pandofs/0/server.json var/lib/pandofs/2/server.json; do
    [[ -e $ROOT/$kept ]] || fail "/$kept is gone"
done
shut_root_down
say 'purged'
