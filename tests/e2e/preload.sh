#!/bin/bash
# Unmodified programs by the preloaded library, with no mount at the path that they use: each script runs in a local directory
# and below the prefix, and prints and leaves the same, seen by the library and through a mount. And what they are told
# where it cannot be the same: shared mappings, locks that processes share, a server that is gone, too few descriptors.
# shellcheck source=tests/e2e/_common.sh
. ./_common.sh

BUILT=${PANDOFS%/*}
LIBRARY=$BUILT/libpandofs_preload.so
[[ -f $LIBRARY ]] || fail "there is no $LIBRARY: 'make e2e' builds it"
# By the name that it is installed by.
install -D "$LIBRARY" "$SCRATCH/lib/libpandofs-preload.so"
PREFIX=/pandofs-preload-test
[[ ! -e $PREFIX ]] || fail "$PREFIX is there, and was to be nowhere"

start_cluster --servers 2

# The page's own example, as it is printed but for the place of the cluster.
page=../../docs/preload.md
awk '/^```sh$/ { on = 1; next } /^```/ { on = 0 } on' "$page" | sed "s|/var/tmp/pando|$DATA|" >"$SCRATCH/commands"
out=$(LD_LIBRARY_PATH=$SCRATCH/lib bash -e "$SCRATCH/commands" 2>&1)
expect_equal "what the page's example prints" "$out" "$(awk '/^```text$/ { on = 1; next } /^```/ { on = 0 } on' "$page")"
say 'the example of docs/preload.md prints what it says'

# preload COMMAND...: with the library.
preload() {
    LD_PRELOAD=$SCRATCH/lib/libpandofs-preload.so PANDOFS_PRELOAD_PREFIX=$PREFIX PANDOFS_CLUSTER=$DATA/cluster.json "$@"
}

# What is in the current directory: kinds, rights, sizes and targets, and what files have in them.
cat >"$SCRATCH/listing" <<'END'
find . ! -type d -printf '%P %y %m %s %n %l\n' -o -printf '%P %y %m\n' | grep -v ' l 777' | LC_ALL=C sort
find . -type l -printf '%P -> %l\n' | LC_ALL=C sort
find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum
END

# same WHAT: the script on the standard input does the same in a local directory, with the library and, in what it leaves,
# through the mount.
same() {
    local what=$1 script=$SCRATCH/$1.sh
    { echo 'set -e'; cat; } >"$script"
    mkdir -p "$SCRATCH/local/$what"
    (cd "$SCRATCH/local/$what" && bash "$script") >"$SCRATCH/local.out" 2>&1 ||
        fail "$what fails on a local directory: $(tail -n 5 "$SCRATCH/local.out")"
    # shellcheck disable=SC2016 # The inner shell's.
    preload bash -c 'mkdir "$1" && cd "$1" && exec bash "$2"' - "$PREFIX/$what" "$script" >"$SCRATCH/ours.out" 2>&1 ||
        fail "$what fails: $(tail -n 20 "$SCRATCH/ours.out")"
    sed -i "s|$SCRATCH/local/|HERE/|g" "$SCRATCH/local.out"
    sed -i "s|$PREFIX/|HERE/|g" "$SCRATCH/ours.out"
    expect "$what prints the same" diff "$SCRATCH/local.out" "$SCRATCH/ours.out"
    (cd "$SCRATCH/local/$what" && bash "$SCRATCH/listing") >"$SCRATCH/local.list"
    # shellcheck disable=SC2016
    preload bash -c 'cd "$1" && exec bash "$2"' - "$PREFIX/$what" "$SCRATCH/listing" >"$SCRATCH/ours.list"
    expect "$what leaves the same" diff "$SCRATCH/local.list" "$SCRATCH/ours.list"
    (cd "$MNT/$what" && bash "$SCRATCH/listing") >"$SCRATCH/mount.list"
    expect "$what leaves the same on the mount" diff "$SCRATCH/local.list" "$SCRATCH/mount.list"
    say "$what: $(wc -l <"$SCRATCH/local.list") lines of files, $(wc -l <"$SCRATCH/local.out") lines printed"
}

same shell <<'END'
echo one >a
echo two >>a
cat <a
{ echo three; echo four | tr a-z A-Z; (echo five); } >>b
( echo from one; echo from another; bash -c 'echo and a third' ) >c
cat c
exec 5<>d
echo written >&5
exec 5<&-
exec 6<a 7<&6
read -r first <&6
read -r second <&7
echo "$first $second"
exec 6<&- 7<&-
cat <<END2 >here
here
END2
for i in 1 2 3; do echo "$i"; done | tee x y >z
set -o noclobber
echo no >a || echo refused
set +o noclobber
[[ -f a && ! -d a && -s a ]] && echo tests
pwd
mkdir -p deep/er
cd deep/er
pwd
echo up >../../up
cd ..
pwd
ls ..
cd ..
basename "$PWD"
echo "$(<a)"
wc -l <a
bash -c 'echo error >&2' 2>errors
cat errors
sort <x >x.sorted 2>&1
printf '#!/bin/sh\necho "script $0 $*"\n' >script
chmod +x script
./script with arguments
cp /bin/echo ./program
./program a program
END

same coreutils <<'END'
umask 027
mkdir -p a/b/c a/d
seq 1 20000 >a/numbers
cp a/numbers a/b/copy
cp -a a z
mv a/b/copy a/d/moved
ln -s ../numbers a/b/link
ln a/numbers a/hard
readlink a/b/link
cat a/b/link | tail -n 1
touch -d '2001-02-03 04:05:06 UTC' a/old
stat -c '%n %s %a %F %h' a/old a/numbers a/hard
stat -c %Y a/old
date -r a/old -u +%s
dd if=/dev/zero of=zeros bs=64k count=20 status=none
dd if=a/numbers of=part bs=1k skip=3 count=2 status=none
dd if=part of=zeros bs=1k seek=5 conv=notrunc status=none
truncate -s 100000 sparse
truncate -s 10 part
stat -c '%s' sparse part zeros
chmod 640 part
head -c 5 part; echo
ls -lR --time-style=+ a | awk '{ print $1, $2, $5, $6, $7, $8, $9 }' | grep -v '^[dt]'
rm -r z
rmdir a/b/c
rmdir a 2>/dev/null || echo not empty
mkdir a 2>/dev/null || echo there
cat not/there 2>&1 || true
ls a/old/x 2>&1 || true
realpath a/b/link
du -a --apparent-size a | wc -l
find . -name 'n*' -type f -size +1k | LC_ALL=C sort
find a -type f -exec wc -c {} + | tail -n 1
find a -depth -name d -exec rm -r {} \;
split -l 5000 a/numbers split.
cat split.* | cmp - a/numbers && echo equal
mktemp -d ./temp.XXXX >/dev/null
rmdir temp.*
cmp a/numbers a/hard
tac a/numbers | head -n 1
paste a/numbers a/numbers | sed -n 3p
install -m 755 -D a/numbers deep/installed
sync a/numbers
mkfifo fifo
stat -c '%F' fifo
rm fifo
END

same archives <<'END'
mkdir -p tree/sub/deeper
for i in $(seq 1 60); do echo "file $i" >"tree/sub/$i"; done
seq 1 300000 >tree/large
ln -s sub/1 tree/link
tar -cf tree.tar --sort=name --owner=0 --group=0 --mtime='2020-01-01 UTC' tree
sha256sum tree.tar
mkdir out
tar -C out -xf tree.tar
diff -r tree out/tree && echo unpacked
tar -cz tree | tar -tz | LC_ALL=C sort | head -n 3
gzip -k tree/large
zcat tree/large.gz | cmp - tree/large
rm tree/large.gz
rsync -a tree/ synced
diff -r tree synced && echo synced
echo more >>tree/sub/5
rm tree/sub/6
rsync -a --checksum --delete --out-format='%o %n' tree/ synced | LC_ALL=C sort | grep -v '/$'
rsync -a --checksum --inplace tree/ synced
find synced -newer tree.tar -type f | wc -l
rm tree.tar
END

same python <<'END'
python3 - <<'PYTHON'
import glob, mmap, os, pathlib, shutil, sqlite3, subprocess, tempfile, threading, fcntl
p = pathlib.Path('dir'); p.mkdir(); (p / 'a').write_text('text'); print((p / 'a').read_text())
with open('lines', 'w+') as f:
    f.write('x' * 100000); f.seek(10); f.write('y'); f.flush(); f.seek(0); print(len(f.read()), f.tell())
with open('lines', 'ab') as f: f.write(b'end'); print(f.tell())
shutil.copytree('dir', 'copy'); shutil.copy2('lines', 'copy/lines'); shutil.move('copy', 'moved')
print(sorted(os.listdir('moved')), sorted(e.name for e in os.scandir('.')), sorted(glob.glob('*/a')))
fd = os.open('dir', os.O_RDONLY); g = os.open('a', os.O_RDWR, dir_fd=fd); print(os.pread(g, 2, 1))
print(os.pwrite(g, b'T', 0), os.fstat(g).st_size, os.stat('a', dir_fd=fd).st_size, os.path.samestat(os.fstat(g), os.stat('dir/a')))
os.ftruncate(g, 2); h = os.dup(g); os.close(g); print(os.read(h, 9), os.read(h, 9)); os.close(h)
os.rename('a', 'b', src_dir_fd=fd, dst_dir_fd=fd); os.fchdir(fd); print(os.path.basename(os.getcwd()), os.listdir()); os.chdir('..')
os.posix_fallocate(os.open('space', os.O_RDWR | os.O_CREAT), 0, 5000); print(os.stat('space').st_size)
os.utime('space', ns=(10**18, 10**18 + 7)); print(os.stat('space').st_mtime_ns)
os.setxattr('space', 'user.k', b'v'); print(os.getxattr('space', 'user.k'), [n for n in os.listxattr('space') if n.startswith('user.')])
with open('lines', 'rb') as f, mmap.mmap(f.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ) as m: print(m[8:12], len(m))
print(subprocess.run(['cat'], stdin=open('dir/b'), capture_output=True).stdout)
with open('child', 'w') as f: subprocess.run(['sh', '-c', 'echo out; echo err >&2'], stdout=f, stderr=f, close_fds=True)
print(open('child').read())
pid = os.fork()
if pid == 0:
    with open('forked', 'w') as f: f.write('by the child')
    os._exit(0)
os.waitpid(pid, 0); print(open('forked').read())
def work(n):
    for i in range(20): open(f'thread-{n}-{i}', 'w').write(str(i))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]; print(len(glob.glob('thread-*')))
