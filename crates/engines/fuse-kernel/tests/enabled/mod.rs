//! The kernel's switch for FUSE over io_uring, for tests.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};

const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// A test that needs the switch on has this locked. It says whether a test has switched it on.
const USERS: &str = "/tmp/pandofs-enable-uring.lock";

/// FUSE over io_uring is switched on as long as there is such a value, here or in another process.
pub(crate) struct Enabled(File);

impl Enabled {
    /// `None`, and why, if it cannot be switched on.
    pub(crate) fn take() -> Option<Enabled> {
        let users = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(USERS);
        let mut users = users.unwrap();
        users.lock_shared().unwrap();
        // Before this another test may switch it off between the look and the lock.
        let Ok(before) = fs::read_to_string(SWITCH) else {
            eprintln!("this kernel has no FUSE over io_uring: it is tested over /dev/fuse alone");
            return None;
        };
        if before.trim() != "Y" {
            if let Err(error) = fs::write(SWITCH, "Y") {
                eprintln!("{SWITCH}: {error}: it is tested over /dev/fuse alone");
                return None;
            }
            users.write_all(b"on").unwrap();
        }
        Some(Enabled(users))
    }
}

impl Drop for Enabled {
    /// The last one switches it off if a test has switched it on.
    fn drop(&mut self) {
        match self.0.try_lock() {
            Ok(()) => {
                let mut said = String::new();
                let read = self.0.read_to_string(&mut said);
                if read.is_ok() && !said.is_empty() {
                    let _ = fs::write(SWITCH, "N");
                    let _ = self.0.set_len(0);
                }
            }
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => eprintln!("{USERS}: {error}"),
        }
    }
}
