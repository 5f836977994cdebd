use super::*;
use crate::import::drive::import;
use crate::import::{Form, ImportError, Imported};
use crate::recording::{Schedule, Step};
use crate::{AnyTrace, Op};
use std::collections::BTreeMap;
use std::io::Cursor;

fn options() -> StraceOptions {
    StraceOptions {
        below: b"/w".to_vec(),
        directory: None,
        umask: 0o022,
    }
}

fn imported(lines: &[&str]) -> (Imported, Schedule) {
    imported_with(&options(), lines)
}

fn imported_with(options: &StraceOptions, lines: &[&str]) -> (Imported, Schedule) {
    let text = lines
        .iter()
        .zip(10..)
        .map(|(line, at)| match line.split_once(' ') {
            // The number of the process, a time, and the rest.
            Some((process, rest)) => format!("{process}  1700000000.0000{at} {rest}\n"),
            None => format!("{line}\n"),
        });
    let (imported, bytes) = recording(options, &text.collect::<String>()).unwrap();
    match AnyTrace::read(&bytes[..]).unwrap() {
        AnyTrace::Recording(schedule) => (imported, schedule),
        AnyTrace::Trace(_) => panic!("no recording"),
    }
}

fn recording(options: &StraceOptions, text: &str) -> Result<(Imported, Vec<u8>), ImportError> {
    let mut bytes = Vec::new();
    let form = Form::Strace(options.clone());
    let imported = import(&form, &mut Cursor::new(text), &mut bytes, &mut |_| {})?;
    Ok((imported, bytes))
}

/// An operation in a few words: what is not told is not there.
fn words(op: &Op, error: Option<i32>) -> String {
    let mut text = format!(
        "{} {}",
        op.op,
        if op.path.is_empty() { "/" } else { &op.path }
    );
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text += &format!(" {name}{value}");
        }
    };
    add("to ", op.to.clone());
    add("mode ", op.mode.map(|mode| format!("{mode:o}")));
    add("at ", op.offset.map(|offset| offset.to_string()));
    add("bytes ", (op.bytes > 0).then(|| op.bytes.to_string()));
    add("size ", op.size.map(|size| size.to_string()));
    add("uid ", op.uid.map(|uid| uid.to_string()));
    add("gid ", op.gid.map(|gid| gid.to_string()));
    add("times", op.times.then(String::new));
    add("exclusive", op.exclusive.then(String::new));
    add("name ", op.name.clone());
    add("error ", error.map(|error| error.to_string()));
    text
}

fn prepared(schedule: &Schedule) -> Vec<String> {
    schedule.prepare.iter().map(|op| words(op, None)).collect()
}

fn steps(schedule: &Schedule) -> Vec<String> {
    let of = |step: &Step| format!("{}: {}", step.client, words(&step.op, step.error));
    schedule.steps.iter().map(of).collect()
}

fn left(imported: &Imported) -> Vec<String> {
    let all = imported.left_out.iter();
    let all = all.flat_map(|(why, counts)| {
        counts
            .iter()
            .map(move |(name, count)| format!("{why} {name} {count}"))
    });
    all.collect()
}

#[test]
fn files_and_directories_are_made_written_moved_and_removed() {
    let (imported, schedule) = imported(&[
        r#"1 mkdir("d", 0777) = 0 <0.000001>"#,
        r#"1 umask(077) = 022"#,
        r#"1 openat(AT_FDCWD, "d/f", O_WRONLY|O_CREAT|O_TRUNC, 0666) = 3"#,
        r#"1 write(3, "hello"..., 700) = 700"#,
        r#"1 pwrite64(3, "x", 1, 2000) = 1"#,
        r#"1 lseek(3, 100, SEEK_SET) = 100"#,
        r#"1 write(3, "yy", 2) = 2"#,
        r#"1 close(3) = 0"#,
        r#"1 open("/w/d/f", O_WRONLY|O_APPEND) = 3"#,
        r#"1 write(3, "z", 1) = 1"#,
        r#"1 ftruncate(3, 5) = 0"#,
        r#"1 fchmod(3, 0640) = 0"#,
        r#"1 utimensat(3, NULL, NULL, 0) = 0"#,
        r#"1 close(3) = 0"#,
        r#"1 rename("d/f", "d/g") = 0"#,
        r#"1 link("d/g", "d/h") = 0"#,
        r#"1 symlink("../d", "d/s") = 0"#,
        r#"1 mknodat(AT_FDCWD, "p", S_IFIFO|0666) = 0"#,
        r#"1 fchownat(AT_FDCWD, "d/h", 7, -1, AT_SYMLINK_NOFOLLOW) = 0"#,
        r#"1 unlinkat(AT_FDCWD, "d/s/g", 0) = 0"#,
        r#"1 setxattr("d/h", "user.a", "xyz", 3, 0) = 0"#,
        r#"1 rmdir("d") = -1 ENOTEMPTY (Directory not empty)"#,
    ]);
    let wanted = [
        "0: mkdir d mode 755",
        "0: create d/f mode 600",
        "0: write d/f at 0 bytes 700",
        "0: write d/f at 2000 bytes 1",
        "0: write d/f at 100 bytes 2",
        "0: open d/f",
        "0: write d/f bytes 1",
        "0: setattr d/f size 5",
        "0: setattr d/f mode 640",
        "0: setattr d/f times",
        "0: rename d/f to d/g",
        "0: link d/g to d/h",
        "0: symlink d/s bytes 4",
        "0: mknod p mode 600 name fifo",
        "0: setattr d/g uid 7",
        "0: unlink d/g",
        "0: setxattr d/h bytes 3 name user.a",
        "0: rmdir d error 39",
    ];
    assert_eq!(steps(&schedule), wanted);
    assert_eq!(prepared(&schedule), [""; 0]);
    assert_eq!(left(&imported), [""; 0]);
    assert!(!schedule.cut_short && !imported.cut_short);
}

