#!/bin/bash
# Access control lists and attributes: what getfacl and setfacl see, who is let in, and that cp, tar and rsync
# keep them. On a directory that all servers carry, so that each of them has to know.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root can act as other users'
for tool in getfacl setfacl getfattr setfattr rsync tar; do
    command -v "$tool" >/dev/null || skip "$tool is not installed"
done
chmod 755 "$SCRATCH"
setpriv --reuid 61001 --regid 61001 --clear-groups test -x "$SCRATCH" ||
    skip "other users cannot reach $SCRATCH: set TMPDIR to a place that they can"

# Numbers that nobody has: the system need not know them.
ANN=61001
BOB=61002
CREW=62001

# as USER[:GROUP] COMMAND...
as() {
    local user=${1%%:*} groups=(--clear-groups)
    [[ $1 != *:* ]] || groups=(--groups "${1#*:}")
    setpriv --reuid "$user" --regid "$user" "${groups[@]}" -- "${@:2}"
}

refused() {
    ! "$@" 2>/dev/null || fail "allowed, but was to be refused: $*"
}

carried_by_all() {
    [[ $("$PANDOFS" dir --json "$MNT/shared" | jq .partitions) -ge 4 ]]
}

# lists DIR: owners, modes and lists of all that is there.
lists() {
    (cd "$1" && find . -mindepth 1 | sort | xargs -d '\n' getfacl --numeric --physical 2>/dev/null)
}

start_cluster
cd "$MNT"
mkdir shared
"$PANDOFS" dir --threshold 4 "$MNT/shared" >/dev/null
touch shared/old{1..60}
wait_until 'all servers carry the directory' carried_by_all
chmod 750 shared
refused as $ANN ls shared
setfacl -m "u:$ANN:rwx,g:$CREW:rx" shared
setfacl -d -m "u:$ANN:rw,g:$CREW:r" shared
expect_equal 'the mode shows the mask' "$(stat -c %a shared)" 770
(umask 077 && as $ANN touch shared/{a..z})
for file in shared/{a..z}; do
    expect_equal "the umask does not count for $file" "$(stat -c %a "$file")" 660
done
expect 'a member of a named group reads' as "$BOB:$CREW" cat shared/q
refused as "$BOB:$CREW" touch shared/new
refused as "$BOB:$CREW" tee shared/q
refused as $BOB cat shared/q
mkdir shared/below
expect_contains 'a directory hands the list on' "$(getfacl --numeric shared/below 2>/dev/null)" "default:user:$ANN:rw-"
chmod g-rwx shared
refused as $ANN touch shared/new
chmod g+rwx shared
expect 'the mask lets in again' as $ANN touch shared/new
refused as $ANN setfacl -m "u:$BOB:rwx" shared
say 'lists let in and keep out'

mkdir tree
cp -a shared tree/
ln -s nowhere tree/link
setfattr -n user.colour -v green tree/shared/a
setfattr -n trusted.colour -v red tree/shared/a
setfattr -h -n trusted.colour -v red tree/link
expect_equal 'cp -a keeps lists' "$(lists tree/shared)" "$(lists shared)"
cp -a tree copied
expect_equal 'cp -a keeps lists once more' "$(lists copied)" "$(lists tree)"
mkdir untarred rsynced
tar --acls --xattrs --xattrs-include='*' -C tree -cf - . | tar --acls --xattrs --xattrs-include='*' -C untarred -xf -
expect_equal 'tar keeps lists' "$(lists untarred)" "$(lists tree)"
rsync -aAX tree/ rsynced/
expect_equal 'rsync keeps lists' "$(lists rsynced)" "$(lists tree)"
mkdir "$SCRATCH/outside"
rsync -aAX tree/ "$SCRATCH/outside/"
expect_equal 'rsync takes lists away' "$(lists "$SCRATCH/outside")" "$(lists tree)"
for copy in copied untarred rsynced; do
    expect_equal "$copy has the attributes" "$(getfattr -d -m . --absolute-names --only-values "$copy/shared/a" | tr -d '\0')" \
        "$(getfattr -d -m . --absolute-names --only-values tree/shared/a | tr -d '\0')"
done
expect_equal 'others see no trusted attributes' "$(as $ANN getfattr -m - shared/a 2>/dev/null | grep -c trusted)" 0
say 'cp, tar and rsync keep lists and attributes'

cp /bin/true capable
setcap cap_net_raw+ep capable
expect_contains 'a capability is there' "$(getfattr -m security -d capable)" security.capability
echo more >>capable
expect_equal 'it goes with a write' "$(getfattr -m security -d capable)" ''
say 'file capabilities go when the file is written to'

# As many as docs/limits.md says, and what a program is told of one more. A list comes through the kernel in one page.
touch many
python3 - many <<'PY'
import errno, os, resource, struct, sys

def refused(wanted, name, value):
    try:
        os.setxattr(sys.argv[1], name, value)
    except OSError as error:
        assert error.errno == wanted, (name, error)
    else:
        sys.exit(f'one too many was taken: {name}')

def entries(count):
    named = [(2, 6, 70_000 + user) for user in range(count - 4)]
    nobody = 0xFFFF_FFFF
    listed = [(1, 6, nobody), *named, (4, 4, nobody), (16, 6, nobody), (32, 4, nobody)]
    return struct.pack('<I', 2) + b''.join(struct.pack('<HHI', *entry) for entry in listed)

access = 'system.posix_acl_access'
fit = min(512, (resource.getpagesize() - 4) // 8)
os.setxattr(sys.argv[1], access, entries(fit))
assert os.getxattr(sys.argv[1], access) == entries(fit)
refused(errno.E2BIG, access, entries(fit + 1))
os.removexattr(sys.argv[1], access)

for number in range(256):
    os.setxattr(sys.argv[1], f'user.{number}', b'value')
refused(errno.ENOSPC, 'user.one more', b'value')
os.setxattr(sys.argv[1], 'user.0', b'another value')
assert len(os.listxattr(sys.argv[1])) == 256
for number in range(256):
    os.removexattr(sys.argv[1], f'user.{number}')
os.setxattr(sys.argv[1], 'user.large', b'v' * (64 << 10))
os.setxattr(sys.argv[1], 'user.large too', b'v' * (63 << 10))
refused(errno.ENOSPC, 'user.more', b'v' * (1 << 10))
refused(errno.E2BIG, 'user.larger', b'v' * ((64 << 10) + 1))
PY
say 'there are as many lists and attributes as there may be'

cd /
stop_cluster
