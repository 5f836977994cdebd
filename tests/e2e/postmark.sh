#!/bin/bash
# postmark: what a mail server does to 2,000 small files in 50 directories, 6,000 times on the mount.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

FILES=2000
TRANSACTIONS=6000
SUBDIRECTORIES=50

# Small, so that the directories of many files spread while they are used.
start_cluster --threshold 200
mkdir "$MNT/mail"
# From files beside their inodes to some that are in data objects.
expect postmark postmark >"$SCRATCH/postmark.txt" 2>&1 <<CONF
set location $MNT/mail
set number $FILES
set transactions $TRANSACTIONS
set size 100 20000
set subdirectories $SUBDIRECTORIES
set seed ${PANDOFS_SEED:-7}
set report terse
set buffering false
run $SCRATCH/report.txt
quit
CONF
! grep -iE 'error|cannot|fail' "$SCRATCH/postmark.txt" || fail 'postmark complained'
[[ -s $SCRATCH/report.txt ]] || fail "postmark did not come to its end: $(tail -n 20 "$SCRATCH/postmark.txt")"
expect_equal 'what it left behind' "$(find "$MNT/mail" -mindepth 1)" ''
say "$TRANSACTIONS transactions on $FILES files: $(tail -n 1 "$SCRATCH/report.txt")"
check_online
stop_cluster