#[test]
fn what_was_there_before_is_made_before() {
    let (_, schedule) = imported(&[
        // Only later is it told how long it is, and that one is a directory.
        r#"1 openat(AT_FDCWD, "old", O_RDONLY) = 3"#,
        r#"1 newfstatat(3, "", {st_mode=S_IFREG|0644, st_size=50, ...}, AT_EMPTY_PATH) = 0"#,
        r#"1 openat(AT_FDCWD, "dir", O_RDONLY) = 4"#,
        r#"1 getdents64(4, 0x55 /* 3 entries */, 32768) = 72"#,
        r#"1 getdents64(4, 0x55 /* 0 entries */, 32768) = 0"#,
        r#"1 openat(4, "in/it", O_RDWR|O_CREAT, 0600) = 5"#,
        r#"1 lstat("link", {st_mode=S_IFLNK|0777, st_size=3, ...}) = 0"#,
        r#"1 readlink("link", "dir", 99) = 3"#,
        r#"1 stat("link/in", {st_mode=S_IFDIR|0755, st_size=4096, ...}) = 0"#,
        r#"1 read(3, ""..., 4096) = 50"#,
    ]);
    assert_eq!(
        prepared(&schedule),
        [
            "create old size 50",
            "mkdir dir",
            "mkdir dir/in",
            "symlink link bytes 3"
        ]
    );
    assert_eq!(
        steps(&schedule),
        [
            "0: lookup old",
            "0: open old",
            "0: stat old",
            "0: lookup dir",
            "0: readdir dir",
            "0: lookup dir/in",
            "0: create dir/in/it mode 600",
            "0: lookup link",
            "0: stat link",
            "0: readlink link",
            "0: stat dir/in",
            "0: read old at 0 bytes 4096",
        ]
    );
}

#[test]
fn what_failed_fails_again_and_what_is_elsewhere_is_counted() {
    let (imported, schedule) = imported(&[
        r#"1 stat("missing", 0x7ff) = -1 ENOENT (No such file or directory)"#,
        r#"1 stat("missing/deeper/x", 0x7ff) = -1 ENOENT (No such file or directory)"#,
        r#"1 open("missing", O_RDONLY) = -1 ENOENT (No such file or directory)"#,
        r#"1 open("there", O_RDWR|O_CREAT|O_EXCL, 0600) = -1 EEXIST (File exists)"#,
        r#"1 mkdir("there", 0700) = -1 EEXIST (File exists)"#,
        r#"1 unlink("forbidden") = -1 EACCES (Permission denied)"#,
        r#"1 open("/etc/passwd", O_RDONLY) = 3"#,
        r#"1 read(3, "root"..., 4096) = 900"#,
        r#"1 read(0, "x", 1) = 1"#,
        r#"1 close(3) = 0"#,
        r#"1 access("../w/there", R_OK) = 0"#,
        r#"1 open("there", O_RDWR) = 3"#,
        r#"1 fsync(3) = 0"#,
        r#"1 flock(3, LOCK_EX) = 0"#,
        r#"1 ioctl(3, TCGETS, 0x7ff) = -1 ENOTTY (Inappropriate ioctl for device)"#,
        r#"1 getpid() = 1"#,
        r#"1 futex(0x7f, FUTEX_WAIT, 2, NULL) = ? ERESTARTSYS (To be restarted)"#,
        r#"1 exit_group(0) = ?"#,
    ]);
    assert_eq!(
        steps(&schedule),
        [
            "0: lookup missing error 2",
            "0: lookup missing error 2",
            "0: lookup missing error 2",
            "0: lookup there",
            "0: create there error 17",
            "0: mkdir there mode 700 error 17",
            "0: lookup there",
            "0: open there",
        ]
    );
    assert_eq!(
        left(&imported),
        [
            "failed-otherwise ioctl 1",
            "failed-otherwise unlink 1",
            "interrupted futex 1",
            "no-counterpart flock 1",
            "no-counterpart fsync 1",
            "no-file getpid 1",
            "outside open 1",
            "outside read 2",
        ]
    );
}

