#!/bin/bash
# Networks in trouble, and what is stored stays as it must be: packets that are dropped for 20 s and longer, both ways or one
# way, between a mount and servers and between servers; then ones that are lost, come twice and in another order, everywhere.
# Programs on two mounts compare contents all the while (_network_trouble.py says which); each waits and goes on, and none
# sees an error. The packets are carried by _switch.py, so that the kernel needs TUN devices and no netem.
# PANDOFS_LONG_DROP=SECONDS adds a drop of that length, 60 and more for one after which sessions have ended: then programs
# may be told errors, and what none was told about is still right.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

[[ $EUID -eq 0 ]] || skip 'only root makes network namespaces'
# In the names of what all tests share.
NET=pandofs$$
# Two servers each on a and b, a mount each on c and d.
MACHINES=(a b c d)
declare -A address=([a]=10.77.1.1 [b]=10.77.1.2 [c]=10.77.1.3 [d]=10.77.1.4)
# Seconds of trouble. Sessions end after 60 s without a word, of which there may have been none for 15 s before; TCP, which
# sends again after twice as long each time, goes on up to as long after the trouble as it was.
DROP=20
DROP_BETWEEN_SERVERS=25
MESS=15
LONG_DROP=${PANDOFS_LONG_DROP:-0}
# The process that compares; empty while there is none.
checker=

# The end of the checker's processes comes first: a mount that is killed while programs work on it may never be gone. They end
# once their last calls are answered, if they are.
end_checker() {
    local deadline=$((SECONDS + 30))
    has_ended "$checker" || kill -KILL "$checker"
    echo calm >&"$to_switch"
    while pgrep -f "_network_trouble.py $SCRATCH/" >/dev/null && [[ $SECONDS -lt $deadline ]]; do
        sleep 0.1
    done
}

remove_machines() {
    local machine
    [[ -z $checker ]] || end_checker 2>/dev/null
    stop_what_was_started
    for machine in "${MACHINES[@]}"; do
        ip netns delete "$NET-$machine" 2>/dev/null || true
    done
}
trap remove_machines EXIT

# start_on MACHINE LOG COMMAND...: the process is then $STARTED.
start_on() {
    local machine=$1 log=$2
    shift 2
    nsenter --net="/run/netns/$NET-$machine" "$@" >>"$log" 2>&1 &
    STARTED=$!
    started+=("$STARTED")
}

says() {
    grep -q "$2" "$1"
}