db = sqlite3.connect('db'); db.execute('create table t(a, b)'); db.executemany('insert into t values(?, ?)', [(i, str(i)) for i in range(2000)])
db.commit(); print(db.execute('select sum(a), count(b) from t').fetchone()); db.close()
with open('lock', 'w') as f:
    fcntl.lockf(f, fcntl.LOCK_EX); pid = os.fork()
    if pid == 0:
        try: fcntl.lockf(open('lock', 'r+'), fcntl.LOCK_EX | fcntl.LOCK_NB); os._exit(1)
        except OSError: os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
for bad in (lambda: open('none'), lambda: os.mkdir('dir'), lambda: os.rmdir('dir'), lambda: open('dir', 'w'), lambda: os.rename('dir', 'dir/x')):
    try: bad()
    except OSError as e: print(e.errno)
with tempfile.TemporaryDirectory(dir='.') as t: open(t + '/x', 'w')
os.link('lines', 'hard'); print(os.stat('hard').st_nlink); os.unlink('hard'); os.symlink('dir', 'link'); print(os.path.realpath('link') == os.path.abspath('dir'))
walked = sum(len(f) for _, _, f in os.walk('.')); print(walked)
PYTHON
rm -r db
END

same git <<'END'
export GIT_AUTHOR_DATE='2020-01-01T00:00:00Z' GIT_COMMITTER_DATE='2020-01-01T00:00:00Z' HOME=$PWD GIT_CONFIG_NOSYSTEM=1
git -c init.defaultBranch=main init -q repository
cd repository
git config user.name Somebody
git config user.email somebody@example.org
for i in $(seq 1 30); do echo "$i" >"file$i"; done
git add .
git commit -qm first
echo changed >file3
git diff --stat
git commit -qam second
git log --format='%h %s'
git checkout -q -b other HEAD~1
echo more >more
git add more
git commit -qm third
git checkout -q main
git merge -q -m merged other
git log --oneline --graph | cat
git gc -q
git fsck
git status --short
git clone -q . ../clone
git -C ../clone log --format=%s | head -n 1
cd ..
rm -rf repository/.git clone/.git
END

