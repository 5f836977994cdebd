use super::message::{Key, parse};
use crate::AnyTrace;
use crate::import::drive::import;
use crate::import::{Form, ImportError, Imported};
use crate::recording::Schedule;
use std::io::Cursor;

/// Lines of calls and replies, each a microsecond after the other.
fn imported(messages: &[&str]) -> (Imported, Schedule) {
    let lines = messages.iter().zip(100..).map(|(message, at)| {
        let (direction, rest) = message.split_once(' ').unwrap();
        let ends = match direction.starts_with('C') {
            true => "31.03fe 30.0801 U",
            false => "30.0801 31.03fe U",
        };
        let tail = match direction.starts_with('C') {
            true => "con = 82 len = 97",
            false => "status=0 pl = 70 con = 82 len = 97",
        };
        format!("1034787618.000{at} {ends} {direction} {rest} {tail}\n")
    });
    read(&lines.collect::<String>()).unwrap()
}

fn read(text: &str) -> Result<(Imported, Schedule), ImportError> {
    let mut bytes = Vec::new();
    let imported = import(
        &Form::Nfsdump,
        &mut Cursor::new(text),
        &mut bytes,
        &mut |_| {},
    )?;
    match AnyTrace::read(&bytes[..]).unwrap() {
        AnyTrace::Recording(schedule) => Ok((imported, schedule)),
        AnyTrace::Trace(_) => panic!("no recording"),
    }
}

fn words(schedule: &Schedule) -> (Vec<String>, Vec<String>) {
    let of = |op: &crate::Op, error: Option<i32>| {
        let mut text = format!("{} {}", op.op, op.path);
        for (name, value) in [
            ("to", op.to.clone()),
            ("mode", op.mode.map(|mode| format!("{mode:o}"))),
            ("at", op.offset.map(|offset| offset.to_string())),
            ("bytes", (op.bytes > 0).then(|| op.bytes.to_string())),
            ("size", op.size.map(|size| size.to_string())),
            ("error", error.map(|error| error.to_string())),
        ] {
            text += &value.map_or(String::new(), |value| format!(" {name} {value}"));
        }
        text
    };
    (
        schedule.prepare.iter().map(|op| of(op, None)).collect(),
        schedule
            .steps
            .iter()
            .map(|step| of(&step.op, step.error))
            .collect(),
    )
}

fn left(imported: &Imported) -> Vec<String> {
    let all = imported.left_out.iter();
    all.flat_map(|(why, counts)| {
        counts
            .iter()
            .map(move |(name, n)| format!("{why} {name} {n}"))
    })
    .collect()
}

#[test]
fn a_published_line_is_understood() {
    let line = "1034787619.051732 30.0801 45.0320 U R3 dca9f489 7 write OK pre-size aee6 pre-mtime 1034787618.455000 \
                ftype 1 mode 180 nlink 1 uid 18a9d gid 18a8d size aee6 count 1000 stable F status=0 pl = 70 con = 82 len = 97";
    let message = parse(line).unwrap();
    assert_eq!(message.time, 1_034_787_619_051_732_000);
    assert_eq!(
        message.key,
        Key {
            client: "45.0320".into(),
            server: "30.0801".into(),
            number: 0xdca9_f489
        }
    );
    assert_eq!((message.procedure, message.status), ("write", Some(0)));
    let fields = &message.fields;
    assert_eq!(
        (fields.number(&["count"]), fields.number(&["pre-size"])),
        (Some(0x1000), Some(0xaee6))
    );
    assert_eq!((fields.mode(), fields.kind()), (Some(0o600), Some('f')));
}

#[test]
fn what_a_client_did_below_directories_that_were_there_becomes_a_tree() {
    let (imported, schedule) = imported(&[
        // The handle of a directory of which no line tells where it is.
        r#"C3 1 3 lookup fh aa name "mbox""#,
        "R3 1 3 lookup OK fh b1 ftype 1 mode 180 size 64 ftype 2 mode 1ed size 1000",
        "C3 2 1 getattr fh b1",
        "R3 2 1 getattr OK ftype 1 mode 180 size 64",
        r#"C3 3 9 mkdir fh aa name "Sent\20Items" mode 1ff"#,
        "R3 3 9 mkdir OK fh c1 ftype 2 mode 1ed",
        r#"C3 4 8 create fh c1 name "mbox.lock" how U mode 1a4"#,
        "R3 4 8 create OK fh d1 ftype 1 size 0",
        "C3 5 7 write fh d1 off 10 count 20 stable U",
        "R3 5 7 write OK ftype 1 size 30 count 20 stable F",
        r#"C3 6 e rename fh c1 name "mbox.lock" fh2 aa name2 "new""#,
        "R3 6 e rename OK",
        r#"C3 7 c remove fh aa name "mbox""#,
        "R3 7 c remove OK",
        r#"C3 8 f link fh d1 fh2 c1 name "second""#,
        "R3 8 f link OK",
        "C3 9 2 setattr fh d1 size 5",
        "R3 9 2 setattr OK",
        "C3 a 11 readdirp fh aa cookie 0 count 200",
        "R3 a 11 readdirp OK eof 1",
        r#"C3 b a symlink fh c1 name "s" sdata "../there" mode 1ff"#,
        "R3 b a symlink OK fh e1 ftype 5",
        "C3 c 5 readlink fh e1",
        r#"R3 c 5 readlink OK name "../there""#,
    ]);
    let (prepared, steps) = words(&schedule);
    assert_eq!(prepared, ["mkdir fh-2", "create fh-2/mbox size 100"]);
    assert_eq!(
        steps,
        [
            "lookup fh-2",
            "lookup fh-2/mbox",
            "stat fh-2/mbox",
            "mkdir fh-2/Sent Items mode 777",
            "create fh-2/Sent Items/mbox.lock mode 644",
            "write fh-2/Sent Items/mbox.lock at 16 bytes 32",
            "rename fh-2/Sent Items/mbox.lock to fh-2/new",
            "unlink fh-2/mbox",
            "link fh-2/new to fh-2/Sent Items/second",
            "setattr fh-2/new size 5",
            "readdir fh-2",
            "symlink fh-2/Sent Items/s mode 777 bytes 8",
            "readlink fh-2/Sent Items/s",
        ]
    );
    assert_eq!(left(&imported), [""; 0]);
}

