#!/bin/bash
# Who may do what: users, groups, supplementary groups, sticky and set-group-id directories, modes and
# owners. With a mount whose kernel knows the permissions, and with one whose kernel believes old ones,
# so that it is the servers that refuse.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $(id -u) -eq 0 ]] || skip 'only root can act as other users'
chmod 755 "$SCRATCH"
setpriv --reuid 61001 --regid 61001 --clear-groups test -x "$SCRATCH" ||
    skip "other users cannot reach $SCRATCH: set TMPDIR to a place that they can"

# Numbers that nobody has: the system need not know them.
ANN=61001
BOB=61002
EVE=61003
# Groups, besides each user's own of the same number.
CREW=62001
CLUB=62002

# setpriv keeps root's capabilities until it has run something, which it then may do whatever the mode: env, which runs the
# command without them.

# as USER[:GROUP[,GROUP...]] COMMAND...: with the user's own primary group and these supplementary ones.
as() {
    local user=${1%%:*} groups=()
    if [[ $1 == *:* ]]; then groups=(--groups "${1#*:}"); else groups=(--clear-groups); fi
    shift
    setpriv --reuid "$user" --regid "$user" "${groups[@]}" -- env "$@"
}

# in_group USER GROUP COMMAND...: with GROUP as the primary one.
in_group() {
    setpriv --reuid "$1" --regid "$2" --clear-groups -- env "${@:3}"
}

# with_capability USER CAPABILITY COMMAND...: with that one.
with_capability() {
    setpriv --reuid "$1" --regid "$1" --clear-groups --inh-caps "+$2" --ambient-caps "+$2" -- env "${@:3}"
}

# Root as containers have it, without capabilities.
powerless_root() {
    setpriv --bounding-set -all --inh-caps -all -- env "$@"
}

checks=0
allowed() {
    checks=$((checks + 1))
    "$@" || fail "refused, but was to be allowed: $*"
}

denied() {
    checks=$((checks + 1))
    expect_refused 'Permission denied' "$@"
}

not_permitted() {
    checks=$((checks + 1))
    expect_refused 'Operation not permitted' "$@"
}

# mode_is PATH MODE, owner_is PATH USER:GROUP
mode_is() {
    checks=$((checks + 1))
    expect_equal "mode of $1" "$(stat -c %a "$1")" "$2"
}

owner_is() {
    checks=$((checks + 1))
    expect_equal "owner of $1" "$(stat -c %u:%g "$1")" "$2"
}

read_it() {
    "${@:2}" cat "$1" >/dev/null
}

write_it() {
    # shellcheck disable=SC2016  # expanded by the inner shell
    "${@:2}" bash -c ': >>"$0"' "$1"
}

# A first mount for everything; times of 0 so that both mounts see each other's changes.
start_cluster --entry-timeout 0 --attr-timeout 0 --negative-timeout 0
top=$MNT/permissions
mkdir "$top"

# 1. Which bits count for whom: the owner's for the owner, the group's for its members, the others' for
# the rest, and the first that apply even if later ones give more.
file=$top/matrix
echo contents >"$file"
chown "$ANN:$CREW" "$file"
# check BITS COMMAND...: reads and writes must end as these bits say.
check() {
    local bits=$1
    shift
    if ((bits & 4)); then allowed read_it "$file" "$@"; else denied read_it "$file" "$@"; fi
    if ((bits & 2)); then allowed write_it "$file" "$@"; else denied write_it "$file" "$@"; fi
}
for mode in 000 400 040 004 200 020 002 640 604 046 066 606 077; do
    chmod "$mode" "$file"
    check "${mode:0:1}" as "$ANN"
    check "${mode:0:1}" as "$ANN:$CREW"
    check "${mode:1:1}" in_group "$BOB" "$CREW"
    check "${mode:1:1}" as "$BOB:$CLUB,$CREW"
    check "${mode:2:1}" as "$EVE"
    check "${mode:2:1}" as "$EVE:$CLUB"
    allowed read_it "$file" env
done
say "files: $checks checks"

# Nobody runs what has no execute bit, root neither.
printf '#!/bin/sh\necho ran\n' >"$top/script"
chmod 666 "$top/script"
denied "$top/script"
denied as "$ANN" "$top/script"
chmod 654 "$top/script"
chown "$ANN:$CREW" "$top/script"
denied as "$ANN" "$top/script"
expect_equal 'a script that its group may run' "$(as "$BOB:$CREW" "$top/script")" ran
expect_equal 'a script that root may run' "$("$top/script")" ran