same languages <<'END'
perl -e 'open my $f, ">", "perl" or die; print $f "line $_\n" for 1..5; close $f; open $f, "<", "perl" or die; my @l = <$f>;
    print scalar(@l), " ", -s "perl", "\n"; rename "perl", "renamed" or die; opendir my $d, "." or die;
    print join(" ", sort grep { !/^\./ } readdir $d), "\n"; mkdir "p" or die; print join " ", glob("*"); print "\n"; system "echo system >sys"'
cat >main.c <<'C'
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
int main(int argc, char **argv)
{
    char line[64];
    FILE *file = fopen(argv[1], "w+");
    if (argc < 2 || !file || fprintf(file, "%s\n", "written by stdio") < 0 || fseek(file, 8, SEEK_SET))
        return 1;
    if (!fgets(line, sizeof line, file) || fclose(file))
        return 2;
    fputs(line, stdout);
    struct stat stat_of;
    DIR *directory = opendir(".");
    int found = 0;
    for (struct dirent *entry; (entry = readdir(directory));)
        found += !strcmp(entry->d_name, argv[1]);
    closedir(directory);
    return !stat(argv[1], &stat_of) && stat_of.st_size == 17 && found == 1 ? 0 : 3;
}
C
cc -O1 -o program main.c
./program by-stdio
cat by-stdio
awk 'BEGIN { print "awk" >"awk.out"; close("awk.out"); while ((getline line <"awk.out") > 0) print line }'
sed -i s/awk/sed/ awk.out
cat awk.out
printf 'all: made\nmade: main.c\n\tcp $< $@\n' >Makefile
make -s && make -s
rm program
END