#[test]
fn a_handle_is_where_a_later_lookup_says_and_files_are_as_long_as_is_read_of_them() {
    let (_, schedule) = imported(&[
        "C2 1 6 read fh f1 offset 10 count 10 tcount 10",
        "R2 1 6 read OK count 10",
        r#"C2 2 4 lookup fh d1 fn "f""#,
        "R2 2 4 lookup OK fh f1 ftype 1 size 50",
        r#"C2 3 4 lookup fh e1 fn "d""#,
        "R2 3 4 lookup OK fh d1 ftype 2",
        // Of a file that is written first it is told how long it was.
        "C3 4 7 write fh f2 off 0 count 4",
        "R3 4 7 write OK pre-size 30 size 30 count 4",
    ]);
    let (prepared, steps) = words(&schedule);
    assert_eq!(
        prepared,
        [
            "mkdir fh-4",
            "mkdir fh-4/d",
            "create fh-4/d/f size 80",
            "create fh-5 size 48"
        ]
    );
    assert_eq!(
        steps,
        [
            "lookup fh-4",
            "lookup fh-4/d",
            "lookup fh-4/d/f",
            "read fh-4/d/f at 16 bytes 16",
            "lookup fh-4/d/f",
            "lookup fh-4/d",
            "lookup fh-5",
            "write fh-5 at 0 bytes 4",
        ]
    );
}

#[test]
fn failures_repetitions_and_losses_are_told_apart() {
    let (imported, schedule) = imported(&[
        r#"C3 1 3 lookup fh aa name "missing""#,
        "R3 1 3 lookup 2",
        r#"C3 2 d rmdir fh aa name "full""#,
        "R3 2 d rmdir 42",
        r#"C3 3 9 mkdir fh aa name "denied" mode 1ff"#,
        "R3 3 9 mkdir d",
        "C3 4 1 getattr fh b1",
        "C3 4 1 getattr fh b1",
        "R3 4 1 getattr OK ftype 1 size 4",
        "R3 4 1 getattr OK ftype 1 size 4",
        "C3 5 1 getattr fh b1",
        "C3 6 13 fsinfo fh aa",
        "R3 6 13 fsinfo OK",
        "C3 7 7 write fh b1 count 1",
        "R3 7 7 write OK count 1",
    ]);
    let (_, steps) = words(&schedule);
    assert_eq!(
        steps,
        [
            "lookup fh-2",
            "lookup fh-2/missing error 2",
            "lookup fh-2/full",
            "rmdir fh-2/full error 39",
            "lookup fh-4",
            "stat fh-4",
        ]
    );
    assert_eq!(
        left(&imported),
        [
            "call-unknown getattr 1",
            "failed-otherwise mkdir 1",
            "fields-missing write 1",
            "no-counterpart fsinfo 1",
            "reply-missing call 1",
            "sent-again getattr 1",
        ]
    );
}

#[test]
fn a_directory_that_moved_unseen_is_moved() {
    let (_, schedule) = imported(&[
        r#"C3 1 3 lookup fh aa name "d""#,
        "R3 1 3 lookup OK fh d1 ftype 2",
        r#"C3 2 3 lookup fh aa name "e""#,
        "R3 2 3 lookup OK fh d1 ftype 2",
        r#"C3 3 3 lookup fh d1 name "none""#,
        "R3 3 3 lookup 2",
    ]);
    let (prepared, steps) = words(&schedule);
    assert_eq!(prepared, ["mkdir fh-2", "mkdir fh-2/d"]);
    assert_eq!(
        steps[1..],
        [
            "lookup fh-2/d",
            "renamedir fh-2/d to fh-2/e",
            "lookup fh-2/e",
            "lookup fh-2/e/none error 2"
        ]
    );
}

#[test]
fn garbled_lines_are_counted_and_another_form_is_refused() {
    let good = "1034787618.000001 31.03fe 30.0801 U C3 1 1 getattr fh b1 con = 82 len = 97\n\
                1034787618.000002 30.0801 31.03fe U R3 1 1 getattr OK ftype 1 status=0 pl = 70 con = 82 len = 97\n";
    let garbled = "XX Funny line (1034787618.000003)\n1034787618.000004 31.03fe 30.0801 U R3C3 1\n# a comment\n\n";
    let (imported, schedule) = read(&format!("{garbled}{good}")).unwrap();
    assert_eq!(left(&imported), ["garbled line 2"]);
    assert_eq!(schedule.steps.len(), 2);
    for other in [
        "7 1700000000.000001 close(3) = 0\n",
        "\x1f\u{8b}\n",
        &"0.1 x\n".repeat(200),
    ] {
        let error = read(other).unwrap_err().to_string();
        assert!(error.contains("this is no text of nfsdump"), "{error}");
    }
}
