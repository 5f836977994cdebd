//! Directories that are being walked.

use pandofs_walk::RankId;
use rustix::fd::OwnedFd;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// State that a visitor keeps with a directory.
pub trait DirState: Send + Sync + 'static {
    /// From the numbers of [`crate::Flow::Descend`].
    fn new(seed: [u64; 2]) -> Self;

    /// The state of a directory of another process in this one, to which it gave a part of it.
    /// Anything that would count double when it comes back is not in it: to add what it has
    /// [gathered](Self::gathered) when it is new changes nothing.
    fn elsewhere(seed: [u64; 2]) -> Self
    where
        Self: Sized,
    {
        Self::new(seed)
    }

    /// Returns what this process has gathered for a directory of another one, or for one of its own
    /// when that is written down.
    fn gathered(&self) -> Vec<u8> {
        Vec::new()
    }

    /// An entry of the directory has [claimed](crate::Entry::claim) something before anybody else.
    fn claimed(&self, _amount: u64) {}

    /// Takes up what another process has [gathered](Self::gathered) for this directory.
    ///
    /// # Errors
    /// When that is nothing that `gathered` could give.
    fn add(&self, _gathered: &[u8]) -> Result<(), Unreadable> {
        Ok(())
    }
}

/// Another process sent what this one cannot read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("another process sent a message that cannot be decoded")]
pub struct Unreadable;

/// Of a directory that stands for one of another process, of which this one got a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub rank: RankId,
    /// A number of that process.
    pub loan: u64,
    /// Place of the directory in the loan.
    pub place: u32,
}

impl DirState for () {
    fn new(_seed: [u64; 2]) {}
}

/// A directory that is being walked, or waits for it. It lives until all below it is done.
#[derive(Debug)]
pub struct Dir<D> {
    /// None for the directory above the roots, which stands for the working directory and has no
    /// name.
    parent: Option<Arc<Dir<D>>>,
    name: Box<CStr>,
    depth: u32,
    seed: [u64; 2],
    /// Parts of it that are not done: its listing, slices of it, directories in it.
    pending: AtomicUsize,
    /// An item in it or below it was [written](crate::Saved) in place of being done.
    unfinished: AtomicBool,
    /// All that is gathered of it comes together here: it stands for no directory of another
    /// process.
    home: bool,
    /// Open, for what is in it. Others may close it at any time: see `descriptors.rs`.
    open: Mutex<Option<Arc<OwnedFd>>>,
    identity: OnceLock<(u64, u64)>,
    origin: Option<Origin>,
    state: D,
}

impl<D: DirState> Dir<D> {
    /// The directory that all roots are in.
    pub(crate) fn top() -> Arc<Dir<D>> {
        Arc::new(Dir {
            parent: None,
            name: c"".into(),
            depth: 0,
            seed: [0, 0],
            pending: AtomicUsize::new(1),
            unfinished: AtomicBool::new(false),
            home: true,
            open: Mutex::new(None),
            identity: OnceLock::new(),
            origin: None,
            state: D::new([0, 0]),
        })
    }

    /// A directory in `parent`, to be listed. The parent is not done before it is.
    pub(crate) fn child(parent: &Arc<Dir<D>>, name: &CStr, seed: [u64; 2]) -> Dir<D> {
        parent.add_part();
        Dir::unspilled(parent, name, seed)
    }

    /// A stand-in for a directory of another process. It never ends by itself without an origin.
    pub(crate) fn proxy(
        parent: Option<&Arc<Dir<D>>>,
        name: &CStr,
        seed: [u64; 2],
        parts: usize,
        origin: Option<Origin>,
    ) -> Dir<D> {
        Dir {
            parent: parent.map(Arc::clone),
            name: name.into(),
            depth: match parent {
                Some(parent) if !parent.is_top() => parent.depth + 1,
                _ => 0,
            },
            seed,
            pending: AtomicUsize::new(if origin.is_some() { parts } else { 1 }),
            unfinished: AtomicBool::new(false),
            home: false,
            open: Mutex::new(None),
            identity: OnceLock::new(),
            origin,
            state: D::elsewhere(seed),
        }
    }

    /// A directory of a walk that goes on, or what its roots are in. It is done when the parts are
    /// that are added, and its parent is not before. Its saved state is to be added.
    pub(crate) fn restored(parent: Option<&Arc<Dir<D>>>, name: &CStr, seed: [u64; 2]) -> Dir<D> {
        if let Some(parent) = parent {
            parent.add_part();
        }
        let mut dir = Dir::proxy(parent, name, seed, 0, None);
        dir.pending = AtomicUsize::new(0);
        dir.home = true;
        dir
    }