#[test]
fn children_have_what_their_parents_had() {
    let (_, schedule) = imported(&[
        r#"1 mkdir("a", 0755) = 0"#,
        r#"1 chdir("a") = 0"#,
        r#"1 openat(AT_FDCWD, "log", O_WRONLY|O_CREAT|O_APPEND|O_CLOEXEC, 0644) = 3"#,
        r#"1 openat(AT_FDCWD, "out", O_WRONLY|O_CREAT, 0644) = 4"#,
        // Its line comes before the call that makes it has returned.
        r#"1 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD <unfinished ...>"#,
        r#"2 write(4, "abc", 3) = 3"#,
        r#"1 <... clone resumed>, child_tidptr=0x7f) = 2"#,
        r#"2 chdir("..") = 0"#,
        r#"2 mkdir("b", 0755) = 0"#,
        r#"2 dup2(4, 9) = 9"#,
        r#"2 execve("/bin/sh", ["sh"], 0x7f /* 9 vars */) = 0"#,
        r#"2 write(9, "d", 1) = 1"#,
        r#"2 write(3, "lost", 4) = 4"#,
        // A thread shares all of it.
        r#"1 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_THREAD, stack=0x7f}, 88) = 3"#,
        r#"3 chdir("..") = 0"#,
        r#"3 close(4) = 0"#,
        r#"1 mkdir("c", 0755) = 0"#,
        r#"1 write(4, "gone", 4) = 4"#,
        r#"2 +++ exited with 0 +++"#,
        r#"1 --- SIGCHLD {si_signo=SIGCHLD, si_pid=2} ---"#,
        r#"1 fcntl(3, F_DUPFD_CLOEXEC, 10) = 11"#,
        r#"1 write(11, "e", 1) = 1"#,
    ]);
    assert_eq!(
        steps(&schedule),
        [
            "0: mkdir a mode 755",
            "0: create a/log mode 644",
            "0: create a/out mode 644",
            "1: write a/out at 0 bytes 3",
            "1: mkdir b mode 755",
            "1: write a/out at 3 bytes 1",
            "0: mkdir c mode 755",
            "0: write a/log bytes 1",
        ]
    );
}

#[test]
fn lines_of_children_wait_until_it_is_known_whose_they_are() {
    let (imported, schedule) = imported(&[
        r#"1 mkdir("a", 0755) = 0"#,
        r#"1 vfork( <unfinished ...>"#,
        r#"2 chdir("a") = 0"#,
        r#"1 <... vfork resumed>) = 2"#,
        r#"1 fork( <unfinished ...>"#,
        r#"2 fork( <unfinished ...>"#,
        r#"4 mkdir("of-2", 0755 <unfinished ...>"#,
        r#"3 mkdir("of-1", 0755) = 0"#,
        r#"1 <... fork resumed>) = 3"#,
        // Now it can be nobody else's.
        r#"4 <... mkdir resumed>) = 0"#,
        r#"2 <... fork resumed>) = 4"#,
        r#"9 mkdir("attached", 0755) = 0"#,
    ]);
    let mut steps: Vec<String> = steps(&schedule);
    steps
        .iter_mut()
        .for_each(|step| *step = step.split_once(": ").unwrap().1.to_owned());
    assert_eq!(
        steps,
        [
            "mkdir a mode 755",
            "mkdir of-1 mode 755",
            "mkdir a/of-2 mode 755",
            "mkdir attached mode 755"
        ]
    );
    assert_eq!(imported.left_out, BTreeMap::new());
}

