#!/bin/bash
# cp, sync, cmp, sum, chmod, chown and tar on a tree with everything in it, beside rsync, diff, GNU chmod,
# GNU chown and GNU tar.
set -euo pipefail
cd "$SCRATCH"

if [[ $(id -u) -ne 0 ]]; then
    echo "needs root's rights, for owners and devices"
    exit 77
fi

taken() {
    find "$1" ! -type d -printf '%i %k\n' | sort -u | awk '{ sum += $2 } END { print sum }'
}

extended() {
    (cd "$1" && find . -print0 | sort -z | xargs -0 getfattr -h -d -m -)
}

# What rsync would still have to do to make the second tree what the first is: nothing.
same() {
    local left
    left=$(rsync -aHAXn --delete --itemize-changes "$1/" "$2/")
    [[ -z $left ]] || {
        echo "$1 and $2 differ:"
        echo "$left"
        exit 1
    }
    diff -r --no-dereference --exclude fifo --exclude device "$1" "$2"
    # Of links, pipes and devices as well, which not every rsync looks at.
    diff <(extended "$1") <(extended "$2")
    # As far as disk usage shows holes, and names of one file. What a directory takes depends on what was in it before.
    [[ $(taken "$1") -eq $(taken "$2") ]]
}

echo "--- the tools that pandofs lists are those that pandofs-walk has"
# tools PROGRAM: names and descriptions from its help. Columns differ, as names of other commands are longer.
tools() {
    "$1" --help | sed -n '/^Commands:/,/^$/p' | grep '^  ' | tr -s ' ' | sort
}
tools "$PANDOFS-walk" >listed
[[ $(wc -l <listed) -ge 11 ]]
[[ -z $(comm -23 listed <(tools "$PANDOFS")) ]] || {
    echo "'pandofs --help' lacks:"
    comm -23 listed <(tools "$PANDOFS")
    exit 1
}

mkdir -p from/a/b from/closed from/empty from/acl
for i in $(seq 300); do head -c $((i * 37)) /dev/urandom >"from/a/f$i"; done
for name in $'new\nline' $'\xff\xfe' '-dash' ' space' 'star*[x]' $'back\\slash'; do echo "$name" >"from/a/b/$name"; done
name=$(printf 'n%.0s' $(seq 250))
echo long >"from/a/$name"
ln from/a/f1 from/a/second
ln from/a/f1 from/third
ln -s nowhere from/a/link
ln from/a/link from/a/link2
ln -s "$(printf 'target/%.0s' $(seq 40))" from/a/longlink
mkfifo from/a/fifo
mknod from/a/device c 1 3
# Larger than two pieces, nearly all holes.
truncate -s 200M from/a/large
printf data | dd of=from/a/large bs=1 seek=70000000 conv=notrunc status=none
head -c 3M /dev/urandom | dd of=from/a/large bs=1M seek=190 conv=notrunc status=none
head -c 3M /dev/urandom >from/a/medium
setfattr -n user.comment -v 'some words' from/a/f2 from/a
setfacl -m u:1234:rw from/a/f3
setfacl -d -m u:1234:rwx from/acl
# Only root may give links and the like attributes, and none of users'.
setfattr -h -n trusted.note -v 'on a link' from/a/link from/a/longlink
setfattr -h -n trusted.note -v 'on a pipe' from/a/fifo
setfacl -m u:1234:rw from/a/fifo from/a/device
chown 1234:4321 from/a/f4
chown -h 1234:4321 from/a/link
chmod 4755 from/a/f5
chmod 555 from/closed
touch -d '2001-02-03 04:05:06.789' from/a/b from/closed from/a/f6
touch -d '1969-12-31 23:59:58.5 UTC' from/a/f7
touch -d 2002-02-02 from/a from

echo "--- cp"
"$PANDOFS" cp --dry-run from to >planned
[[ ! -e to ]]
[[ $(wc -l <planned) -gt 300 ]]
"$PANDOFS" cp --json from to >done.json
same from to
[[ $(jq .files done.json) -eq $(find from -type f -printf '%i\n' | sort -u | wc -l) ]]
# Again, into a directory that is there.
mkdir into
"$PANDOFS" cp from/a from/third into
[[ $(stat -c %h into/third) -eq 3 ]]
same from/a into/a
[[ ! -e into/.pandofs-links ]]
"$PANDOFS" cp --no-reflink from plain
same from plain
rm -rf plain into
# Interrupted: some of it is there, and is not copied again.
cp -a to part
rm -r part/a/f1* part/a/b
head -c 10 from/a/f20 >part/a/f20
"$PANDOFS" cp --resume --json -T from part >done.json
[[ $(jq .unchanged done.json) -gt 150 && $(jq .files done.json) -gt 100 ]]
same from part
rm -rf part
if "$PANDOFS" cp from from/a/b 2>error; then
    echo "a directory was copied to itself without a word"
    exit 1
