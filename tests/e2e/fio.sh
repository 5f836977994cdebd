#!/bin/bash
# fio writes with checksums and verifies what it reads: at random and in order, buffered, mapped, direct, by way of
# libaio and io_uring, with sizes that fit no block; while servers are killed; and once more through a new mount.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# run_fio NAME [OPTION]...: with a file of its own, verified.
run_fio() {
    local name=$1
    shift
    expect "fio $name" fio --name="$name" --directory="$MNT" --size=24m --verify=crc32c --verify_fatal=1 \
        --verify_state_save=0 --randseed="${PANDOFS_SEED:-1}" --output="$SCRATCH/fio-$name.txt" "$@" 2>&1
    # It ends well also when a job stopped at an error.
    ! grep -E 'verify: bad|err= *[1-9]' "$SCRATCH/fio-$name.txt" || fail "fio $name"
}

# Where fio notes how far it came.
cd "$SCRATCH"
# Smaller stripes than the files, and a unit that the kernel's requests are no multiple of.
start_cluster --stripe-unit 262144

run_fio sequential --rw=write --bs=1m --end_fsync=1
run_fio random --rw=randrw --bs=4k --io_size=16m
run_fio unaligned --rw=randwrite --bsrange=100-70000 --bs_unaligned=1 --verify_backlog=64
run_fio mapped --rw=randwrite --ioengine=mmap --bs=4k --size=12m
run_fio mapped-read --rw=randrw --ioengine=mmap --bs=16k --size=12m
run_fio direct --rw=randwrite --direct=1 --bs=64k
run_fio libaio --rw=randwrite --ioengine=libaio --iodepth=16 --direct=1 --bs=16k
run_fio libaio-buffered --rw=randrw --ioengine=libaio --iodepth=16 --bs=8k --io_size=16m
run_fio vectors --rw=randwrite --ioengine=pvsync2 --bs=12k
run_fio synchronous --rw=randwrite --sync=1 --bs=32k --size=8m
run_fio jobs --rw=randrw --numjobs=4 --bs=8k --size=6m --fsync=64 --group_reporting
run_fio trimmed --rw=randwrite --bs=16k --fallocate=native --size=12m
run_fio sparse --rw=randwrite --bs=4k --size=256m --io_size=8m --fallocate=none
if fio --enghelp | grep -qx $'\tio_uring' && [[ $(cat /proc/sys/kernel/io_uring_disabled 2>/dev/null) != 2 ]]; then
    run_fio io_uring --rw=randwrite --ioengine=io_uring --iodepth=16 --bs=16k
fi
say 'all that was written was read again'

# One job writes and verifies for as long as it takes to kill each server, and again.
fio --name=restarts --directory="$MNT" --size=32m --rw=randrw --bs=16k --verify=crc32c --verify_fatal=1 \
    --verify_state_save=0 --verify_backlog=128 --loops=4 --randseed="${PANDOFS_SEED:-1}" --output="$SCRATCH/fio-restarts.txt" &
restarts=$!
started+=("$restarts")
kills=0
until has_ended "$restarts"; do
    kill_server $((kills++ % 4))
done
wait_for_end "$restarts"
expect_equal "how fio ended while servers were killed: $(cat "$SCRATCH/fio-restarts.txt")" "$CODE" 0
[[ $kills -ge 4 ]] || fail "servers were killed $kills times only"
say "so it was while servers were killed $kills times"

# What was written before is right after everything was killed and started again.
sums=$(cd "$MNT" && sha256sum -- *)
kill_cluster
start_cluster
expect_equal 'the checksums of all files' "$(cd "$MNT" && sha256sum -- *)" "$sums"
for name in sequential direct libaio; do
    case $name in
    sequential) options=(--rw=write --bs=1m) ;;
    direct) options=(--rw=randwrite --direct=1 --bs=64k) ;;
    libaio) options=(--rw=randwrite --ioengine=libaio --iodepth=16 --direct=1 --bs=16k) ;;
    esac
    run_fio "$name" "${options[@]}" --verify_only=1
done
say 'and after everything was killed and started again'
check_online
stop_cluster