#[test]
fn with_paths_of_descriptors_links_and_earlier_openings_are_known() {
    let (_, schedule) = imported(&[
        r#"1 openat(AT_FDCWD</w/deep/down>, "f", O_RDONLY) = 3</w/deep/down/f>"#,
        r#"1 stat("g", {st_mode=S_IFREG|0644, st_size=1, ...}) = 0"#,
        // A link elsewhere leads into the tree.
        r#"1 open("/elsewhere/link", O_WRONLY|O_CREAT, 0600) = 4</w/deep/new\40one>"#,
        r#"1 write(7</w/log>, "x", 1) = 1"#,
        r#"1 fsync(5<socket:[99]>) = -1 EINVAL (Invalid argument)"#,
        r#"1 pread64(3</w/deep/down/f>(deleted), ""..., 10, 5) = 10"#,
    ]);
    assert_eq!(
        prepared(&schedule),
        [
            "mkdir deep",
            "mkdir deep/down",
            "create deep/down/f size 15",
            "create deep/down/g size 1",
            "create log size 0"
        ]
    );
    let steps = steps(&schedule);
    let steps: Vec<&str> = steps
        .iter()
        .map(|step| step.split_once(": ").unwrap().1)
        .collect();
    let without_lookups: Vec<&&str> = steps
        .iter()
        .filter(|step| !step.starts_with("lookup"))
        .collect();
    assert_eq!(
        without_lookups,
        [
            &"open deep/down/f",
            &"stat deep/down/g",
            &"create deep/new one mode 600",
            &"write log at 0 bytes 1",
            &"read deep/down/f at 5 bytes 10",
        ]
    );
}

#[test]
fn names_may_be_anything_and_paths_may_wander() {
    let (imported, schedule) = imported(&[
        r#"1 mkdir("sp ace\n", 0755) = 0"#,
        r#"1 mkdir("sp ace\n/\303\244\377\\", 0755) = 0"#,
        r#"1 mkdir("./sp ace\n/.././/up", 0755) = 0"#,
        r#"1 mkdir("../../w/../w/up/again/", 0755) = 0"#,
        r#"1 mkdir("../x/y", 0755) = 0"#,
        r#"1 symlink("up", "s") = 0"#,
        r#"1 symlink("/w/s/again", "t") = 0"#,
        r#"1 mkdir("t/in", 0755) = 0"#,
        r#"1 symlink("loop", "loop") = 0"#,
        r#"1 stat("loop", 0x7f) = -1 ELOOP (Too many levels of symbolic links)"#,
    ]);
    assert_eq!(
        steps(&schedule),
        [
            "0: mkdir sp ace\n mode 755",
            "0: mkdir sp ace\n/ä\\xff\\\\ mode 755",
            "0: mkdir up mode 755",
            "0: mkdir up/again mode 755",
            "0: symlink s bytes 2",
            "0: symlink t bytes 10",
            "0: mkdir up/again/in mode 755",
            "0: symlink loop bytes 4",
        ]
    );
    assert_eq!(
        left(&imported),
        ["failed-otherwise stat 1", "outside mkdir 1"]
    );
}

#[test]
fn copies_exchanges_and_files_without_names() {
    let (_, schedule) = imported(&[
        r#"1 openat(AT_FDCWD, "a", O_RDWR|O_CREAT|O_EXCL, 0600) = 3"#,
        r#"1 openat(AT_FDCWD, "b", O_RDWR|O_CREAT|O_EXCL, 0600) = 4"#,
        r#"1 write(3, "0123456789", 10) = 10"#,
        r#"1 copy_file_range(3, [2], 4, NULL, 5, 0) = 5"#,
        r#"1 sendfile(4, 3, [1] => [4], 3) = 3"#,
        r#"1 renameat2(AT_FDCWD, "a", AT_FDCWD, "b", RENAME_EXCHANGE) = 0"#,
        r#"1 renameat2(AT_FDCWD, "a", AT_FDCWD, "c", RENAME_NOREPLACE) = 0"#,
        r#"1 openat(AT_FDCWD, ".", O_RDWR|O_TMPFILE, 0600) = 5"#,
        r#"1 write(5, "x", 1) = 1"#,
        r#"1 unlink("b") = 0"#,
        r#"1 write(3, "after", 5) = 5"#,
        r#"1 fallocate(4, 0, 10, 90) = 0"#,
        r#"1 rename("c", "/elsewhere") = 0"#,
        r#"1 rename("/elsewhere", "d") = 0"#,
        r#"1 unlink("d") = 0"#,
    ]);
    assert_eq!(
        steps(&schedule),
        [
            "0: create a mode 600",
            "0: create b mode 600",
            "0: write a at 0 bytes 10",
            "0: read a at 2 bytes 5",
            "0: write b at 0 bytes 5",
            "0: read a at 1 bytes 3",
            "0: write b at 5 bytes 3",
            "0: exchange a to b",
            "0: rename a to c exclusive",
            "0: unlink b",
            "0: allocate c size 100",
            "0: unlink c",
            "0: lookup d",
            "0: unlink d",
        ]
    );
    assert_eq!(prepared(&schedule), ["create d size 0"]);
    let unnamed: u64 = schedule.left_out.values().sum();
    assert_eq!(unnamed, 3, "a creation and two writes");
}