fi
grep -q 'it is what is copied to' error
rm -r from/a/b/from
touch -d '2001-02-03 04:05:06.789' from/a/b

# A file is not made empty by copying it to itself.
echo kept >self && ln self other-self
if "$PANDOFS" cp self self 2>error || [[ $(cat self) != kept ]]; then
    echo "a file was copied to itself"
    exit 1
fi
grep -q 'same file' error
rm self other-self

echo "--- sync"
"$PANDOFS" sync --json from to >done.json
[[ $(jq '.files + .directories + .links + .removed' done.json) -eq 0 ]]
change() {
    echo more >>to/a/f10
    rm to/a/f11 to/a/f12 to/a/link
    mkdir -p to/extra/deep to/a/f11 to/a/link
    touch to/extra/deep/file to/a/f11/file
    rm -r to/empty
    echo file >to/empty
    cp -a to/a/second copied && mv copied to/a/second
    chmod 600 to/a/f13
    chown 5 to/a/f14
    setfattr -x user.comment to/a/f2
    setfattr -h -x trusted.note to/a/longlink
    setfattr -h -n trusted.note -v other to/a/fifo
    setfacl -b to/a/device
}
change
find to -printf '%p %s %T@ %m\n' | sort >before
"$PANDOFS" sync --delete --dry-run from to >planned
find to -printf '%p %s %T@ %m\n' | sort | cmp before -
grep -q '^- to/extra/deep$' planned
grep -q '^~ from/a/f10$' planned
grep -q '^+ from/a/f12$' planned
"$PANDOFS" sync --delete from to
same from to
# A link to a directory, and a file, where there is a directory: rsync makes room for it too, and what is elsewhere stays.
mkdir elsewhere && echo kept >elsewhere/file
rm -r to/a/b to/empty && ln -s ../../elsewhere to/a/b && echo file >to/empty
"$PANDOFS" sync --dry-run from to >planned
[[ -L to/a/b ]]
grep -q '^+ from/a/b$' planned
"$PANDOFS" sync from to
touch -r from to && touch -r from/a to/a
same from to
[[ $(ls elsewhere) == file ]]
# One of two names of a file in the copy is another file now: the other name keeps what is in it.
mkdir apart joined && echo one >apart/x && echo two >apart/y && echo two >joined/x && ln joined/x joined/y
touch -d 2003-03-03 apart/x && touch -r joined/x apart/y
"$PANDOFS" sync apart joined
[[ $(cat joined/x) == one && $(cat joined/y) == two ]]
# A link to a directory is a link, as a root too, and leads to one with a slash behind it.
ln -s from/a toa
"$PANDOFS" cp toa link && [[ -L link ]]
"$PANDOFS" cp -T toa/ followed && [[ ! -L followed ]]
same from/a followed
mkdir real && ln -s real target-link
"$PANDOFS" sync from/a/b target-link
[[ -L target-link ]]
same from/a/b real
rm -rf followed link toa target-link real elsewhere apart joined
# Same size, same time, another content.
head -c $((15 * 37)) /dev/zero >to/a/f15
touch -r from/a/f15 to/a/f15
touch -r from/a to/a
"$PANDOFS" sync from to
if cmp -s from/a/f15 to/a/f15; then exit 1; fi
"$PANDOFS" sync --checksum from to
same from to
# Others may not get to where the programs were built.
mkdir programs && cp "$PANDOFS" "$PANDOFS-walk" programs && chmod 755 programs programs/*
others=$SCRATCH/programs/${PANDOFS##*/}
# What cannot be read is not taken to be gone.
mkdir kept && echo kept >kept/file && mkdir source && mkdir source/kept && chmod 700 source/kept
cp -a kept source/
mkdir target && cp -a kept target/ && chown -R 1234 target && chmod 755 source && chmod 777 "$SCRATCH"
chmod 000 source/kept
if setpriv --reuid 1234 --regid 1234 --clear-groups "$others" sync --delete source target 2>error; then
    echo "an unreadable directory was no failure"
    exit 1
fi
grep -q source/kept error
[[ -s target/kept/file ]]