# tell_switch LINE: returns once it goes by it; what became of the packets until then is in $CARRIED.
tell_switch() {
    local lines
    lines=$(wc -l <"$SCRATCH/switch-log.txt")
    echo "$1" >&"$to_switch"
    wait_until "the switch to answer '$1'" has_more_lines "$SCRATCH/switch-log.txt" "$lines"
    CARRIED=$(tail -n 1 "$SCRATCH/switch-log.txt")
    CARRIED=${CARRIED#* after }
}

has_more_lines() {
    [[ $(wc -l <"$1") -gt $2 ]]
}

count_of() {
    local count=${CARRIED#*"$1="}
    echo "${count%% *}"
}

# way FROM TO: what the switch is told, without the names of machines.
way() {
    echo "${address[$1]}:${address[$2]}"
}

# phase NAME SECONDS WHAT LINE: that trouble for so long, of which WHAT befell some packets; then everybody goes on.
phase() {
    local name=$1 seconds=$2 whats=$3 what
    echo "phase $name" >&"$to_checker"
    tell_switch "$4"
    sleep "$seconds"
    tell_switch calm
    for what in $whats; do
        expect_above "packets $what, $name" "$(count_of "$what")" 0
    done
    echo calm >&"$to_checker"
    # The checker fails if they do not, and says who.
    wait_until "all to go on after $name" goes_on_or_ended "$name"
    has_gone_on "$name" || fail "the checker ended: $(grep ^WRONG "$SCRATCH/checker-log.txt")"
    say "$name for $seconds s: $CARRIED; $(grep "^all go on after $name," "$SCRATCH/checker-log.txt")"
}

has_gone_on() {
    says "$SCRATCH/checker-log.txt" "^all go on after $1,"
}

goes_on_or_ended() {
    has_gone_on "$1" || has_ended "$checker"
}

mkfifo "$SCRATCH/to-switch" "$SCRATCH/to-checker"
touch "$SCRATCH/switch-log.txt" "$SCRATCH/checker-log.txt"
exec {to_switch}<>"$SCRATCH/to-switch" {to_checker}<>"$SCRATCH/to-checker"

ends=()
for machine in "${MACHINES[@]}"; do
    ip netns add "$NET-$machine" 2>"$SCRATCH/ip.txt" || skip "no network namespaces: $(cat "$SCRATCH/ip.txt")"
    ends+=("$NET-$machine=${address[$machine]}")
done
ip -n "$NET-a" tuntap add dev tried mode tun 2>"$SCRATCH/ip.txt" || skip "no TUN devices: $(cat "$SCRATCH/ip.txt")"
ip -n "$NET-a" link delete tried
python3 _switch.py "${ends[@]}" <"$SCRATCH/to-switch" >"$SCRATCH/switch-log.txt" 2>&1 &
started+=("$!")
wait_until 'the switch' says "$SCRATCH/switch-log.txt" '^carries$'
for machine in "${MACHINES[@]}"; do
    ip -n "$NET-$machine" address add "${address[$machine]}/24" dev eth0
    ip -n "$NET-$machine" link set lo up
    ip -n "$NET-$machine" link set eth0 up
done

map=$SCRATCH/cluster.json
"$PANDOFS" format --cluster "$map" \
    --servers "tcp:${address[a]}:7400,tcp:${address[a]}:7401,tcp:${address[b]}:7400,tcp:${address[b]}:7401"
declare -a server
for ((id = 0; id < 4; id++)); do
    "$PANDOFS" format --cluster "$map" --id "$id" --data "$SCRATCH/server-$id"
    machine=a
    [[ $id -lt 2 ]] || machine=b
    start_on "$machine" "$SCRATCH/server-$id-log.txt" "$PANDOFS" serve --cluster "$map" --id "$id" --data "$SCRATCH/server-$id"
    server[id]=$STARTED
done
declare -A mount
for machine in c d; do
    mkdir "$SCRATCH/on-$machine"
    start_on "$machine" "$SCRATCH/mount-$machine-log.txt" "$PANDOFS" mount --cluster "$map" "$SCRATCH/on-$machine"
    mount[$machine]=$STARTED
    wait_until "the mount on $machine" says "$SCRATCH/mount-$machine-log.txt" ' mounted mountpoint='
done
mkdir "$SCRATCH/on-c/work"
expect 'layout set' nsenter --net="/run/netns/$NET-c" "$PANDOFS" layout set --unit 64K "$SCRATCH/on-c/work"

python3 _network_trouble.py "$SCRATCH/on-c/work" "$SCRATCH/on-d/work" "$PATIENCE" \
    <"$SCRATCH/to-checker" >"$SCRATCH/checker-log.txt" 2>&1 &
checker=$!
started+=("$checker")

phase 'no trouble' 3 carried calm
phase 'drops between c and a' "$DROP" dropped "drop $(way c a),$(way a c)"
phase 'drops from d to b' "$DROP" dropped "drop $(way d b)"
phase 'drops from a to d' "$DROP" dropped "drop $(way a d)"
phase 'drops between servers' "$DROP_BETWEEN_SERVERS" dropped "drop $(way a b),$(way b a)"
phase 'a mess' "$MESS" 'lost twice late' 'mess 1 5 10'
if [[ $LONG_DROP -gt 0 ]]; then
    PATIENCE=$((PATIENCE + LONG_DROP))
    echo errors >&"$to_checker"
    phase 'a long drop between c and a' "$LONG_DROP" dropped "drop $(way c a),$(way a c)"
fi

echo end >&"$to_checker"
wait_for_end "$checker"
cat "$SCRATCH/checker-log.txt"
[[ $CODE -eq 0 ]] || fail "the checker ended with $CODE"
checker=

expect 'fsck of the running cluster' nsenter --net="/run/netns/$NET-c" "$PANDOFS" fsck --cluster "$map"
for machine in c d; do
    umount "$SCRATCH/on-$machine"
    wait_for_end "${mount[$machine]}"
    expect_equal "the end of the mount on $machine" "$CODE" 0
done
stopped=()
for id in "${!server[@]}"; do
    kill -TERM "${server[id]}"
    wait_for_end "${server[id]}"
    expect_equal "the end of server $id" "$CODE" 0
    stopped+=(--server-data "$SCRATCH/server-$id")
done
panics=$(grep -h -A 5 'panicked at' "$SCRATCH"/*-log.txt || true)
[[ -z $panics ]] || fail "a process panicked: $panics"
expect 'fsck of the stopped cluster' "$PANDOFS" fsck --offline --cluster "$map" "${stopped[@]}"
