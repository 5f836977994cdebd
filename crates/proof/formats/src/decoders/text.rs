//! Decoders of texts that people and other programs write.

use pandofs_client::{layout_text, parse_layout};
use pandofs_placement::ClusterMap;
use pandofs_types::{Acl, Name};
use pandofs_wire::address::Address;
use pandofs_workload::{AnyTrace, Trace};

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
