//! The decoder of requests that the kernel's FUSE makes.

use pandofs_fuse_kernel::{Header, Operation, Request};

/// The kernel never reads what it has sent, so nothing is said again: what is understood has the
/// header that stands in front, and no name in it has an end within.
pub(super) fn request(bytes: &[u8]) -> bool {
    let Ok(request) = Request::decode(bytes) else {
        return false;
    };
    assert_eq!(Header::decode(bytes), Ok(request.header));
    match request.operation {
        Operation::Lookup { name } | Operation::Getxattr { name, .. } => {
            assert!(!name.as_encoded_bytes().contains(&0));
        }
        Operation::Write(write) => assert!(write.data.len() < bytes.len()),
        Operation::BatchForget(forgotten) => {
            assert!(forgotten.nodes().count() * 16 < bytes.len());
        }
        _ => {}
    }
    true
}
