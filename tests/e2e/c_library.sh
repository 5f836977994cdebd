#!/bin/bash
# The library for C: installed, found by pkg-config, every function called, the examples run and checked by valgrind, and
# bad input of every kind: null pointers, handles that are closed, a forked child, a server that is killed meanwhile.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

LIBRARY=$(cd ../.. && pwd)
EXAMPLES=$LIBRARY/crates/processes/capi/examples
BUILT=${PANDOFS%/*}
[[ -f $BUILT/libpandofs.so && -f $BUILT/libpandofs.a ]] || fail "there is no libpandofs in $BUILT: 'make e2e' builds it"

# As a package does it, and as a person does.
expect 'installing it below another root' env DESTDIR="$SCRATCH/root" "$LIBRARY/scripts/install-library.sh" "$BUILT" /usr
for file in include/pandofs.h lib/libpandofs.a lib/libpandofs.so lib/libpandofs.so.0 lib/libpandofs-preload.so \
    lib/pkgconfig/pandofs.pc; do
    [[ -r $SCRATCH/root/usr/$file ]] || fail "there is no $file"
done
expect_equal 'the prefix of a package' "$(sed -n 's/^prefix=//p' "$SCRATCH/root/usr/lib/pkgconfig/pandofs.pc")" /usr
PREFIX=$SCRATCH/prefix
expect 'installing it' env DESTDIR= "$LIBRARY/scripts/install-library.sh" "$BUILT" "$PREFIX"
export PKG_CONFIG_PATH=$PREFIX/lib/pkgconfig LD_LIBRARY_PATH=$PREFIX/lib
read -ra flags < <(pkg-config --cflags --libs pandofs)
read -ra static_flags < <(pkg-config --cflags --static --libs-only-other --libs-only-l pandofs)
expect_equal 'its version' "$(pkg-config --modversion pandofs)" "$("$PANDOFS" --version | awk '{ print $2 }')"

# build SOURCE PROGRAM [FLAG]...
build() {
    local source=$1 program=$2
    shift 2
    expect "compiling $source" cc -std=c11 -Wall -Wextra -Werror -g -o "$SCRATCH/$program" "$source" -pthread "$@"
}
for source in "$EXAMPLES"/*.c; do
    build "$source" "$(basename "$source" .c)" "${flags[@]}"
done
build _c_calls.c calls "${flags[@]}"
build _c_bad_input.c bad_input "${flags[@]}"
# The linker prefers the shared library where there are both.
mkdir "$SCRATCH/static"
ln -s "$PREFIX/lib/libpandofs.a" "$SCRATCH/static"
build _c_calls.c calls_static "-I$PREFIX/include" "-L$SCRATCH/static" "${static_flags[@]}"
! ldd "$SCRATCH/calls_static" | grep -q libpandofs || fail 'it is not linked statically'
echo '#include <pandofs.h>' >"$SCRATCH/header.cc"
expect 'the header in C++' c++ -std=c++11 -Wall -Wextra -Werror -fsyntax-only "${flags[0]}" "$SCRATCH/header.cc"
# Each function of the header is called by the one and given bad input by the other.
functions=$(grep -o 'pandofs_[a-z_]*(' "$PREFIX/include/pandofs.h" | sort -u)
expect_above 'functions' "$(wc -l <<<"$functions")" 50
while read -r function; do
    for test in _c_calls.c _c_bad_input.c; do
        [[ $test == _c_bad_input.c && $function == pandofs_version*  ]] ||
            grep -qF "$function" $test || fail "$test does not call $function)"
    done
done <<<"$functions"

start_cluster --servers 2
CLUSTER=$DATA/cluster.json

# What programs on a mount and by the library do, the other ones see.
out=$("$SCRATCH/errors" "$CLUSTER")
expect_equal 'lines of errors' "$(wc -l <<<"$out")" 7
expect_contains 'errors' "$out" 'pandofs_stat(/not/there): no such file or directory'
out=$("$SCRATCH/many_files" "$CLUSTER" /many 500 8)
expect_equal 'many_files' "$out" '500 files written and read by 8 threads, 0 failures'
expect_equal 'files on the mount' "$(find "$MNT/many" -type f | wc -l)" 500
mkdir -p "$MNT/tree/a/b"
printf hello >"$MNT/tree/a/b/file"
ln -s nowhere "$MNT/tree/link"
expect_equal 'batches' "$("$SCRATCH/batches" "$CLUSTER" /batch 500)" '500 files made, read and removed; 1 was not there'
expect_equal 'what batches left' "$(find "$MNT/batch" -type f | wc -l)" 0
expect_equal 'walk' "$("$SCRATCH/walk" "$CLUSTER" /tree | tail -n 1)" '4 entries, 5 bytes'
expect_equal 'locks' "$("$SCRATCH/locks" "$CLUSTER" /count 4 50)" 'counted to 200'
expect_equal 'the count on the mount' "$(cat "$MNT/count")" 200
say 'the examples run'

# The page's own example, as it is printed but for the place of the cluster.
page=$LIBRARY/docs/c-library.md
mkdir "$SCRATCH/page"
awk '/^```c$/ { on = 1; next } /^```/ { on = 0 } on' "$page" >"$SCRATCH/page/count.c"
awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on' "$page" | sed "s|/var/tmp/pando|$DATA|" >"$SCRATCH/page/commands"
out=$(cd "$SCRATCH/page" && bash -e ./commands)
expect_equal "what the page's example prints" "$out" "$(awk '/^```text$/ { on = 1; next } /^```/ { on = 0 } on' "$page")"
say "the example of docs/c-library.md prints '$out'"

for program in calls calls_static; do
    out=$("$SCRATCH/$program" "$CLUSTER" "$program") || fail "$program: $out"
    say "$program: $out"
done
out=$("$SCRATCH/bad_input" "$CLUSTER") || fail "bad_input: $out"
say "bad_input: $out"
# By the address of a server alone.
address=unix:$(sed -n 's/.*"unix:\([^"]*\)".*/\1/p' "$CLUSTER" | head -n 1)
expect_contains 'walk by an address' "$("$SCRATCH/walk" "unix:/there/is/none,$address" /tree)" '4 entries, 5 bytes'

# checked PROGRAM [ARGUMENT]...
checked() {
    local program=$1 code=0
    shift
    valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite,indirect,possible \
        --show-leak-kinds=definite,indirect,possible --suppressions=_valgrind.supp "$SCRATCH/$program" "$@" \
        >"$SCRATCH/checked.txt" 2>&1 || code=$?
    [[ $code -eq 0 ]] || fail "$program under valgrind ended with $code: $(cat "$SCRATCH/checked.txt")"
}
checked calls "$CLUSTER" checked
checked errors "$CLUSTER"
checked many_files "$CLUSTER" /checked-many 50 4
checked batches "$CLUSTER" /checked-batch 150
checked walk "$CLUSTER" /tree
checked locks "$CLUSTER" /checked-count 2 3
say 'valgrind finds nothing'
check_online
stop_cluster

# A server that is killed and does not come back.
DATA=$SCRATCH/data-2
CLUSTER=$DATA/cluster.json
start_cluster --servers 1 --no-restart
"$SCRATCH/bad_input" "$CLUSTER" vanish >"$SCRATCH/vanish.txt" &
program=$!
started+=("$program")
wait_until 'it to be at work' grep -q ready "$SCRATCH/vanish.txt"
kill -KILL "$(server_pid 0)"
wait_for_end "$program"
expect_equal "how 'bad_input vanish' ended, having said $(tail -n 1 "$SCRATCH/vanish.txt")" "$CODE" 0
say "without its server: $(tail -n 1 "$SCRATCH/vanish.txt")"
kill_cluster
