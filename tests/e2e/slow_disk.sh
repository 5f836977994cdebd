#!/bin/bash
# One server of four has a slow disk: what needs that disk is slow and nothing fails, however long it takes; what does
# not is as fast as ever, on that server too.
# alone: it compares how long the same takes at different times.
# shellcheck source=tests/e2e/_faults.sh
. ./_faults.sh

# Milliseconds.
READ=20
FORCE=400

with_faults
# Records are forced when somebody asks for it.
start_cluster --policy random --stripe-unit 65536 --flush-interval 1h --entry-timeout 0 --attr-timeout 0
here=()
elsewhere=()
for ((i = 0; i < 24; i++)); do
    mkdir "$MNT/$i"
    home=$("$PANDOFS" dir --json "$MNT/$i" | jq '.parts[0].server')
    if [[ $home -eq 1 ]]; then here+=("$i"); else elsewhere+=("$i"); fi
done
head -c 3000000 /dev/urandom >"$SCRATCH/content"
cp "$SCRATCH/content" "$MNT/before"

milliseconds() {
    date +%s%3N
}
# many PLACE...: makes, looks at, renames and removes files in these directories.
many() {
    local place round
    for ((round = 0; round < 10; round++)); do
        for place in "$@"; do
            echo "$round" >"$MNT/$place/$BASHPID"
            [[ -s $MNT/$place/$BASHPID ]]
            mv "$MNT/$place/$BASHPID" "$MNT/$place/$BASHPID-renamed"
            rm "$MNT/$place/$BASHPID-renamed"
        done
    done
}

began=$(milliseconds)
many "${here[@]:0:3}" "${elsewhere[@]:0:3}"
quick=$(($(milliseconds) - began))
say "60 files in $quick ms while all disks are quick"

# 1. Slow.
fault read $((READ * 1000))
fault force $((FORCE * 1000))
forced=()
for ((writer = 0; writer < 4; writer++)); do
    dd if="$SCRATCH/content" of="$MNT/forced-$writer" bs=300000 count=3 oflag=dsync status=none 2>"$SCRATCH/error-$writer" &
    forced+=("$!")
    started+=("$!")
done
began=$(milliseconds)
many "${elsewhere[@]:0:6}"
took=$(($(milliseconds) - began))
say "60 files on the other servers in $took ms meanwhile"
expect_below 'milliseconds that others waited' "$took" $((quick * 3 + 3000))
began=$(milliseconds)
many "${here[@]:0:3}" "${here[@]:0:3}"
took=$(($(milliseconds) - began))
say "60 files on the slow server, not forced, in $took ms meanwhile"
expect_below 'milliseconds that names of the slow server took' "$took" $((quick * 3 + 6000))
for writer in "${forced[@]}"; do
    wait_for_end "$writer"
    expect_equal 'who forced what was written' "$CODE $(cat "$SCRATCH"/error-*)" '0 '
done
began=$(milliseconds)
dd if="$SCRATCH/content" of="$MNT/${here[0]}/small" bs=1000 count=1 conv=fsync status=none
sync "$MNT/${here[0]}"
took=$(($(milliseconds) - began))
say "forcing a file and its directory took $took ms"
expect_above 'milliseconds that forcing took' "$took" $((FORCE - 1))
expect 'what was written before' cmp "$SCRATCH/content" "$MNT/before"
for ((writer = 0; writer < 4; writer++)); do
    expect "what was forced" cmp --bytes=900000 "$SCRATCH/content" "$MNT/forced-$writer"
done

# 2. So slow that no answer comes in the time in which one is taken for lost.
fault read
fault force 33000000
began=$SECONDS
expect 'a force that takes half a minute' \
    dd if="$SCRATCH/content" of="$MNT/${here[0]}/forced" bs=1000 count=1 conv=fsync status=none
fault force
expect_above 'seconds that it took' $((SECONDS - began)) 30
say "a force took $((SECONDS - began)) s"
expect 'what was forced' cmp "$SCRATCH/content" "$MNT/${here[0]}/forced" --bytes=1000
check_online
stop_cluster
