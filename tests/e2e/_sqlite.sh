# shellcheck shell=bash
# Part of tests: a bank in a database of sqlite3. Transfers move amounts between its accounts, and are noted in two
# tables, so that half a transfer or a lost one is found.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

ACCOUNTS=200

# sql DATABASE: runs what is on standard input. Who finds the database locked waits.
sql() {
    sqlite3 -bail -batch -cmd '.timeout 100000' "$1"
}

ask() {
    sql "$1" <<<"$2"
}

# transfers WRITER COUNT: statements that move amounts between accounts and note each in two tables. Each that is
# committed prints its number.
transfers() {
    awk -v writer="$1" -v count="$2" -v accounts="$ACCOUNTS" 'BEGIN {
        srand(writer)
        for (i = 1; i <= count; i++) {
            from = int(rand() * accounts); to = int(rand() * accounts); amount = int(rand() * 100)
            print "BEGIN IMMEDIATE;"
            printf "UPDATE account SET amount = amount - %d WHERE id = %d;\n", amount, from
            printf "INSERT INTO taken VALUES (%d, %d, randomblob(%d));\n", writer, i, i * 37 % 3000
            printf "UPDATE account SET amount = amount + %d WHERE id = %d;\n", amount, to
            printf "INSERT INTO given VALUES (%d, %d);\n", writer, i
            print "COMMIT;"
            printf "SELECT %d;\n", i
        }
    }'
}

# check_database DATABASE WHEN: it is whole, no amount was made or lost, and no transfer is half there.
check_database() {
    expect_equal "integrity $2" "$(ask "$1" 'PRAGMA integrity_check;')" ok
    expect_equal "the sum $2" "$(ask "$1" 'SELECT sum(amount) FROM account;')" $((ACCOUNTS * 1000))
    expect_equal "halves of transfers $2" "$(ask "$1" "
        SELECT count(*) FROM (SELECT writer, number FROM taken EXCEPT SELECT * FROM given);
        SELECT count(*) FROM (SELECT * FROM given EXCEPT SELECT writer, number FROM taken);")" $'0\n0'
    # Each writer's transfers are there from the first on, with none missing in between.
    expect_equal "gaps $2" "$(ask "$1" '
        SELECT count(*) FROM (SELECT count(*) AS n, max(number) AS last FROM given GROUP BY writer)
        WHERE n <> last;')" 0
}

# create_database DATABASE
create_database() {
    sql "$1" <<SQL
CREATE TABLE account (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL);
CREATE TABLE taken (writer INTEGER, number INTEGER, note BLOB, PRIMARY KEY (writer, number));
CREATE TABLE given (writer INTEGER, number INTEGER, PRIMARY KEY (writer, number)) WITHOUT ROWID;
CREATE INDEX by_note ON taken (note);
WITH RECURSIVE number (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM number WHERE n < $ACCOUNTS - 1)
INSERT INTO account SELECT n, 1000 FROM number;
SQL
}

# endless DATABASE WRITER: a writer in the background, its process is then $WRITER, that has written something.
endless() {
    # The last one's is of no use to wait for.
    : >"$SCRATCH/committed.txt"
    stdbuf --output=L sqlite3 -bail -batch -cmd '.timeout 100000' "$1" \
        < <(transfers "$2" 1000000 2>/dev/null) >"$SCRATCH/committed.txt" 2>/dev/null &
    WRITER=$!
    started+=("$WRITER")
    wait_until "writer $2 to have written" has_written
}

has_written() {
    [[ $(wc -l <"$SCRATCH/committed.txt") -ge 10 ]]
}

# write_and_be_killed DATABASE WRITER [DATABASE-THEN]: a writer that is killed while it writes. All that it was told
# is committed is there.
write_and_be_killed() {
    local told found
    endless "$1" "$2"
    kill -KILL "$WRITER"
    wait_for_end "$WRITER"
    expect_equal "how writer $2 ended" "$CODE" 137
    told=$(wc -l <"$SCRATCH/committed.txt")
    found=$(ask "${3:-$1}" "SELECT count(*) FROM given WHERE writer = $2;")
    [[ $found -eq $told || $found -eq $((told + 1)) ]] ||
        fail "writer $2 was told of $told transfers before it was killed, and $found are there"
}