    /// The same, of which the parent knows already.
    pub(crate) fn unspilled(parent: &Arc<Dir<D>>, name: &CStr, seed: [u64; 2]) -> Dir<D> {
        Dir {
            parent: Some(Arc::clone(parent)),
            name: name.into(),
            depth: if parent.is_top() { 0 } else { parent.depth + 1 },
            seed,
            pending: AtomicUsize::new(1),
            unfinished: AtomicBool::new(false),
            home: true,
            open: Mutex::new(None),
            identity: OnceLock::new(),
            origin: None,
            state: D::new(seed),
        }
    }
}

impl<D> Dir<D> {
    /// The state that the visitor keeps with it.
    pub fn state(&self) -> &D {
        &self.state
    }

    /// The name in its parent; a root's is what was given.
    pub fn name(&self) -> &CStr {
        &self.name
    }

    /// 0 for a root.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// The directory that it is in; none for a root.
    pub fn parent(&self) -> Option<&Arc<Dir<D>>> {
        self.parent.as_ref().filter(|parent| !parent.is_top())
    }

    /// Returns whether it is what the roots are in, and no directory of the walk.
    pub fn is_above_roots(&self) -> bool {
        self.is_top()
    }

    pub(crate) fn is_top(&self) -> bool {
        self.parent.is_none()
    }

    /// The parent, also if it is what the roots are in.
    pub(crate) fn above(&self) -> Option<&Arc<Dir<D>>> {
        self.parent.as_ref()
    }

    pub(crate) fn origin(&self) -> Option<Origin> {
        self.origin
    }

    pub(crate) fn seed(&self) -> [u64; 2] {
        self.seed
    }

    /// Returns whether what is known of it comes together in this process.
    pub(crate) fn is_home(&self) -> bool {
        self.home
    }

    /// An item in it or below it was written in place of being done. To be called before that is
    /// counted as a part done.
    pub(crate) fn set_unfinished(&self) {
        // The thread that does the last part sees it by `parts_done`.
        self.unfinished.store(true, Ordering::Relaxed);
    }

    /// To be asked when its last part is done: whether nothing was written in the place of one.
    pub(crate) fn is_unfinished(&self) -> bool {
        self.unfinished.load(Ordering::Relaxed)
    }

    /// Parts of it that are not done.
    pub(crate) fn parts(&self) -> usize {
        self.pending.load(Ordering::Relaxed)
    }

    pub(crate) fn add_part(&self) {
        // A thread that adds a part is working on one, so this is not the first.
        self.pending.fetch_add(1, Ordering::Relaxed);
    }

    /// So many parts are done; whether they were the last.
    pub(crate) fn parts_done(&self, parts: usize) -> bool {
        // Acquire and release: the thread that does the last part sees what all others did to the
        // state.
        let before = self.pending.fetch_sub(parts, Ordering::AcqRel);
        assert!(before >= parts, "a directory was done twice");
        before == parts
    }

    pub(crate) fn opened(&self) -> Option<Arc<OwnedFd>> {
        self.lock_open().clone()
    }

    pub(crate) fn set_open(&self, fd: Option<Arc<OwnedFd>>) -> Option<Arc<OwnedFd>> {
        std::mem::replace(&mut *self.lock_open(), fd)
    }

    fn lock_open(&self) -> std::sync::MutexGuard<'_, Option<Arc<OwnedFd>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn identity(&self) -> Option<(u64, u64)> {
        self.identity.get().copied()
    }

    /// Remembers who it is; what is known already stays.
    pub(crate) fn set_identity(&self, identity: (u64, u64)) {
        let _ = self.identity.set(identity);
    }
}

/// Parents are let go one after the other: the compiler's way is one call inside the other for each
/// level, and a tree may be deeper than a stack.
impl<D> Drop for Dir<D> {
    fn drop(&mut self) {
        let mut next = self.parent.take();
        while let Some(parent) = next {
            let Some(mut last) = Arc::into_inner(parent) else {
                return;
            };
            next = last.parent.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_deeper_than_any_stack_is_let_go() {
        let mut dir = Dir::<()>::top();
        for _ in 0..1_000_000 {
            dir = Arc::new(Dir::child(&dir, c"d", [0, 0]));
        }
        assert_eq!(dir.depth(), 999_999);
        drop(dir);
    }

    #[test]
    fn the_last_part_ends_a_directory() {
        let top = Dir::<()>::top();
        let dir = Arc::new(Dir::child(&top, c"d", [0, 0]));
        dir.add_part();
        assert!(!dir.parts_done(1));
        assert!(dir.parts_done(1));
        assert!(dir.parent().is_none(), "a root");
        assert!(!top.parts_done(1));
        assert!(top.parts_done(1));
    }
}