#[test]
fn lines_that_make_no_sense_are_told_with_their_number() {
    let good = "1 1700000000.000001 close(3) = 0\n";
    for (bad, wanted) in [
        (
            "1 1700000000.000002 close(3\n",
            "line 2: neither a call nor a signal",
        ),
        ("1 close(3) = 0\n", "line 2: no time stamp"),
        (
            "1 1700000000.000002 <... read resumed>) = 0\n",
            "line 2: the rest of a call of read",
        ),
        (
            "1 1700000000.000002 mkdir(\"a\\q\", 0700) = 0\n",
            "line 2: a string with a backslash",
        ),
        (
            "1 1700000000.000002 mkdir() = 0\n",
            "line 2: a call with arguments",
        ),
        (
            "1 1700000000.000002 close(3) = what\n",
            "line 2: a call whose result",
        ),
    ] {
        let error = recording(&options(), &format!("{good}{bad}")).unwrap_err();
        assert!(error.to_string().starts_with(wanted), "{error}");
    }
    let long = format!(
        "{good}1 1700000000.000002 write(1, \"{}\", 1) = 1\n",
        "x".repeat(MAX_IMPORT_LINE_BYTES)
    );
    let error = recording(&options(), &long).unwrap_err().to_string();
    assert_eq!(error, "line 2: more than 1048576 bytes in a line");
    let relative = StraceOptions {
        below: b"w".to_vec(),
        ..options()
    };
    let error = recording(&relative, good).unwrap_err().to_string();
    assert!(error.contains("absolute path"), "{error}");
}

#[test]
fn a_trace_that_was_cut_makes_a_recording_that_was_cut() {
    // The second one makes sense as it is, and may have been the beginning of another error.
    for end in [
        "1 1700000000.000002 mkdir(\"b",
        "1 1700000000.000002 mkdir(\"b\", 0700) = 0",
    ] {
        let text = format!("1 1700000000.000001 mkdir(\"a\", 0700) = 0\n{end}");
        let (imported, bytes) = recording(&options(), &text).unwrap();
        assert!(imported.cut_short);
        let AnyTrace::Recording(schedule) = AnyTrace::read(&bytes[..]).unwrap() else {
            panic!("no recording");
        };
        assert!(schedule.cut_short);
        assert_eq!(steps(&schedule), ["0: mkdir a mode 700"]);
    }
}

#[test]
fn times_are_those_of_calls_and_overlap_as_they_did() {
    let text = "\
1 1700000000.000100 mkdir(\"a\", 0700 <unfinished ...>
2 1700000000.000110 mkdir(\"b\", 0700) = 0 <0.000020>
1 1700000000.000150 <... mkdir resumed>) = 0 <0.000045>
";
    let (_, bytes) = recording(&options(), text).unwrap();
    let AnyTrace::Recording(schedule) = AnyTrace::read(&bytes[..]).unwrap() else {
        panic!("no recording");
    };
    let times: Vec<(u64, u64)> = schedule
        .steps
        .iter()
        .map(|step| (step.start, step.end))
        .collect();
    assert_eq!(
        times,
        [(10_000, 30_000), (0, 45_000)],
        "ends are in the order of lines"
    );
}

#[test]
fn the_directory_to_import_below_may_be_the_root_and_the_first_process_elsewhere() {
    let everything = StraceOptions {
        below: b"/".to_vec(),
        directory: Some(b"/home/./u/../v".to_vec()),
        umask: 0,
    };
    let (_, schedule) = imported_with(
        &everything,
        &[r#"1 mkdir("a", 0777) = 0"#, r#"1 mkdir("/b", 0777) = 0"#],
    );
    assert_eq!(prepared(&schedule), ["mkdir home", "mkdir home/v"]);
    let last = steps(&schedule).split_off(2);
    assert_eq!(last, ["1: mkdir home/v/a mode 777", "1: mkdir b mode 777"]);
}