# 2. Directories: read lists, write changes, execute goes through.
dir=$top/dir
mkdir "$dir"
echo inside >"$dir/file"
chmod 644 "$dir/file"
chown "$ANN:$CREW" "$dir"
chmod 750 "$dir"
denied as "$EVE" ls "$dir"
denied as "$EVE" cat "$dir/file"
allowed as "$BOB:$CREW" ls "$dir" >/dev/null
allowed as "$BOB:$CREW" cat "$dir/file" >/dev/null
denied as "$BOB:$CREW" touch "$dir/new"
denied as "$BOB:$CREW" rm -f "$dir/file"
chmod 710 "$dir"
denied as "$BOB:$CREW" ls "$dir"
allowed as "$BOB:$CREW" cat "$dir/file" >/dev/null
chmod 740 "$dir"
expect_equal 'names without the right to go in' "$(as "$BOB:$CREW" ls -U --color=never "$dir" 2>/dev/null)" file
denied as "$BOB:$CREW" cat "$dir/file"
chmod 730 "$dir"
allowed as "$BOB:$CREW" touch "$dir/blind"
owner_is "$dir/blind" "$BOB:$BOB"
denied as "$BOB:$CREW" ls "$dir"
allowed as "$BOB:$CREW" mv "$dir/blind" "$dir/moved"
allowed as "$BOB:$CREW" mkdir "$dir/sub"
allowed as "$BOB:$CREW" rmdir "$dir/sub"
allowed as "$BOB:$CREW" rm "$dir/moved"
chmod 770 "$dir"
denied as "$EVE" touch "$dir/new"
denied as "$BOB:$CLUB" touch "$dir/new"
allowed as "$BOB:$CLUB,$CREW" touch "$dir/new"
rm "$dir/new"

# A directory that goes to another parent changes itself: its `..`.
mkdir "$top/from" "$top/to" "$top/from/roots"
chown "$ANN" "$top/from" "$top/to"
allowed as "$ANN" mv "$top/from/roots" "$top/from/renamed"
denied as "$ANN" mv "$top/from/renamed" "$top/to/renamed"
chown "$ANN" "$top/from/renamed"
allowed as "$ANN" mv "$top/from/renamed" "$top/to/renamed"
chmod 555 "$top/to"
denied as "$ANN" mv "$top/to/renamed" "$top/from/renamed"
say "directories: $checks checks"

# 3. In a sticky directory only a file's owner, the directory's owner and root take names away.
sticky=$top/sticky
mkdir "$sticky"
chown "$EVE" "$sticky"
chmod 1777 "$sticky"
as "$ANN" touch "$sticky/anns"
chmod 666 "$sticky/anns"
as "$BOB" touch "$sticky/bobs"
as "$ANN" mkdir "$sticky/anns-dir"
not_permitted as "$BOB" rm -f "$sticky/anns"
not_permitted as "$BOB" mv "$sticky/anns" "$sticky/taken"
not_permitted as "$BOB" mv -f "$sticky/bobs" "$sticky/anns"
not_permitted as "$BOB" rmdir "$sticky/anns-dir"
allowed write_it "$sticky/anns" as "$BOB"
allowed as "$ANN" mv "$sticky/anns" "$sticky/renamed"
allowed as "$ANN" mv "$sticky/renamed" "$top/from/away"
allowed as "$EVE" rm -f "$sticky/bobs"
allowed as "$EVE" rmdir "$sticky/anns-dir"
say "sticky directory: $checks checks"

# 4. Set-group-id directories give their group on, and themselves to directories.
shared=$top/shared
mkdir "$shared"
chown "root:$CREW" "$shared"
chmod 2777 "$shared"
as "$ANN" touch "$shared/file"
owner_is "$shared/file" "$ANN:$CREW"
as "$ANN" mkdir "$shared/sub"
owner_is "$shared/sub" "$ANN:$CREW"
mode_is "$shared/sub" 2755
as "$ANN" mkdir "$shared/sub/sub"
mode_is "$shared/sub/sub" 2755
as "$ANN" ln -s nowhere "$shared/link"
owner_is "$shared/link" "$ANN:$CREW"
# An executable made in it does not give the group's rights to who is not in it.
create='use Fcntl; sysopen(my $file, $ARGV[0], O_CREAT | O_EXCL | O_WRONLY, oct $ARGV[1]) or die "$!\n"'
as "$ANN" perl -e "$create" "$shared/outsider" 2755
mode_is "$shared/outsider" 755
as "$ANN:$CREW" perl -e "$create" "$shared/member" 2755
mode_is "$shared/member" 2755
as "$ANN" perl -e "$create" "$shared/plain" 2644
chmod 755 "$shared"
chmod g-s "$shared"
mkdir "$top/open"
chmod 777 "$top/open"
in_group "$ANN" "$CLUB" touch "$top/open/file"
owner_is "$top/open/file" "$ANN:$CLUB"
# The mask of the process that creates.
as "$ANN" bash -c 'umask 027; touch "$0/masked"; mkdir "$0/masked-dir"' "$top/open"
mode_is "$top/open/masked" 640
mode_is "$top/open/masked-dir" 750
say "set-group-id directory: $checks checks"

