#!/bin/bash
# Servers that keep their metadata in directories and files, on ext4, xfs and btrfs: names and attributes that these do not
# hold as they are, a directory that splits, servers killed while files are made, all killed at once; what was there is
# there, and fsck finds nothing, online and offline. A store of another kind, and a file system that lacks what it needs,
# are refused.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $EUID -eq 0 ]] || skip 'only root can give the servers a disk of their own'
for command in setfattr getfattr perl jq; do
    command -v "$command" >/dev/null || skip "$command is missing"
done

# all_of FOLDER: names, kinds, sizes, targets, contents and attributes of all that is in it.
all_of() {
    (
        cd "$1"
        find . -printf '%P %y %s %l %n %m\n' | sort
        find . -type f -print0 | sort -z | xargs -0 -r sha256sum
        find . -print0 | sort -z | xargs -0 -r getfattr --absolute-names -h -d -m '^user\.' -e hex
    )
}

make_tree() {
    mkdir "$1" "$1/many" "$1/names"
    # More than a partition has; names that a local file system has to have cut or written otherwise.
    perl -e 'my ($to) = @ARGV;
        for my $name ("plain", "per%cent", "%2f", "new\nline", "\x01\x7f\xff\xfe", "Case", "case", "..x", "+", "x%", "\x{c3}\x{a9}",
            "n" x 238, "n" x 239, "%" x 255, "\n" x 255, "\xff" x 255) {
            open my $file, ">", "$to/$name" or die "$name: $!"; print $file $name; close $file or die }' "$1/names"
    for ((i = 0; i < 300; i++)); do
        echo "$i" >"$1/many/file-$i"
    done
    ln "$1/many/file-1" "$1/linked"
    ln -s "$(printf 'x%.0s' {1..4000})" "$1/long-link"
    mkfifo "$1/fifo"
    head -c 16000 /dev/urandom >"$1/inline"
    head -c 300000 /dev/urandom >"$1/striped"
    # More than ext4 has room for in one file, and one that no attribute holds.
    for ((i = 0; i < 8; i++)); do
        setfattr -n "user.$i" -v "$(printf "$i%.0s" {1..1500})" "$1/inline"
    done
    setfattr -n user.large -v "0s$(head -c 30000 /dev/urandom | base64 -w 0)" "$1/inline"
    setfattr -n "user.$(printf 'n%.0s' {1..250})" -v long "$1/inline"
    setfattr -n user.a -v directory "$1/many"
}

# Makes and removes until it is told to stop; what it has made and not removed is in `made`.
keep_busy() {
    local number=0
    mkdir "$MNT/busy"
    while [[ ! -e $SCRATCH/stop ]]; do
        number=$((number + 1))
        echo "$number" >"$MNT/busy/$number" || exit 1
        mv "$MNT/busy/$number" "$MNT/busy/moved-$number" || exit 1
        [[ $((number % 3)) -ne 0 ]] || rm "$MNT/busy/moved-$number" || exit 1
        echo "$number" >"$SCRATCH/made"
    done
}

# has_made NUMBER: at least so many.
has_made() {
    [[ $(cat "$SCRATCH/made") -ge $1 ]]
}

