#!/bin/bash
# Renaming a directory costs the same whatever is below it: as many records in the logs of all servers, requests and
# messages between them when it is empty, when it has 20,000 entries in several partitions, and when a tree is below
# it, but for the few by which the mount asks each server for its part of a large directory's attributes.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

# cost: what all servers have done so far, as "RECORDS REQUESTS MESSAGES".
cost() {
    "$PANDOFS" status --data "$DATA" --json | jq -r '[.servers[] | [.log_records, .requests, .peer_messages]]
        | transpose | map(add) | join(" ")'
}

# spent FROM TO: the least that renaming FROM to TO and back costs. It is done several times, as servers may do other
# things meanwhile, such as noting times of access, and the kernel looks for the names first.
spent() {
    local turn before after least=
    for ((turn = 0; turn < 5; turn++)); do
        read -ra before <<<"$(cost)"
        python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2]); os.rename(sys.argv[2], sys.argv[1])' "$1" "$2"
        read -ra after <<<"$(cost)"
        least+="$((after[0] - before[0])) $((after[1] - before[1])) $((after[2] - before[2]))"$'\n'
    done
    sort -n -k 1,1 -k 2,2 -k 3,3 <<<"${least%$'\n'}" | head -n 1
}

# The kernel does not ask again for what it knows: to ask for the attributes of a large directory is to ask every
# server that has a part of it, which is no part of a rename.
start_cluster --entry-timeout 3600 --attr-timeout 3600 --negative-timeout 3600
# So that a rename from the root to another directory is an operation of several servers.
"$PANDOFS" dir --data "$DATA" --policy random "$MNT" >/dev/null
mkdir "$MNT/wide" "$MNT/deep" "$MNT/elsewhere"
# Costs differ with the shards that directories happen to be on, so that each is compared with itself.
declare -A empty
for directory in wide deep; do
    empty[$directory]=$(spent "$MNT/$directory" "$MNT/renamed")
    empty[$directory-far]=$(spent "$MNT/$directory" "$MNT/elsewhere/renamed")
done

python3 - "$MNT/wide" <<'PY'
import os, sys
for number in range(20000):
    os.close(os.open(f"{sys.argv[1]}/{number:05}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
PY
mkdir -p "$MNT/deep"/{a,b,c,d}/{a,b,c,d}/{a,b,c,d}/{1,2,3,4}/deeper/still
find "$MNT/deep" -type d -execdir touch '{}/file' ';'
below=$(find "$MNT/deep" | wc -l)
partitions() {
    [[ $("$PANDOFS" dir --data "$DATA" "$MNT/wide" --json | jq .partitions) -gt 1 ]]
}
wait_until 'the directory to have split' partitions

# How many more it may be, as the commitment of one rename may end after the next has begun.
SLACK=10

# as_before WHAT FOUND WANTED: the costs are the same.
as_before() {
    local found wanted at names=(records requests messages)
    read -ra found <<<"$2"
    read -ra wanted <<<"$3"
    for at in 0 1 2; do
        expect_below "${names[at]} of renaming $1 (${wanted[at]} when it was empty)" "${found[at]}" \
            $((wanted[at] + SLACK))
    done
    say "$1: $2; when it was empty $3 (records, requests, messages of two renames)"
}

for directory in wide deep; do
    as_before "$directory" "$(spent "$MNT/$directory" "$MNT/renamed")" "${empty[$directory]}"
    as_before "$directory to another directory" "$(spent "$MNT/$directory" "$MNT/elsewhere/renamed")" \
        "${empty[$directory-far]}"
done
expect_equal 'what is below after it' "$(find "$MNT/deep" | wc -l)" "$below"
expect_equal 'entries after it' "$(find "$MNT/wide" -type f | wc -l)" 20000
check_online
stop_cluster