# 5. Modes, owners and times.
own=$top/open/own
as "$ANN" touch "$own"
not_permitted as "$BOB" chmod 777 "$own"
allowed as "$ANN" chmod 4711 "$own"
mode_is "$own" 4711
not_permitted as "$ANN" chown "$BOB" "$own"
not_permitted as "$ANN" chgrp "$CREW" "$own"
not_permitted as "$BOB:$CREW" chgrp "$CREW" "$own"
allowed as "$ANN:$CREW" chgrp "$CREW" "$own"
owner_is "$own" "$ANN:$CREW"
mode_is "$own" 711
# Who is not in the group cannot lend its rights.
allowed as "$ANN" chmod 2775 "$own"
mode_is "$own" 775
allowed as "$ANN:$CREW" chmod 2775 "$own"
mode_is "$own" 2775
# Who writes takes set-id bits off.
chmod 6777 "$own"
write_something() {
    # shellcheck disable=SC2016  # expanded by the inner shell
    "$@" bash -c 'echo something >>"$0"' "$own"
}
write_something as "$BOB"
mode_is "$own" 777
chmod 6777 "$own"
as "$BOB" truncate --size=3 "$own"
mode_is "$own" 777
chmod 6777 "$own"
write_something env
mode_is "$own" 6777
chown "$BOB:$CLUB" "$own"
mode_is "$own" 777
# Anybody who may write sets the time to now; another time only the owner.
chmod 666 "$own"
allowed as "$EVE" touch "$own"
not_permitted as "$EVE" touch --date='2001-01-01' "$own"
allowed as "$BOB" touch --date='2001-01-01' "$own"
chmod 600 "$own"
denied as "$EVE" touch "$own"
# Extended attributes go by the rights to the contents.
setfattr --name user.secret --value x "$own"
denied as "$EVE" getfattr --absolute-names -n user.secret "$own"
denied as "$EVE" setfattr --name user.secret --value y "$own"
allowed as "$BOB" setfattr --name user.secret --value z "$own"
denied as "$EVE" truncate --size=0 "$own"
say "modes, owners, times: $checks checks"

# What was opened stays open.
chmod 644 "$own"
exec {open}<"$own"
chmod 000 "$own"
expect_equal 'what is read through an open file' "$(as "$EVE" cat <&"$open")" "$(cat "$own")"
exec {open}<&-

# 6. Groups are those that a process has now, not those that it or another of the same user had before.
mkdir "$top/crew"
chown "root:$CREW" "$top/crew"
chmod 770 "$top/crew"
echo crew >"$top/crew/file"
chmod 640 "$top/crew/file"
chown "root:$CREW" "$top/crew/file"
changing='
    my ($user, $group, $file, $public) = @ARGV;
    sub become { $> = 0; $) = "$user @_"; $> = $user; }
    sub readable { open(my $opened, "<", $file) ? 1 : 0 }
    become($user);                                # alone
    open(my $made, ">", "$public/made") or die "cannot make $public/made: $!\n";
    my $alone = readable();
    become($group);
    my $member = readable();
    become($user);
    my $later = readable();
    print "$alone $member $later\n";'
expect_equal 'a process that changes its groups' \
    "$(perl -e "$changing" "$EVE" "$CREW" "$top/crew/file" "$top/open")" '0 1 0'
checks=$((checks + 3))
denied as "$EVE" cat "$top/crew/file"
say "groups that change: $checks checks"

