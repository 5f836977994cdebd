//! Callbacks of a walk.

use crate::dir::DirState;
use crate::entry::Entry;
use crate::post_order::Leaving;
use crate::task::Task;
use rustix::io::Errno;

/// Continuation of the walk after an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on, and enter it if it is a directory: its [`DirState`] is made from these numbers.
    Descend([u64; 2]),
    /// Go on, and do not enter it.
    Skip,
    /// End the whole walk. Other threads finish the entries that they are at.
    Quit,
}

/// Something that could not be done. It does not end the walk.
#[derive(Clone, Copy, Debug)]
pub struct Problem<'a> {
    /// From the root on, as it was named; bytes in no particular encoding.
    pub path: &'a [u8],
    /// The action that failed, and why.
    pub kind: ProblemKind,
}

/// Kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProblemKind {
    /// It cannot be looked at.
    #[error("{0}")]
    Stat(Errno),
    /// The directory cannot be opened: its entries are missing.
    #[error("cannot open the directory: {0}")]
    Open(Errno),
    /// The directory cannot be read to its end: some entries are missing.
    #[error("cannot read the directory: {0}")]
    Read(Errno),
    /// A task cannot be done, because its directory cannot be opened again.
    #[error("cannot open its directory again: {0}")]
    Task(Errno),
    /// A directory was replaced by another one while it was walked: what is below is not what it
    /// was.
    #[error("the directory was replaced during the walk")]
    Replaced,
    /// A followed link leads back to a directory above it; it is neither shown nor entered.
    #[error("the link leads back to a directory above it")]
    Loop,
}

/// Callbacks for entries. Each thread has a visitor of its own.
pub trait Visitor: Send {
    /// Kept with each directory until all below it is done.
    type Dir: DirState;

    /// An entry, roots included. Entries of one directory may come to several threads; a directory
    /// comes before what is in it. A visitor that does little else than [`Entry::stat`] is faster
    /// with `#[inline(always)]`.
    fn entry(&mut self, entry: &mut Entry<'_, Self::Dir>) -> Flow;

    /// Something that was put off with [`Entry::later`], by any thread, in any order; before the
    /// directory that the entry is in is left.
    fn task(&mut self, _task: &mut Task<'_, Self::Dir>) {}

    /// The entries that were shown one after another, of one directory, are all for now: others of
    /// it may be shown to other threads, and it is not left before this returns.
    fn pause(&mut self) {}

    /// All below a directory that was entered is done, in any order, by any thread. Directories
    /// come after all that is in them. Not called any more once the walk is being ended.
    fn leave(&mut self, _leaving: &mut Leaving<'_, Self::Dir>) {}

    /// Once the walk is being ended, in place of [`leave`](Visitor::leave): it is not known whether
    /// all below the directory was visited. Calls still come after those for what is in the
    /// directory, as there.
    fn abandon(&mut self, _leaving: &mut Leaving<'_, Self::Dir>) {}

    /// A directory is being opened or its names are being read, or not any more: for visitors that
    /// measure what a walk takes its time for.
    fn reads(&mut self, _begins: bool) {}

    /// Something could not be done.
    fn problem(&mut self, _problem: Problem<'_>) {}
}
