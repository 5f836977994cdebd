#!/bin/bash
# Walks of several processes with --checkpoint, of which one is killed again and again: others, of another number, go on with
# --resume, and what comes out at the end is what a run without any of this gives.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh
# shellcheck source=tests/e2e/_mpi.sh
. ./_mpi.sh
cd "$SCRATCH"

# How many processes walk in each run, in turns; 0 is without mpirun.
COUNTS=(4 2 0 3 5 1)
# How they share work, in turns, over all tools.
ALGORITHMS=(drqs h-deqs cp pa-drqs deqs h-drqs cp-keep-one)
runs=0
KILLS=${KILLS:-4}
killed=0

# Small directories in one another, a large one, files with several names in one directory, and one that is read in pieces.
mkdir -p tree/large tree/linked
for outer in $(seq 30); do
    for inner in $(seq 6); do
        directory=tree/d$outer/e$inner/f
        mkdir -p "$directory"
        for file in a b $'new\nline' '-dash'; do
            printf '%*s' $((outer * inner * 7)) x >"$directory/$file"
        done
        ln -s ../f/a "$directory/link"
    done
done
for file in $(seq 4000); do : >"tree/large/$file"; done
for file in $(seq 60); do
    printf '%*s' $((file * 100)) x >"tree/linked/$file"
    ln "tree/linked/$file" "tree/linked/second$file"
    ln "tree/linked/$file" "tree/linked/third$file"
done
truncate -s 200M tree/pieces
printf data | dd of=tree/pieces bs=1 seek=150000000 conv=notrunc status=none
cp -a tree copy
echo different >copy/d7/e3/f/a
rm copy/large/77

# checkpoint: which one there is, nothing if there is none.
checkpoint() {
    stat -c '%i %z' state 2>/dev/null || true
}

# all_of PROCESS: it and all below it, that live.
all_of() {
    local child
    ! is_alive "$1" || echo "$1"
    for child in $(living_children "$1"); do all_of "$child"; done
}

# through CODE TOOL...: the tool with a checkpoint after nearly every item, by processes of which one is killed, once a
# checkpoint is there that was not when they began; then others go on. The last are left in peace, and end with the code.
# What they print is in the file out.
through() {
    local wanted=$1 tool=$2 round=0 left=$KILLS resumed=0
    shift 2
    rm -rf state*
    while :; do
        local count=${COUNTS[round++ % ${#COUNTS[@]}]} before code=0 ranks victim='' run=()
        before=$(checkpoint)
        ((count == 0)) || run=(mpirun -n "$count")
        # The last are not held up by a checkpoint after each item.
        run+=("$PANDOFS" "$tool" --checkpoint state --checkpoint-interval $((left > 0 ? 0 : 300)))
        run+=(--algorithm "${ALGORITHMS[runs++ % ${#ALGORITHMS[@]}]}")
        [[ -z $before ]] || {
            run+=(--resume)
            resumed=$((resumed + 1))
        }
        "${run[@]}" "$@" >out 2>error &
        local launcher=$!
        while ((left > 0)) && is_alive $launcher; do
            if [[ $(checkpoint) != "$before" && -n $(checkpoint) ]]; then
                # Any of them but the launcher itself.
                mapfile -t ranks < <(all_of $launcher | while read -r process; do
                    [[ $(cat "/proc/$process/comm" 2>/dev/null) != pandofs* ]] || echo "$process"
                done)
                ((${#ranks[@]} > 0)) || continue
                victim=${ranks[round % ${#ranks[@]}]}
                if kill -KILL "$victim" 2>/dev/null; then
                    left=$((left - 1)) killed=$((killed + 1))
                    break
                fi
            fi
            sleep 0.005
        done
        await $launcher || code=$?
        [[ $code -ne $wanted || -e state ]] || break
        # Killed, or the launcher hung at its end.
        [[ -n $victim || $code -eq 137 ]] || {
            cat error
            fail "$tool by $count processes ended with $code"
        }
    done
    [[ ! -e state && ! -e state.list && ! -e state.items ]] || fail "something is left of the checkpoint of $tool"
    say "$tool: $((KILLS - left)) kills, gone on with $resumed times"
}

# same WHAT END FOUND WANTED: two files have the same records, in any order.
same() {
    if [[ $2 == nul ]]; then
        cmp <(sort -z "$3") <(sort -z "$4") || fail "$1: other records than without checkpoints"
    else
        cmp <(sort "$3") <(sort "$4") || fail "$1: other lines than without checkpoints"
    fi
}

find tree -print0 >expected
through 0 walk --list nul --output list tree
same walk nul list expected

counts() {
    jq '{entries, directories, files, links, hard_links, bytes, disk_bytes, deepest, problems}' "$1"
}
"$PANDOFS" walk --json tree >expected
through 0 walk --json tree
expect_equal 'what was counted' "$(counts out)" "$(counts expected)"

find tree -depth -type d -printf '%p %m\0' >expected
through 0 find tree -depth -type d -printf '%p %m\0'
same find nul out expected

du tree >expected
through 0 du tree
same du lines out expected
through 0 du --by size --json tree
mv out by_size
"$PANDOFS" du --by size --json tree >expected
expect_equal 'sizes' "$(jq -S . by_size)" "$(jq -S . expected)"

"$PANDOFS" sum --files tree >expected
through 0 sum --files tree
same sum lines out expected

"$PANDOFS" cmp --attributes tree copy >expected || expect_equal 'the code of cmp' $? 1
through 1 cmp --attributes tree copy
same cmp lines out expected

through 0 tar -cf all.tar tree
mkdir unpacked
tar -xf all.tar -C unpacked
diff -r --no-dereference tree unpacked/tree
expect_equal 'files with several names' "$(find unpacked/tree/linked -links 3 | wc -l)" 180

# A run may be over before one is killed; not all of them.
expect_above 'processes that were killed' $killed 6

# Ctrl-C at one process: all of them end, with what is needed to go on.
"$PANDOFS" du tree | sort >expected
rm -rf state*
mpirun -n 3 "$PANDOFS" du --checkpoint state --checkpoint-interval 0 tree >out 2>error &
launcher=$!
while is_alive $launcher && [[ -z $(checkpoint) ]]; do sleep 0.005; done
for process in $(all_of $launcher); do
    [[ $(cat "/proc/$process/comm" 2>/dev/null) != pandofs* ]] || last=$process
done
kill -INT "$last" 2>/dev/null || true
code=0
await $launcher || code=$?
say "after Ctrl-C mpirun ended with $code"
# It may have come too late.
if [[ $code -ne 0 ]]; then
    expect_equal 'the code after Ctrl-C' $code 130
    [[ ! -s out ]] || fail 'something was printed of a walk that was interrupted'
    code=0
    "$PANDOFS" du --checkpoint state --resume tree >out || code=$?
    expect_equal 'the code' $code 0
fi
same du lines out expected

# Roots that are the same directory under one name cannot be told apart.
if mpirun -n 2 "$PANDOFS" find --checkpoint state tree tree >out 2>error; then
    fail 'two equal roots were taken'
fi
grep -q "'tree' is given twice" error
# Other commands do not take what this one has left, and nobody a file that is none.
echo nothing >state
if mpirun -n 2 "$PANDOFS" find --checkpoint state --resume tree >out 2>error; then
    fail 'it went on with nothing'
fi
grep -q 'state is no checkpoint' error