# 7. The servers' own checks. The second mount believes for an hour what it has seen; what the first
# changes it does not hear of, and its kernel lets pass what the servers must not.
stale=$SCRATCH/mount-2
mount_also "$stale" --entry-timeout 1h --attr-timeout 1h --negative-timeout 0
mkdir "$top/servers"
chmod 777 "$top/servers"
# What is to be refused, each with a directory or file of its own.
for name in create mkdir symlink mknod unlink rmdir rename-from rename-to link list lookup; do
    mkdir "$top/servers/$name" "$top/servers/$name/dir"
    echo x >"$top/servers/$name/file"
    chmod 666 "$top/servers/$name/file"
    chmod 777 "$top/servers/$name" "$top/servers/$name/dir"
done
for name in read write truncate xattr group; do
    echo x >"$top/servers/$name"
    chmod 666 "$top/servers/$name"
done
chown -R "$ANN" "$top/servers"
chown "$ANN:$CREW" "$top/servers/group"
seen=$stale/permissions/servers
ls -lR "$seen" >/dev/null
as "$EVE" ls -lR "$seen" >/dev/null
# The first mount closes everything, for all but the owner. A directory whose entries are to be looked up
# loses the right to go through, the others that to write.
for name in create mkdir symlink mknod unlink rmdir rename-from rename-to link; do
    chmod 755 "$top/servers/$name"
done
chmod 700 "$top/servers/list" "$top/servers/lookup"
chmod 600 "$top"/servers/{read,write,truncate,xattr}
chmod 640 "$top/servers/group"
expect_equal 'what the second mount believes' "$(stat -c %a "$seen/create" "$seen/read")" $'777\n666'
denied as "$EVE" touch "$seen/create/new"
denied as "$EVE" mkdir "$seen/mkdir/new"
denied as "$EVE" ln -s x "$seen/symlink/new"
denied as "$EVE" mkfifo "$seen/mknod/new"
denied as "$EVE" rm -f "$seen/unlink/file"
denied as "$EVE" rmdir "$seen/rmdir/dir"
denied as "$EVE" mv "$seen/rename-from/file" "$seen/new"
as "$EVE" touch "$seen/eves"
denied as "$EVE" mv "$seen/eves" "$seen/rename-to/new"
denied as "$EVE" ln "$seen/eves" "$seen/link/new"
denied as "$EVE" ls "$seen/list"
denied as "$EVE" cat "$seen/lookup/unseen"
denied read_it "$seen/read" as "$EVE"
denied write_it "$seen/write" as "$EVE"
denied as "$EVE" truncate --size=0 "$seen/truncate"
denied as "$EVE" setfattr --name user.x --value y "$seen/xattr"
not_permitted as "$EVE" chmod 777 "$seen/read"
not_permitted as "$EVE" chown "$EVE" "$seen/read"
# Supplementary groups reach the servers.
denied read_it "$seen/group" as "$EVE"
denied read_it "$seen/group" as "$EVE:$CLUB"
allowed read_it "$seen/group" as "$EVE:$CLUB,$CREW"
denied write_it "$seen/group" as "$EVE:$CLUB,$CREW"
denied read_it "$seen/group" as "$EVE"
# So do capabilities, and that root has none, whatever it or somebody else had a moment ago.
allowed read_it "$seen/read" with_capability "$EVE" dac_read_search
denied write_it "$seen/write" with_capability "$EVE" dac_read_search
allowed write_it "$seen/write" with_capability "$EVE" dac_override
denied read_it "$seen/read" as "$EVE"
for _ in 1 2; do
    denied read_it "$seen/read" powerless_root
    denied powerless_root touch "$seen/create/new"
    denied powerless_root ls "$seen/list"
    not_permitted powerless_root chmod 777 "$seen/read"
    allowed read_it "$seen/read" env
    allowed ls "$seen/list" >/dev/null
done
not_permitted with_capability "$EVE" dac_override chmod 777 "$seen/read"
allowed with_capability "$EVE" fowner chmod 600 "$seen/read"
allowed with_capability "$EVE" chown chown "$ANN:$CLUB" "$seen/read"
# Those of another user name space are no use here.
if as "$EVE" unshare --user --map-root-user true 2>/dev/null; then
    denied read_it "$seen/read" as "$EVE" unshare --user --map-root-user
    denied as "$EVE" unshare --user --map-root-user ls "$seen/list"
fi
# The owner is let in all the while.
allowed as "$ANN" touch "$seen/create/new"
allowed read_it "$seen/read" as "$ANN"
expect_equal 'what is left in the end' "$(cd "$top/servers" && find . -type f | wc -l)" 18
say "servers that refuse by themselves: $checks checks"

expect umount "$PANDOFS" umount "$stale"
check_online
stop_cluster
