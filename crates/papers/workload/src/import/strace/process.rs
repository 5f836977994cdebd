//! Processes of a trace: their descriptors, working directories and masks, shared as the kernel shares them.

use crate::import::Problem;
use crate::limits::MAX_IMPORTED_DESCRIPTORS;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Where a path begins, or what a descriptor is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    /// An inode of the tree that is imported.
    Inside(u64),
    /// An absolute path elsewhere, without `.` and `..`.
    Outside(Vec<u8>),
}

/// An open file, which several descriptors may be of.
#[derive(Debug)]
pub(super) struct Description {
    pub at: Spot,
    pub offset: u64,
    pub appends: bool,
    /// A directory of which the first page was asked for.
    pub is_listed: bool,
}

impl Description {
    pub(super) fn of(at: Spot) -> Description {
        Description {
            at,
            offset: 0,
            appends: false,
            is_listed: false,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    pub of: Rc<RefCell<Description>>,
    pub ends_with_exec: bool,
}

/// Where a process is, and what it masks.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub directory: Spot,
    pub umask: u16,
}

type Descriptors = BTreeMap<i32, Descriptor>;

#[derive(Debug)]
pub(super) struct Process {
    pub descriptors: Rc<RefCell<Descriptors>>,
    pub place: Rc<RefCell<Place>>,
    pub begun: Option<Begun>,
}

/// A call that goes on while others write lines.
#[derive(Clone, Debug)]
pub(super) struct Begun {
    pub text: Vec<u8>,
    pub time: u64,
    /// Of a call that makes a process: that has a line already.
    pub has_child: bool,
}

impl Begun {
    pub(super) fn name(&self) -> &[u8] {
        let end = self.text.iter().position(|&byte| byte == b'(');
        &self.text[..end.unwrap_or(self.text.len())]
    }

    pub(super) fn makes_a_process(&self) -> bool {
        matches!(self.name(), b"clone" | b"clone3" | b"fork" | b"vfork")
    }
}

impl Process {
    pub(super) fn first(place: Place) -> Process {
        Process {
            descriptors: Rc::default(),
            place: Rc::new(RefCell::new(place)),
            begun: None,
        }
    }

    /// A child, as `clone` makes one; it shares what `flags` say.
    pub(super) fn child(&self, flags: &[u8]) -> Process {
        let shares = |flag: &[u8]| super::line::find(flags, flag).is_some();
        let descriptors = match shares(b"CLONE_FILES") {
            true => Rc::clone(&self.descriptors),
            false => Rc::new(RefCell::new(self.descriptors.borrow().clone())),
        };
        // CLONE_FSCTL and the like there are none.
        let place =
            match shares(b"CLONE_FS|") || flags.ends_with(b"CLONE_FS") || shares(b"CLONE_FS,") {
                true => Rc::clone(&self.place),
                false => Rc::new(RefCell::new(self.place.borrow().clone())),
            };
        Process {
            descriptors,
            place,
            begun: None,
        }
    }

    /// # Errors
    /// When the process has too many.
    pub(super) fn open(&self, number: i32, descriptor: Descriptor) -> Result<(), Problem> {
        let mut descriptors = self.descriptors.borrow_mut();
        if descriptors.len() >= MAX_IMPORTED_DESCRIPTORS {
            return Err(Problem::Descriptors);
        }
        descriptors.insert(number, descriptor);
        Ok(())
    }

    pub(super) fn get(&self, number: i32) -> Option<Descriptor> {
        self.descriptors.borrow().get(&number).cloned()
    }

    /// Those that are marked so are closed, and the others are shared with nobody from now on.
    pub(super) fn exec(&mut self) {
        let mut left = self.descriptors.borrow().clone();
        left.retain(|_, descriptor| !descriptor.ends_with_exec);
        self.descriptors = Rc::new(RefCell::new(left));
    }
}
