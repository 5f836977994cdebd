//! Decoders of texts that people and other programs write.

use pandofs_client::{layout_text, parse_layout};
use pandofs_placement::ClusterMap;
use pandofs_types::{Acl, Name};
use pandofs_wire::address::Address;
use pandofs_workload::{AnyTrace, Form, StraceOptions, Trace, import};
use std::io::Cursor;

/// A trace of two operations.
pub(super) const TRACE: &str = "{\"format\":1,\"clients\":1,\"prepare\":0}\n\
    {\"id\":0,\"client\":0,\"op\":\"mkdir\",\"path\":\"a\"}\n\
    {\"id\":1,\"client\":0,\"after\":[0],\"op\":\"stat\",\"path\":\"a\"}\n";

/// A recording of three operations.
pub(super) const RECORDING: &str = "{\"format\":2,\"form\":\"recording\"}\n\
    {\"start\":1,\"end\":2,\"client\":3,\"op\":\"mkdir\",\"dir\":1,\"name\":\"a\",\"is\":4,\"kind\":\"d\"}\n\
    {\"start\":3,\"end\":5,\"client\":3,\"op\":\"rename\",\"dir\":1,\"name\":\"a\",\"new_dir\":1,\"new_name\":\"b\",\"is\":4}\n\
    {\"start\":6,\"end\":7,\"client\":3,\"op\":\"readdir\",\"ino\":4,\"told\":[[\"x\",5,\"f\",0]]}\n\
    {\"ended\":3}\n";

/// What strace writes of two processes.
pub(super) const STRACE: &str = "1 1732958527.104233 mkdir(\"a\", 0777) = 0 <0.000041>\n\
    1 1732958527.104391 openat(AT_FDCWD</w>, \"a/b\\n\", O_WRONLY|O_CREAT, 0666) = 3</w/a/b\\12> <0.000052>\n\
    1 1732958527.104400 clone(child_stack=NULL, flags=SIGCHLD) = 2\n\
    1 1732958527.104512 write(3, \"x\"..., 4096 <unfinished ...>\n\
    2 1732958527.104530 stat(\"none\", 0x7ffd6ab2) = -1 ENOENT (No such file or directory)\n\
    1 1732958527.104601 <... write resumed>) = 4096 <0.000089>\n\
    2 1732958527.104602 rename(\"a/b\\n\", \"/w/c\") = 0\n\
    2 1732958527.104603 +++ exited with 0 +++\n";

/// What nfsdump writes of two calls.
pub(super) const NFSDUMP: &str = "1034787618.376464 31.03fe 30.0801 U C3 1 3 lookup fh 6189 name \"a\" con = 82 len = 97\n\
    1034787618.376561 30.0801 31.03fe U R3 1 3 lookup OK fh 9532 ftype 1 size 40 status=0 pl = 0 con = 70 len = 70\n\
    1034787618.376562 31.03fe 30.0801 U C3 2 e rename fh 6189 name \"a\" fh2 6189 name2 \"b\" con = 82 len = 97\n\
    1034787618.376563 30.0801 31.03fe U R3 2 e rename OK status=0 pl = 0 con = 70 len = 70\n";

pub(super) fn cluster_file(bytes: &[u8]) -> bool {
    let Ok(map) = std::str::from_utf8(bytes)
        .map_err(|_| ())
        .and_then(|text| ClusterMap::from_json(text).map_err(|_| ()))
    else {
        return false;
    };
    assert_eq!(ClusterMap::from_json(&map.to_json()).as_ref(), Ok(&map));
    true
}

pub(super) fn trace(bytes: &[u8]) -> bool {
    let Ok(trace) = Trace::read(bytes) else {
        return false;
    };
    let mut written = Vec::new();
    if trace.write(&mut written).is_ok() {
        assert_eq!(Trace::read(&*written).ok(), Some(trace));
    }
    true
}

/// A recording is replayed as it is read, and not written again: no path of it leads out of the
/// folder of the replay.
pub(super) fn recording(bytes: &[u8]) -> bool {
    let Ok(AnyTrace::Recording(read)) = AnyTrace::read(bytes) else {
        return false;
    };
    let ops = read.steps.iter().map(|step| &step.op);
    assert!(
        ops.chain(&read.prepare)
            .all(pandofs_workload::Op::stays_below)
    );
    true
}

/// What a trace of another program becomes is a recording that can be read.
fn imported(form: &Form, bytes: &[u8]) -> bool {
    let mut made = Vec::new();
    let Ok(done) = import(form, &mut Cursor::new(bytes), &mut made, &mut |_| {}) else {
        return false;
    };
    assert!(recording(&made), "it cannot be read");
    let lines = made
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    let ends = if done.cut_short { 1 } else { 2 };
    assert_eq!(lines.count() as u64, done.operations + ends);
    true
}

pub(super) fn strace(bytes: &[u8]) -> bool {
    let options = StraceOptions {
        below: b"/w".to_vec(),
        directory: None,
        umask: 0o022,
    };
    imported(&Form::Strace(options), bytes)
}

pub(super) fn nfsdump(bytes: &[u8]) -> bool {
    imported(&Form::Nfsdump, bytes)
}

pub(super) fn address(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    match text.parse::<Address>() {
        Ok(address) => {
            assert_eq!(address.to_string().parse().as_ref(), Ok(&address));
            true
        }
        Err(_) => false,
    }
}

pub(super) fn layout(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    match parse_layout(text) {
        Ok(choice) => {
            assert_eq!(parse_layout(&layout_text(&choice)).as_ref(), Ok(&choice));
            true
        }
        Err(_) => false,
    }
}

pub(super) fn name(bytes: &[u8]) -> bool {
    Name::new(bytes).is_ok_and(|name| {
        assert_eq!(name.as_bytes(), bytes);
        true
    })
}

pub(super) fn acl(bytes: &[u8]) -> bool {
    match Acl::from_xattr(bytes) {
        Ok(Some(acl)) => {
            assert_eq!(Acl::from_xattr(&acl.to_xattr()), Ok(Some(acl)));
            true
        }
        Ok(None) | Err(_) => false,
    }
}

pub(super) fn acls() -> Vec<Vec<u8>> {
    let acls = crate::samples::acls();
    [acls.access, acls.default]
        .iter()
        .flatten()
        .map(|acl| acl.to_xattr())
        .collect()
}
