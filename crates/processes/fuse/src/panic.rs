//! Panic hook that ends the process.

use pandofs_fuse_kernel::THREAD_NAMES;
use std::sync::Once;
use std::thread;

/// From now on a panic in a thread that serves a mount is printed and then ends the process.
///
/// Otherwise the thread would be gone and the mount go on without it: what it held (a request in
/// the kernel, a lock) would make programs wait for ever, one after another, and nothing would say
/// why. When the process is gone, the kernel fails every request at once, and the mount can be made
/// anew. Other threads' panics are left alone: they may be a test's.
pub(crate) fn abort_on_panic() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        let earlier = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            earlier(panic);
            if thread::current()
                .name()
                .is_some_and(|name| name.starts_with(THREAD_NAMES))
            {
                eprintln!("pandofs: the mount cannot go on after this; exiting");
                std::process::abort();
            }
        }));
    });
}
