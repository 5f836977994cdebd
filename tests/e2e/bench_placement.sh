#!/bin/bash
# The report of placement policies is whole, tiny as it is here; and there is none if a server fails while it is made.
set -euo pipefail
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

bench() {
    FILES=300 CLIENTS=2 CROWDS='1 3' SERVERS='1 2' ../../scripts/bench-placement.sh "$@"
}

bench "$PANDOFS" "$SCRATCH/out" some-commit >"$SCRATCH/shown" 2>"$SCRATCH/log" || fail "$(cat "$SCRATCH/log")"
expect_equal 'what was shown' "$(cat "$SCRATCH/shown")" "$(cat "$SCRATCH/out/report.md")"
for section in 'macro1, 4 servers, '{random,subtree,ddg:4\,16,adaptive} 'macro1, 4 servers, ddg:4,16, files ddg:8' 'metarates (one directory), '{1,2}' servers' \
    'macro2, 4 servers, ddg:4,16, '{1,3}' clients' 'Live and modelled'; do
    expect_contains 'the report' "$(cat "$SCRATCH/out/report.md")" "## $section"
done
# Every setting has a row of its own beside the model, and what it took of its servers; and each workload a plot.
expect_equal 'rows live and modelled' "$(grep -c ', 4 servers, 2 clients  ' "$SCRATCH/out/report.md")" 5
for row in 'ddg(4,16), files ddg(8), 4 servers, 2 clients' 'ddg(4,16), '{1,2}' servers, 2 clients' \
    'ddg(4,16), 4 servers, '{1,3}' clients'; do
    expect_contains 'what is live and modelled' "$(cat "$SCRATCH/out/report.md")" "$row "
done
for workload in macro1 metarates macro2; do
    expect_contains "the plot of $workload" "$(head -c 500 "$SCRATCH/out/live-$workload.svg")" '<svg'
done
# Files elsewhere than their entries take operations on two shards; that is what they are made for here.
expect_above 'distributed operations with branch files' \
    "$(jq '[.servers[].distributed] | add' "$SCRATCH/out/status-files-ddg-8.json")" \
    "$(jq '[.servers[].distributed] | add' "$SCRATCH/out/status-ddg-4-16.json")"
for policy in random subtree ddg-4-16 adaptive files-ddg-8; do
    expect_above "requests with $policy" "$(jq '[.servers[].requests] | add' "$SCRATCH/out/status-$policy.json")" 900
done
expect_equal 'phases without a figure' "$(jq -s 'map(select(.operations == 0)) | length' "$SCRATCH/out/live.jsonl")" 0

# As pandofs, but that a server is killed when something was measured.
cat >"$SCRATCH/failing" <<FAILING
#!/bin/bash
[[ \$1 == bench ]] || exec "$PANDOFS" "\$@"
"$PANDOFS" "\$@" || exit
for ((at = 1; at <= \$#; at++)); do
    [[ \${!at} != --data ]] || { at=\$((at + 1)); data=\${!at}; }
done
kill -KILL "\$("$PANDOFS" status --data "\$data" --json | jq '.servers[1].pid')"
FAILING
chmod +x "$SCRATCH/failing"
if bench "$SCRATCH/failing" "$SCRATCH/failed" some-commit >"$SCRATCH/shown" 2>"$SCRATCH/log"; then
    fail "a server was killed, and the report made: $(cat "$SCRATCH/shown")"
fi
expect_equal 'what was shown of it' "$(cat "$SCRATCH/shown")" ''
expect_contains 'what was said of it' "$(cat "$SCRATCH/log")" 'server 1'
