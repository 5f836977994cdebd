#!/bin/bash
# make builds a C project of 50 modules on the mount with four jobs at once, and builds again just what
# depends on a file that was touched.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

MODULES=50
# As many modules as include the header that is touched later.
READERS=10

start_cluster
project=$MNT/project
mkdir "$project" "$project/include"
cat >"$project/Makefile" <<'MAKEFILE'
SOURCES := $(wildcard src/*.c)
OBJECTS := $(SOURCES:src/%.c=build/%.o)
CFLAGS := -O1 -Wall -Werror -Iinclude -MMD -MP

program: $(OBJECTS) build/libsum.a
	$(CC) -o $@ $(OBJECTS) -Lbuild -lsum

build/libsum.a: build/lib/sum.o
	$(AR) rcs $@ $^

build/lib/%.o: lib/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<
	@echo $< >>compiled.txt

build/%.o: src/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -c -o $@ $<
	@echo $< >>compiled.txt

-include $(OBJECTS:.o=.d)
MAKEFILE
mkdir "$project/src" "$project/lib"
echo 'long sum(const long *values, int count);' >"$project/include/sum.h"
echo '#define SCALE 3' >"$project/include/scale.h"
cat >"$project/lib/sum.c" <<'C'
#include "sum.h"
long sum(const long *values, int count)
{
    long total = 0;
    while (count-- > 0)
        total += *values++;
    return total;
}
C
declared=
called=
wanted=0
for ((i = 0; i < MODULES; i++)); do
    if [[ $i -lt $READERS ]]; then
        printf '#include "scale.h"\nlong module_%d(void) { return %dL * SCALE; }\n' "$i" "$i" \
            >"$project/src/module_$i.c"
        wanted=$((wanted + i * 3))
    else
        printf 'long module_%d(void) { return %dL; }\n' "$i" "$i" >"$project/src/module_$i.c"
        wanted=$((wanted + i))
    fi
    declared+="long module_$i(void);"$'\n'
    called+="module_$i(), "
done
cat >"$project/src/main.c" <<C
#include "sum.h"
#include <stdio.h>
$declared
int main(void)
{
    const long values[] = { $called };
    printf("%ld\n", sum(values, sizeof values / sizeof *values));
    return 0;
}
C
say "$((MODULES + 2)) sources are written"

# build: what make compiled, sorted, is then in $compiled.
build() {
    : >"$project/compiled.txt"
    expect make make --silent -C "$project" -j4
    compiled=$(sort "$project/compiled.txt")
}

build
expect_equal 'files that were compiled' "$(wc -l <<<"$compiled")" $((MODULES + 2))
expect_equal 'what the program prints' "$("$project/program")" "$wanted"
say "make -j4 compiled $((MODULES + 2)) files; the program prints $wanted"

build
expect_equal 'files compiled when nothing changed' "$compiled" ''

# Time stamps come from the server that holds a file: one that is touched after the build must be
# newer than what the build made, whichever servers the two are on.
touch "$project/src/module_20.c"
build
expect_equal 'files compiled after one was touched' "$compiled" src/module_20.c

echo '#define SCALE 5' >"$project/include/scale.h"
build
expect_equal 'files compiled after a header changed' "$compiled" \
    "$(for ((i = 0; i < READERS; i++)); do echo "src/module_$i.c"; done | sort)"
wanted=$((wanted + 2 * READERS * (READERS - 1) / 2))
expect_equal 'what the program prints then' "$("$project/program")" "$wanted"
say "rebuilt what depends on a file and on a header, and nothing else; the program prints $wanted"

# A library in an archive, too.
sed -i 's/return total/return -total/' "$project/lib/sum.c"
build
expect_equal 'files compiled after the library changed' "$compiled" lib/sum.c
expect_equal 'what the program prints with the new library' "$("$project/program")" "-$wanted"
say "rebuilt the library; the program prints -$wanted"

check_online
stop_cluster
