//! Times of the kernel's requests, by kind.

use pandofs_fuse_kernel::Operation;
use pandofs_metrics::{Histogram, Snapshot};
use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How long the threads of a mount had requests of each kind, from taking one to having done with it. A lock that is
/// waited for is waited for by another thread, which does not count.
#[derive(Debug)]
pub struct RequestTimes {
    kinds: [Histogram; Kind::COUNT],
    begun: AtomicU64,
    ended: AtomicU64,
}

macro_rules! kinds {
    ($($name:ident),+ $(,)?) => {
        /// Kind of a request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Kind {
            $($name),+
        }

        impl Kind {
            const NAMES: &[&str] = &[$(stringify!($name)),+];
            const COUNT: usize = Kind::NAMES.len();

            fn of(operation: &Operation<'_>) -> Kind {
                match operation {
                    $(Operation::$name { .. } => Kind::$name),+
                }
            }
        }
    };
}

kinds! {
    Lookup, Forget, BatchForget, Getattr, Statx, Setattr, Readlink, Symlink, Mknod, Mkdir, Unlink, Rmdir, Rename, Link,
    Open, Create, Tmpfile, Read, Write, Flush, Release, Fsync, Opendir, Readdir, Readdirplus, Releasedir, Fsyncdir, Statfs,
    Setxattr, Getxattr, Listxattr, Removexattr, Access, Lseek, Fallocate, Ioctl, Getlk, Setlk, Interrupt, Destroy, Init,
    Other,
}

/// Name of a request's kind, as the kernel has it but for its case.
pub(crate) fn kind_name(operation: &Operation<'_>) -> &'static str {
    Kind::NAMES[Kind::of(operation) as usize]
}

impl Default for RequestTimes {
    fn default() -> RequestTimes {
        RequestTimes {
            kinds: array::from_fn(|_| Histogram::default()),
            begun: AtomicU64::default(),
            ended: AtomicU64::default(),
        }
    }
}

/// A request that a thread has. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Timing<'t> {
    times: &'t RequestTimes,
    kind: Kind,
    begun: Instant,
}

impl Drop for Timing<'_> {
    fn drop(&mut self) {
        self.times.kinds[self.kind as usize].add_since(self.begun);
        self.times.ended.fetch_add(1, Ordering::Release);
    }
}

impl RequestTimes {
    pub(crate) fn begin(&self, operation: &Operation<'_>) -> Timing<'_> {
        self.begun.fetch_add(1, Ordering::Relaxed);
        Timing {
            times: self,
            kind: Kind::of(operation),
            begun: Instant::now(),
        }
    }

    /// Those of which there were some, by the kernel's names in lower case.
    pub fn read(&self) -> Vec<(String, Snapshot)> {
        let all = self.kinds.iter().zip(Kind::NAMES);
        let read = all.map(|(kind, name)| (name.to_ascii_lowercase(), kind.snapshot()));
        read.filter(|(_, times)| times.count() > 0).collect()
    }

    /// Requests that threads have now.
    pub fn under_way(&self) -> u64 {
        // In this order: none that has ended by the first look is missing in the second.
        let ended = self.ended.load(Ordering::Acquire);
        let begun = self.begun.load(Ordering::Acquire);
        begun.saturating_sub(ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_under_way_until_it_is_dropped() {
        let times = RequestTimes::default();
        let first = times.begin(&Operation::Getattr);
        let second = times.begin(&Operation::Forget { lookups: 1 });
        assert_eq!((times.under_way(), times.read()), (2, Vec::new()));
        drop(first);
        assert_eq!(times.under_way(), 1);
        let read = times.read();
        assert_eq!((read.len(), read[0].0.as_str()), (1, "getattr"));
        assert_eq!(read[0].1.count(), 1);
        drop(second);
        drop(times.begin(&Operation::Getattr));
        let read = times.read();
        assert_eq!((read[0].1.count(), read[1].0.as_str()), (1, "getattr"));
        assert_eq!(read[1].1.count(), 2);
        assert_eq!(times.under_way(), 0);
    }
}
