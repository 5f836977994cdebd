//! The walk in the manner of `ftw`: a function that is called for each entry.

use crate::entry::Entry;
use crate::options::Options;
use crate::threads::{WalkError, walk};
use crate::visit::{Flow, Problem, Visitor};
use std::ffi::OsString;

/// Calls a function for each entry below the roots, and the roots, by several threads at once;
/// another one for what could not be done. Attributes come from [`Entry::stat`], which asks for no
/// more than [`Options::fields`].
///
/// ```
/// use pandofs_walk_fs::{Flow, Options, ftw};
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let bytes = AtomicU64::new(0);
/// ftw(
///     &["src".into()],
///     &Options::default(),
///     |entry| {
///         if let Ok(stat) = entry.stat() {
///             bytes.fetch_add(stat.size(), Ordering::Relaxed);
///         }
///         Flow::Descend([0, 0])
///     },
///     |problem| eprintln!("{}: {}", problem.path.escape_ascii(), problem.kind),
/// )?;
/// assert!(bytes.into_inner() > 0);
/// # Ok::<(), pandofs_walk_fs::WalkError>(())
/// ```
///
/// # Errors
/// When some entries were not visited for another reason than that they could not be read.
pub fn ftw(
    roots: &[OsString],
    options: &Options,
    entry: impl Fn(&mut Entry<'_, ()>) -> Flow + Sync,
    problem: impl Fn(Problem<'_>) + Sync,
) -> Result<(), WalkError> {
    let options = Options {
        leaves: false,
        ..options.clone()
    };
    let calls = (&entry, &problem);
    walk(roots, &options, |_| Caller(calls.0, calls.1)).map(drop)
}

struct Caller<'c, E, P>(&'c E, &'c P);

impl<E, P> Visitor for Caller<'_, E, P>
where
    E: Fn(&mut Entry<'_, ()>) -> Flow + Sync,
    P: Fn(Problem<'_>) + Sync,
{
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        self.0(entry)
    }

    fn problem(&mut self, problem: Problem<'_>) {
        self.1(problem);
    }
}