echo "--- cmp and sum"
setfattr -h -n trusted.note -v other to/a/fifo
[[ $("$PANDOFS" cmp --attributes from to || true) == 'extended attributes differs: from/a/fifo' ]]
setfattr -h -n trusted.note -v 'on a pipe' to/a/fifo
"$PANDOFS" cmp --attributes from to
[[ $("$PANDOFS" sum --attributes from | cut -c 1-64) == $("$PANDOFS" sum --attributes to | cut -c 1-64) ]]
"$PANDOFS" sum --files from >sums
"$PANDOFS" sum --check sums >/dev/null
echo x >>to/a/f16
touch to/new
rm to/third
code=0
"$PANDOFS" cmp from to >differences || code=$?
[[ $code -eq 1 ]]
sort differences | diff - <(printf '%s\n' 'only in from: from/third' 'only in to: to/new' 'size differs: from/a/f16')
[[ $("$PANDOFS" sum from | cut -c 1-64) != $("$PANDOFS" sum to | cut -c 1-64) ]]
code=0
"$PANDOFS" cmp from missing 2>error || code=$?
[[ $code -ne 0 && -s error ]]

echo "--- chmod and chown"
cp -a from theirs
rm -rf to && "$PANDOFS" cp from to
for mode in u+rwX,go-w 750 a-x+X g=u,o= ug+s; do
    chmod -R "$mode" theirs
    "$PANDOFS" chmod "$mode" to
    diff <(cd theirs && find . -printf '%p %m\n' | sort) <(cd to && find . -printf '%p %m\n' | sort)
done
# A user whose login group has another number, and the attributes of another file.
user=$(getent passwd | awk -F: '$3 != $4 { print $1; exit }')
for owner in "$user:" :"$(id -gn "$user")" "$user"; do
    chown -R -h "$owner" theirs
    "$PANDOFS" chown -h "$owner" to
    diff <(cd theirs && find . -printf '%p %u %g %m\n' | sort) <(cd to && find . -printf '%p %u %g %m\n' | sort)
done
touch model && chown 12:34 model && chmod 2750 model
chown -R -h --reference model theirs && chmod -R --reference model theirs
"$PANDOFS" chown --reference model to && "$PANDOFS" chmod --reference model to
diff <(cd theirs && find . -printf '%p %u %g %m\n' | sort) <(cd to && find . -printf '%p %u %g %m\n' | sort)
for root in / // /. /usr/.. /proc/self/root/; do
    for tool in 'chown 77:88' 'chmod 755' rm; do
        # shellcheck disable=SC2086 # words
        if "$PANDOFS" $tool --dry-run "$root" >planned 2>error || [[ -s planned ]]; then
            echo "$tool did not refuse $root"
            exit 1
        fi
        grep -q 'refusing' error
    done
done
code=0
"$PANDOFS" chown -f 77:88 missing 2>error || code=$?
[[ $code -eq 1 && ! -s error ]]
chown -R -h 77:88 theirs
"$PANDOFS" chown --dry-run 77:88 to >planned
[[ $(wc -l <planned) -eq $(find to -printf '.' | wc -c) ]]
"$PANDOFS" chown 77:88 to
diff <(cd theirs && find . -printf '%p %u %g %m\n' | sort) <(cd to && find . -printf '%p %u %g %m\n' | sort)
rm -rf theirs to

