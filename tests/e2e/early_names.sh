#!/bin/bash
# What is done through a mount that answers early another mount sees as ever, also when both take turns in a directory
# and when servers are killed; a mount that is killed loses nothing that was synced.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

start_cluster --sync-names
EARLY=$SCRATCH/early
PLAIN=$MNT
mount_also "$EARLY"

# paths DIR: each object's path, kind, permissions, links, size and target.
paths() {
    (cd "$1" && find . -printf '%P\t%y\t%#m\t%n\t%s\t%l\n' | sort)
}

# same WHAT DIR: through both mounts the same is there.
same() {
    expect_equal "$1: names and attributes" "$(paths "$EARLY/$2")" "$(paths "$PLAIN/$2")"
    expect "$1: contents" diff --no-dereference -r "$EARLY/$2" "$PLAIN/$2"
}

# make_tree DIR FILES
make_tree() {
    local i dir
    mkdir "$1"
    for ((i = 0; i < $2; i++)); do
        dir=$1/d$((i / 40))
        [[ -d $dir ]] || mkdir "$dir"
        head -c $((i * 397 % 40000)) /dev/zero >"$dir/f$i"
        chmod 600 "$dir/f$i"
        ((i % 5)) || mv "$dir/f$i" "$dir/moved$i"
        ((i % 7)) || ln "$dir/f$((i / 40 * 40 + 1))" "$dir/link$i" 2>/dev/null || true
        ((i % 9)) || ln -s "f$i" "$dir/symlink$i"
        ((i % 11)) || rm -f "$dir/f$i" "$dir/moved$i"
    done
}

make_tree "$EARLY/tree" 400
same 'a tree' tree
rm -r "$EARLY/tree/d3"
mkdir "$EARLY/tree/d3"
echo anew >"$EARLY/tree/d3/file"
expect_equal 'a file made anew' "$(cat "$PLAIN/tree/d3/file")" anew
same 'a tree that was changed' tree
say 'another mount sees what was answered early'

mkdir "$EARLY/turns"
for ((i = 0; i < 60; i++)); do
    echo "$i" >"$EARLY/turns/e$i"
    expect_equal "file $i of the early mount" "$(cat "$PLAIN/turns/e$i")" "$i"
    echo "$i" >"$PLAIN/turns/p$i"
    expect_equal "file $i of the other mount" "$(cat "$EARLY/turns/p$i")" "$i"
    mv "$EARLY/turns/p$i" "$EARLY/turns/q$i"
    [[ ! -e $PLAIN/turns/p$i ]] || fail "p$i is still there"
done
same 'turns in one directory' turns
say 'two mounts took turns in a directory'

mkdir "$EARLY/busy"
(
    for ((i = 0; i < 600; i++)); do
        echo "$i" >"$EARLY/busy/f$i"
    done
) &
maker=$!
started+=("$maker")
for server in 0 1 2 3; do
    kill_server "$server"
done
wait_for_end "$maker"
expect_equal 'the end of who made files' "$CODE" 0
same 'files made while servers were killed' busy
expect_equal 'files' "$(find "$PLAIN/busy" -type f | wc -l)" 600
say 'servers were killed meanwhile'

mkdir "$EARLY/synced"
for ((i = 0; i < 50; i++)); do
    echo "$i" >"$EARLY/synced/f$i"
done
sync "$EARLY/synced/f49" "$EARLY/synced"
kill -KILL "$MOUNT_PID"
wait_for_end "$MOUNT_PID"
detach "$EARLY"
expect_equal 'synced files' "$(find "$PLAIN/synced" -type f | wc -l)" 50
expect_equal 'the last of them' "$(cat "$PLAIN/synced/f49")" 49
say 'a mount was killed'

check_online
stop_cluster
