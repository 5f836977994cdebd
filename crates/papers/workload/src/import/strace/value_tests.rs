use super::*;

fn called(text: &str) -> (String, Vec<String>, Returned<'_>, Option<u64>) {
    let call = parse(text.as_bytes()).unwrap_or_else(|problem| panic!("{text}: {problem}"));
    let words = call
        .arguments
        .iter()
        .map(|word| String::from_utf8_lossy(word).into_owned());
    (
        call.name.to_owned(),
        words.collect(),
        call.returned,
        call.took,
    )
}

fn value<'a>(number: i64) -> Returned<'a> {
    Returned::Value(number, None)
}

/// A line, and what it is: a name, arguments, a result and a length.
type Taken<'a> = (&'a str, &'a str, &'a [&'a str], Returned<'a>, Option<u64>);

#[test]
fn calls_are_taken_apart() {
    let path =
        |number, path: &'static str| Returned::Value(number, Some(Cow::Borrowed(path.as_bytes())));
    let all: [Taken<'_>; 10] = [
        (
            r#"openat(AT_FDCWD</home/a, b>, "x,\")y", O_RDONLY|O_CLOEXEC) = 3</home/a, b/x> <0.000041>"#,
            "openat",
            &["AT_FDCWD</home/a, b>", r#""x,\")y""#, "O_RDONLY|O_CLOEXEC"],
            path(3, "/home/a, b/x"),
            Some(41_000),
        ),
        (
            "close(3)                                = 0",
            "close",
            &["3"],
            value(0),
            None,
        ),
        (
            "getpid() = 7 <0.000001>",
            "getpid",
            &[],
            value(7),
            Some(1_000),
        ),
        (
            r#"stat("a", 0x7ffd) = -1 ENOENT (No such file or directory) <1.5>"#,
            "stat",
            &[r#""a""#, "0x7ffd"],
            Returned::Error(2),
            Some(1_500_000_000),
        ),
        (
            r#"newfstatat(3, "", {st_mode=S_IFREG|0644, st_size=7, ...}, AT_EMPTY_PATH) = 0"#,
            "newfstatat",
            &[
                "3",
                r#""""#,
                "{st_mode=S_IFREG|0644, st_size=7, ...}",
                "AT_EMPTY_PATH",
            ],
            value(0),
            None,
        ),
        (
            r#"execve("/bin/a", ["a", "b)"], 0x7ff /* 35 vars, (more */) = 0"#,
            "execve",
            &[
                r#""/bin/a""#,
                r#"["a", "b)"]"#,
                "0x7ff /* 35 vars, (more */",
            ],
            value(0),
            None,
        ),
        (
            "read(3, 0x1, 5) = ? ERESTARTSYS (To be restarted)",
            "read",
            &["3", "0x1", "5"],
            Returned::Nothing,
            None,
        ),
        (
            "exit_group(0) = ?",
            "exit_group",
            &["0"],
            Returned::Nothing,
            None,
        ),
        (
            "write(1</dev/null<char 1:3>>, \"x\"..., 99) = 99",
            "write",
            &["1</dev/null<char 1:3>>", "\"x\"...", "99"],
            value(99),
            None,
        ),
        (
            "mmap(NULL, 1<<12, PROT_READ, 2, 3, 0) = 0x7f00",
            "mmap",
            &["NULL", "1<<12", "PROT_READ", "2", "3", "0"],
            value(0x7f00),
            None,
        ),
    ];
    for (text, name, words, returned, took) in all {
        let words = words.iter().map(|&word| word.to_owned()).collect();
        assert_eq!(
            called(text),
            (name.to_owned(), words, returned, took),
            "{text}"
        );
    }
}

#[test]
fn what_is_no_call_is_refused() {
    for (text, wanted) in [
        ("", Problem::NoCall),
        ("hello", Problem::NoCall),
        ("hello world(3) = 0", Problem::NoCall),
        ("close(3", Problem::NoCall),
        ("close(3) ", Problem::NoResult),
        ("close(3) = x", Problem::NoResult),
        ("close(3) = -1 EWHATEVER (Whatever)", Problem::NoResult),
        ("open(\"abc) = 0", Problem::NoCall),
        ("read(3</a, 5) = 0", Problem::NoCall),
    ] {
        assert_eq!(parse(text.as_bytes()), Err(wanted), "{text}");
    }
}

#[test]
fn strings_are_what_c_says() {
    let all: [(&str, &[u8]); 9] = [
        (r"plain", b"plain"),
        (r"\n\t\r\v\f\\\x22", b"\n\t\r\x0b\x0c\\\""),
        (r"\0", b"\0"),
        (r"\303\244", "ä".as_bytes()),
        (r"\18", b"\x018"),
        (r"\1777", b"\x7f7"),
        (r"\xc3\xa4", "ä".as_bytes()),
        (r#"\""#, b"\""),
        (r"a\74b\76", b"a<b>"),
    ];
    for (text, wanted) in all {
        assert_eq!(unescaped(text.as_bytes()).as_deref(), Ok(wanted), "{text}");
    }
    for text in [r"\", r"\q", r"\x4", r"\xg0", r"\777"] {
        assert_eq!(unescaped(text.as_bytes()), Err(Problem::Escape), "{text}");
    }
    assert_eq!(string(b"\"ab\"..."), Ok(Some((b"ab".to_vec(), false))));
    assert_eq!(string(b"\"ab\""), Ok(Some((b"ab".to_vec(), true))));
    assert_eq!(string(b"0x7ffd"), Ok(None));
}

#[test]
fn numbers_modes_flags_and_fields() {
    let numbers = ["0", "-1", "0644", "0x1f", "18446744073709551615", "x", "09"]
        .map(|text| integer(text.as_bytes()));
    assert_eq!(
        numbers,
        [
            Some(0),
            Some(-1),
            Some(0o644),
            Some(0x1f),
            Some(-1),
            None,
            None
        ]
    );
    let modes = [
        "0644",
        "S_IFIFO|0600",
        "S_IFDIR|S_ISVTX|0777",
        "S_IFREG|S_ISUID|S_ISGID|04",
        "x",
    ];
    let modes = modes.map(|text| mode(text.as_bytes()));
    assert_eq!(
        modes,
        [Some(0o644), Some(0o600), Some(0o1777), Some(0o6004), None]
    );
    assert!(has_flag(b"O_RDWR|O_CREAT", "O_CREAT"));
    assert!(!has_flag(b"O_RDWR|O_CREATE", "O_CREAT"));
    let text = b"{stx_mask=STATX_ALL, stx_mode=S_IFREG|0644, stx_size=7, my_stx_size=9}";
    assert_eq!(field(text, "stx_size"), Some(&b"7"[..]));
    assert_eq!(field(text, "stx_mode"), Some(&b"S_IFREG|0644"[..]));
    assert_eq!(field(text, "size"), None);
    assert_eq!(
        descriptor(b"AT_FDCWD</a b>").unwrap(),
        (AT_FDCWD, Some(Cow::Borrowed(&b"/a b"[..])))
    );
    assert_eq!(descriptor(b"5").unwrap(), (5, None));
    assert_eq!(descriptor(b"x").unwrap_err(), Problem::Argument);
}