echo "--- tar"
unpack=(tar --extract --xattrs '--xattrs-include=*' --file)
"$PANDOFS" tar -cf ours.tar from
mkdir gnu ours
"${unpack[@]}" ours.tar --directory gnu
same from gnu/from
"$PANDOFS" tar -xf ours.tar -C ours
same from ours/from
"$PANDOFS" tar -c from | "${unpack[@]}" - --directory gnu
same from gnu/from
"$PANDOFS" tar -x -C ours <ours.tar
same from ours/from
for format in gnu posix oldgnu; do
    rm -rf ours/*
    tar --create --sparse --format $format --file theirs.tar from
    "$PANDOFS" tar -xf theirs.tar -C ours
    "$PANDOFS" tar tvf theirs.tar | diff - <(tar -tvf theirs.tar)
    diff -r --no-dereference --exclude fifo --exclude device from ours/from
    [[ $(stat -c %h ours/from/third) -eq 3 && $(du -s ours | cut -f 1) -lt 20000 ]]
done
# Compressed, in the words without a dash, and some of it.
rm -rf ours/*
"$PANDOFS" tar czfC ours.tar.gz . from
"$PANDOFS" tar xf ours.tar.gz -C ours
same from ours/from
rm -rf gnu/*
tar --extract --file ours.tar.gz --directory gnu --strip-components=2 from/a/b
rm -rf ours/*
"$PANDOFS" tar xf ours.tar.gz -C ours --strip-components=2 from/a/b
same gnu/b ours/b
# Somebody who is not root: the umask counts, unless -p is given.
chmod 777 ours && rm -rf ours/*
for options in '' -p; do
    rm -rf ours/*
    for tar in tar "$others tar"; do
        mkdir -p "ours/${tar##*/}" && chmod 777 "ours/${tar##*/}"
        # shellcheck disable=SC2086 # words
        (umask 027 && setpriv --reuid 1234 --regid 1234 --clear-groups \
            $tar -x $options -C "ours/${tar##*/}" --exclude device <theirs.tar)
    done
    modes() { (cd "$1" && find . -printf '%p %y %m %U %G\n' | sort); }
    diff <(modes ours/tar) <(modes "ours/${PANDOFS##*/} tar")
done
head -c 100000 ours.tar >cut.tar
if "$PANDOFS" tar -xf cut.tar -C ours 2>error; then
    echo "an archive that was cut off was no failure"
    exit 1
fi
# An archive that would write elsewhere.
mkdir evil && ln -s "$SCRATCH" evil/out
tar -C evil -cf evil.tar out
mkdir evil/in && echo bad >evil/in/bad && tar -C evil -rf evil.tar --transform s,in/,out/, in/bad
if "$PANDOFS" tar -xf evil.tar -C ours 2>error; then
    echo "an archive wrote through its own link"
    exit 1
fi
[[ ! -e bad ]]

echo "--- a path that is longer than any call takes"
mkdir deep
(
    cd deep
    for i in $(seq 60); do
        d=$(printf 'd%099d' "$i")
        mkdir "$d"
        cd -P "./$d"
        echo "$i" >file
        ln file second
    done
)
list() { (cd "$1" && find . -printf '%y %m %s %n %T@ %p\n' | sort | sha256sum); }
deep=$(list deep)
"$PANDOFS" cp deep copied
[[ $(list copied) == "$deep" ]]
"$PANDOFS" cmp --attributes deep copied
[[ $("$PANDOFS" sum deep | cut -c 1-64) == $("$PANDOFS" sum copied | cut -c 1-64) ]]
"$PANDOFS" chmod go-rwx copied
[[ -z $(find copied -perm /077) ]]
"$PANDOFS" sync --delete deep copied
[[ $(list copied) == "$deep" ]]
mkdir -p empty
"$PANDOFS" sync --delete empty copied
[[ -z $(ls -A copied) ]]
"$PANDOFS" tar -cf deep.tar deep
[[ $(tar -tf deep.tar | wc -l) -eq $(find deep | wc -l) ]]
mkdir undeep
"$PANDOFS" tar -xf deep.tar -C undeep
[[ $(list undeep/deep) == "$deep" ]]
rm -rf deep undeep

echo "--- where there are no access control lists"
# Who has a file without its list has it with more than the list gives, and is told so; the rest of it is as it was.
mkdir lists bare
echo kept >lists/file
setfacl -m u:1234:rw,g::- lists/file
echo plain >lists/plain
touch -d 2001-02-03 lists/file
mount -t ramfs none bare
code=0
"$PANDOFS" cp lists bare/copy 2>told || code=$?
[[ $code -eq 1 ]]
grep -q 'lists/file: cannot take over its access control list: Operation not supported' told
[[ $(wc -l <told) -eq 1 ]]
"$PANDOFS" tar -cf lists.tar lists
code=0
"$PANDOFS" tar -xf lists.tar -C bare 2>told || code=$?
[[ $code -eq 2 ]]
grep -q 'lists/file: cannot set its access control list: Operation not supported' told
[[ $(wc -l <told) -eq 1 ]]
for copy in copy lists; do
    diff -r lists "bare/$copy"
    [[ $(stat -c %Y "bare/$copy/file") -eq $(stat -c %Y lists/file) ]]
done
umount bare
rm -rf lists lists.tar bare

if command -v mpirun >/dev/null && [[ -x $PANDOFS-mpi ]]; then
    echo "--- several processes"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 TMPDIR=/tmp
    mpirun -n 4 "$PANDOFS" cp from to
    same from to
    [[ $(mpirun -n 4 "$PANDOFS" sum --attributes from) == "$("$PANDOFS" sum --attributes from)" ]]
    mpirun -n 4 "$PANDOFS" cmp --attributes from to
    mkdir -p to/extra/deep && touch to/extra/deep/file && rm to/a/f1
    mpirun -n 3 "$PANDOFS" sync --delete from to
    same from to
    mpirun -n 3 "$PANDOFS" chmod u+w,g=u to
    chmod -R u+w,g=u from
    same from to
else
    # Said so that nobody takes it to have been tried.
    echo "all but several processes was tried: there is no mpirun, or no $PANDOFS-mpi beside it (make build makes it)"
    exit 77
fi
