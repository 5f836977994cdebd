# 1,000 clients at once, each with a session and connections of its own to all servers: all are served, none gets an error
# when a server is killed while they work, and when they have gone nothing of theirs is left. PANDOFS_RUNS=N makes it
# another number of clients.
source ./_trial.sh

CLIENTS=${PANDOFS_RUNS:-1000}
# One process has the connections of all of them to four servers.
needed=$((CLIENTS * 5))
[[ $(ulimit -Hn) == unlimited || $(ulimit -Hn) -ge $needed ]] || skip "no process may have $needed files open"
ulimit -n "$needed"
trial clients --cluster "$CLUSTER" --clients "$CLIENTS"