on_file_system() {
    local kind=$1 expected worker number left
    truncate --size=1G "$SCRATCH/disk-$kind"
    "mkfs.$kind" "$SCRATCH/disk-$kind" >"$SCRATCH/mkfs-output.txt" 2>&1 || fail "mkfs.$kind: $(cat "$SCRATCH/mkfs-output.txt")"
    mkdir -p "$DATA"
    if ! mount -t "$kind" -o loop "$SCRATCH/disk-$kind" "$DATA" 2>/dev/null; then
        say "no $kind: it cannot be mounted here"
        return
    fi
    start_cluster --servers 3 --store directories --threshold 50
    expect_equal 'the store in the map' "$(jq -r .settings.store "$DATA/cluster.json")" directories
    make_tree "$MNT/tree"
    expected=$(all_of "$MNT/tree")
    check_online

    say "$kind: the tree is made"
    rm -f "$SCRATCH/stop"
    echo 0 >"$SCRATCH/made"
    keep_busy &
    worker=$!
    started+=("$worker")
    number=0
    for server in 0 1 2 0; do
        wait_until 'more files' has_made $((number + 30))
        kill_server "$server"
        number=$(cat "$SCRATCH/made")
    done
    wait_until 'more files' has_made $((number + 30))
    say "$kind: four times a server was killed"
    touch "$SCRATCH/stop"
    wait_for_end "$worker"
    [[ $CODE -eq 0 ]] || fail "on $kind a program got an error when a server was killed"
    number=$(cat "$SCRATCH/made")
    expect_equal "files after kills on $kind" "$(find "$MNT/busy" -type f | wc -l)" $((number - number / 3))
    expect_equal "the tree after kills on $kind" "$(all_of "$MNT/tree")" "$expected"
    check_online

    # All at once: the stores are what their last flush left, and logs bring the rest.
    sync --file-system "$MNT"
    kill_cluster
    detach "$MNT"
    expect "fsck on $kind after all were killed" "$PANDOFS" fsck --offline --data "$DATA"
    start_cluster
    expect_equal "the tree after all were killed on $kind" "$(all_of "$MNT/tree")" "$expected"
    stop_cluster

    # What is in the store by now, with what the names say.
    [[ -n $(find "$DATA"/server-*/data/store/directories -type f -name '????????????????.plain') ]] ||
        fail 'no file is named as an entry is'
    [[ -n $(find "$DATA"/server-*/data/store/directories -type f -name '*.per%25cent') ]] ||
        fail 'no file is named as an escaped entry is'
    [[ -n $(find "$DATA"/server-*/data/store/directories -type d -name '*.%25*%') ]] ||
        fail 'no folder has the first part of a name that was cut'
    [[ -z $(find "$DATA"/server-*/data/store -name 'journal*') ]] || fail 'a journal was left'

    start_cluster
    expect_equal "the tree after a stop on $kind" "$(all_of "$MNT/tree")" "$expected"
    expect 'a scrub' "$PANDOFS" scrub --data "$DATA"
    rm -r "$MNT/tree" "$MNT/busy"
    # Until what follows of it on other shards is done, too.
    check_online
    stop_cluster
    left=$(find "$DATA"/server-*/data/store/directories -type f | wc -l)
    expect_equal "entries left on $kind when all is removed" "$left" 0
    say "$kind: $number files were made while servers were killed"
    tested+=("$kind")
}

tested=()
for kind in ext4 xfs btrfs; do
    if ! command -v "mkfs.$kind" >/dev/null; then
        say "no $kind: mkfs.$kind is missing"
        continue
    fi
    ! is_mounted "$DATA" || umount "$DATA"
    on_file_system "$kind"
done
[[ ${#tested[@]} -gt 0 ]] || skip 'there are no loop devices'

# Of another kind: asked for on the command line, and found by a server.
! is_mounted "$DATA" || umount "$DATA"
rm -rf "$DATA"
start_cluster --servers 1 --store directories
stop_cluster
expect_refused '--store rocksdb' "$PANDOFS" up --data "$DATA" --no-mount --store rocksdb -- true
sed -i 's/"store": "directories"/"store": "rocksdb"/' "$DATA/cluster.json" "$DATA/server-0/data/map.json"
expect_refused "is one of 'directories', and the cluster map says 'rocksdb'" \
    "$PANDOFS" serve --cluster "$DATA/cluster.json" --id 0 --data "$DATA/server-0/data"
expect_refused "is one of 'directories'" "$PANDOFS" fsck --offline --data "$DATA"

# A file system without attributes of users.
mkdir "$SCRATCH/ramfs"
mount -t ramfs none "$SCRATCH/ramfs"
expect_refused 'takes no extended attributes of users' "$PANDOFS" format --cluster "$SCRATCH/other.json" \
    --servers "unix:$SCRATCH/socket" --data "$SCRATCH/ramfs/data" --store directories
umount "$SCRATCH/ramfs"
say "tested on ${tested[*]}"