# Paths that lead in and out.
out=$(preload cat /proc/self/comm "$PREFIX/shell/a" "$PREFIX/../proc/self/comm" "/proc/..$PREFIX/shell/a")
expect_equal 'paths in and out' "$out" $'cat\none\ntwo\ncat\none\ntwo'
out=$(cd / && preload cat "${PREFIX#/}/shell/a" "./..$PREFIX/shell/b")
expect_equal 'relative paths' "$out" $'one\ntwo\nthree\nFOUR\nfive'
expect_refused 'No such file' cat "$PREFIX/shell/a"
preload ln -s /etc/passwd "$PREFIX/out"
preload cmp "$PREFIX/out" /etc/passwd
preload ln -s "$PREFIX/shell" "$PREFIX/in"
expect_equal 'a link within' "$(preload head -n 1 "$PREFIX/in/a")" one
expect_refused 'Invalid cross-device link' preload python3 -c "import os; os.rename('/etc/hostname', '$PREFIX/x')"
preload mv "$SCRATCH/listing" "$PREFIX/moved" && preload mv "$PREFIX/moved" "$SCRATCH/listing"
[[ -s $SCRATCH/listing ]] || fail 'what was moved there and back is empty'

# Signals: blocked as before in what is run, and handlers are the program's.
# shellcheck disable=SC2016 # Perl's.
blocked='$SIG{INT} = sub {}; exec "grep", "SigBlk", "/proc/self/status"'
# shellcheck disable=SC2016
out=$(preload bash -c 'cd "$1" && exec perl -e "$2"' - "$PREFIX/shell" "$blocked")
expect_equal 'signals that are blocked by exec' "$out" $'SigBlk:\t0000000000000000'
cat >"$SCRATCH/calls.c" <<'C'
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
static int log_file;
static volatile int came, failed;
static void handler(int signal)
{
    failed += write(log_file, &signal, 1) != 1;
    came++;
}
static int gives(int error, long answer)
{
    return answer == -1 && errno == error;
}
static void *as_nobody(void *allowed)
{
    syscall(SYS_setresuid, 65534, 65534, 65534);
    return gives(EACCES, open("calls", O_RDONLY)) ? 0 : allowed;
}
#define EXPECT(what) do { if (!(what)) { printf("not so: %s\n", #what); return 1; } } while (0)
int main(int argc, char **argv)
{
    void *volatile nowhere = 0;
    struct stat stat_of;
    int file = open("calls", O_RDWR | O_CREAT | O_TRUNC, 0600);
    log_file = open("log", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    EXPECT(!sigaction(SIGALRM, &action, 0) && !setitimer(ITIMER_REAL, &often, 0));
    while (came < 50)
        EXPECT(pwrite(file, "x", 1, 0) == 1);
    EXPECT(!setitimer(ITIMER_REAL, &never, 0));
    EXPECT(!failed && !fstat(log_file, &stat_of) && stat_of.st_size == came);

    struct iovec vectors[2] = {{&stat_of, 1}, {nowhere, 1}}, endless[2] = {{&stat_of, -1}, {&stat_of, 2}};
    EXPECT(gives(EFAULT, write(file, nowhere, 100)) && gives(EFAULT, read(file, nowhere, 100)));
    EXPECT(gives(EFAULT, fstat(file, nowhere)) && read(file, nowhere, 0) == 0);
    EXPECT(gives(EFAULT, readv(file, vectors, 2)) && gives(EINVAL, readv(file, endless, 2)));

    EXPECT(!flock(file, LOCK_EX));
    pid_t child = fork();
    if (!child)
        _exit(gives(ENOLCK, flock(file, LOCK_EX | LOCK_NB)) ? 0 : 1);
    int status;
    EXPECT(waitpid(child, &status, 0) == child && !status);
    EXPECT(!flock(file, LOCK_SH) && !flock(file, LOCK_UN) && gives(ENOLCK, flock(file, LOCK_EX)));

    if (!geteuid()) {
        setfsuid(65534);
        EXPECT(gives(EACCES, open("calls", O_RDONLY)));
        setfsuid(0);
        EXPECT(open("calls", O_RDONLY) >= 0);
        /* By the system call itself only the thread that makes it has another user. */
        pthread_t thread;
        void *allowed = &thread;
        EXPECT(!pthread_create(&thread, 0, as_nobody, allowed) && !pthread_join(thread, &allowed) && !allowed);
        EXPECT(open("calls", O_RDONLY) >= 0);
        EXPECT(!setuid(65534) && gives(EACCES, open("calls", O_RDONLY)));
    }
    return 0;
}
C
cc -O1 -o "$SCRATCH/calls" "$SCRATCH/calls.c"
# shellcheck disable=SC2016 # The inner shell's.
out=$(preload bash -c 'cd "$1" && exec "$2"' - "$PREFIX/shell" "$SCRATCH/calls" 2>&1) || fail "calls: $out"
if [[ $EUID -eq 0 ]]; then
    out=$(preload python3 -c "
import os, threading
changed = threading.Event()
def work():
    open('$PREFIX/shell/calls').close()
    began.set()
    changed.wait()
    try: open('$PREFIX/shell/calls')
    except PermissionError: print('refused')
began = threading.Event()
thread = threading.Thread(target=work)
thread.start(); began.wait(); os.setuid(65534); changed.set(); thread.join()")
    expect_equal 'another thread, once the user has changed' "$out" refused
fi
say 'signals, null pointers, locks after a fork and changes of the user are as they are to be'

# Children that their parent waits for: what they could not do it is told.
cat >"$SCRATCH/children.c" <<'C'
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static int failed;
#define EXPECT(what) do { if (!(what)) { printf("not so: %s\n", #what); failed = 1; } } while (0)
static int spawn(const char *program)
{
    char *arguments[] = {"program", "-c", "exit 5", 0};
    pid_t child = -1;
    int error = posix_spawn(&child, program, 0, 0, arguments, environ), status = -1;
    if (!error)
        return waitpid(child, &status, 0) == child && WIFEXITED(status) ? -WEXITSTATUS(status) : 1000;
    return waitpid(-1, &status, WNOHANG) == -1 && errno == ECHILD ? error : 2000;
}
static void *spawns(void *unused)
{
    EXPECT(spawn("none") == ENOENT && spawn("/none") == ENOENT);
    EXPECT(spawn("empty") == EACCES && spawn(".") == EACCES && spawn("words") == ENOEXEC);
    EXPECT(spawn("/bin/sh") == -5 && spawn("sh") == -5);
    return unused;
}
static int by_vfork(const char *program)
{
    volatile int error = 0;
    pid_t child = vfork();
    if (!child) {
        execl(program, program, "-c", "exit 5", (char *)0);
        error = errno;
        _exit(1);
    }
    int status;
    waitpid(child, &status, 0);
    return error ? error : -WEXITSTATUS(status);
}
int main(void)
{
    pthread_t thread;
    spawns(0);
    EXPECT(!pthread_create(&thread, 0, spawns, 0) && !pthread_join(thread, 0));
    EXPECT(by_vfork("none") == ENOENT && by_vfork("/none") == ENOENT && by_vfork("sh") == -5);
    /* The parent goes on when the child is another program, and not only at its end. */
    int ends[2];
    char *arguments[] = {"cat", 0}, byte;
    pid_t child;
    posix_spawn_file_actions_t actions;
    EXPECT(!pipe2(ends, O_CLOEXEC) && !posix_spawn_file_actions_init(&actions));
    EXPECT(!posix_spawn_file_actions_adddup2(&actions, ends[0], 0));
    EXPECT(!posix_spawn_file_actions_addopen(&actions, 1, "by-cat", O_WRONLY | O_CREAT | O_TRUNC, 0600));
    EXPECT(!posix_spawnp(&child, "cat", &actions, 0, arguments, environ));
    EXPECT(write(ends[1], "x", 1) == 1 && !close(ends[1]) && waitpid(child, 0, 0) == child);
    int file = open("by-cat", O_RDONLY);
    EXPECT(read(file, &byte, 1) == 1 && byte == 'x');
    return failed;
}
C
cc -O1 -o "$SCRATCH/children" "$SCRATCH/children.c"
children='cp /bin/sh sh && : >empty && echo words >words && chmod +x words && exec "$2"'
mkdir "$SCRATCH/children.here"
# shellcheck disable=SC2016 # The inner shell's.
for here in "$SCRATCH/children.here" "$PREFIX/shell"; do
    out=$(preload bash -c 'cd "$1" && '"$children" - "$here" "$SCRATCH/children" 2>&1) || fail "children in $here: $out"
done
expect_refused 'No such file' preload make -s -f - <<<'all: ; @not-there'
say 'parents of posix_spawn and vfork are told what failed'

# A script whose interpreter is a symbolic link out of the file system, as in a virtual environment.
# shellcheck disable=SC2016 # The inner shell's.
out=$(preload bash -c 'cd "$1" && ln -s /bin/cat interpreter && printf "#!%s\nwords\n" "$1/interpreter" >by-link &&
    chmod +x by-link && env ./by-link' - "$PREFIX/shell")
expect_equal 'a script by a link' "$out" "#!$PREFIX/shell/interpreter"$'\nwords'

# What is counted.
out=$(PANDOFS_PRELOAD_REPORT=1 preload cat "$PREFIX/shell/a" 2>&1 >/dev/null)
expect_contains 'the report' "$out" 'PandoFS: read '
expect_contains 'the report' "$out" 'openat 1'
expect_contains 'the report' "$out" 'kernel: write 1'
say "$(sed -n 's/.*PandoFS: /cat: /p' <<<"$out")"

# What cannot be had.
expect_refused 'shared mapping' preload python3 -c "import mmap; f = open('$PREFIX/shell/a', 'r+'); mmap.mmap(f.fileno(), 0)"
expect_refused 'No such device' preload python3 -c "import mmap; f = open('$PREFIX/shell/a', 'r+'); mmap.mmap(f.fileno(), 0)"
expect_refused 'No locks available' preload bash -c "exec 9>$PREFIX/lock; flock 9"
preload flock "$PREFIX/lock" true || fail 'flock by one process'
# shellcheck disable=SC2016 # The inner shell's.
expect_refused 'without LD_PRELOAD' preload bash -c 'env -u LD_PRELOAD cat <"$1"' - "$PREFIX/shell/a"
# Its own mount can have a shared mapping.
mapped=$(LD_PRELOAD=$SCRATCH/lib/libpandofs-preload.so PANDOFS_PRELOAD_PREFIX=$MNT python3 -c "
import mmap
f = open('$MNT/shell/a', 'r+'); m = mmap.mmap(f.fileno(), 0); m[0:3] = b'ONE'; m.flush(); print(m[:7])")
expect_equal 'a shared mapping by the mount' "$mapped" "b'ONE\\ntwo'"
expect_equal 'what it left' "$(head -n 1 "$MNT/shell/a")" ONE
# The only one that is mounted, whatever others run beside it.
alone=()
[[ $(id -u) -ne 0 ]] || alone=(unshare --mount)
# shellcheck disable=SC2016
out=$("${alone[@]}" bash -c '
    [[ $(id -u) -ne 0 ]] || findmnt -rno TARGET -t fuse.pandofs | grep -vxF "$1" | xargs -r -d "\n" umount --lazy
    cd "$1/shell" && LD_PRELOAD=$2 PANDOFS_PRELOAD_REPORT=1 cat a 2>&1' - "$MNT" "$SCRATCH/lib/libpandofs-preload.so")
expect_contains 'below the mount by its entry' "$out" 'PandoFS: read '

# Few descriptors.
# shellcheck disable=SC2016
out=$(preload bash -c 'ulimit -n 24; cat "$1"/coreutils/a/numbers | tail -n 1; ls "$1"/coreutils | wc -l' - "$PREFIX")
expect_contains 'with few descriptors' "$out" 20000
out=$(preload python3 -c "
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
files = []
try:
    while True: files.append(open('$PREFIX/shell/a'))
except OSError as e: print(e.errno, len(files) > 20)
for f in files: f.close()
print(open('$PREFIX/shell/b').readline().strip())")
expect_equal 'without descriptors' "$out" $'24 True\nthree'
check_online

# A server that is gone: an error, not for ever.
begun=$SECONDS
kill_cluster
expect_refused 'Input/output error' env PANDOFS_PRELOAD_TIMEOUT_MS=2000 \
    bash -c "LD_PRELOAD=$SCRATCH/lib/libpandofs-preload.so PANDOFS_PRELOAD_PREFIX=$PREFIX PANDOFS_CLUSTER=$DATA/cluster.json cat $PREFIX/shell/a"
expect_below 'seconds without servers' $((SECONDS - begun)) 30
say 'without servers it is an error'
