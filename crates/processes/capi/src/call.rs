//! The border: every function for C is a [`Call`], which gives a number whatever happens.

use crate::abi::{Dir, File, Fs};
use crate::failure::{Failure, Result};
use crate::last_error;
use crate::pointers;
use crate::table::{self, Entry};
use pandofs_handles::{Failure as CallFailure, Mount, OpenDir, OpenFile};
use std::any::Any;
use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// A call under way.
pub(crate) struct Call {
    name: &'static str,
    /// The paths that it is about, for words about an error.
    about: Vec<Vec<u8>>,
}

/// Makes a call: a count, or a negated error number. The words for an error are kept for the thread.
pub(crate) fn count(name: &'static str, work: impl FnOnce(&mut Call) -> Result<i64>) -> i64 {
    let mut call = Call {
        name,
        about: Vec::new(),
    };
    // State that a panic leaves half done is the client library's, whose locks know no poison, or is dropped here.
    let done = catch_unwind(AssertUnwindSafe(|| work(&mut call)));
    let failure = match done {
        Ok(Ok(count)) => return count,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::Panic(words_of(&*panic)),
    };
    last_error::set(&call.words(&failure));
    -i64::from(failure.errno())
}

/// As [`count`], of calls that answer 0.
pub(crate) fn done(name: &'static str, work: impl FnOnce(&mut Call) -> Result<()>) -> c_int {
    let number = count(name, |call| work(call).map(|()| 0));
    // Error numbers are small.
    number as c_int
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_default()
}

impl Call {
    fn words(&self, failure: &Failure) -> String {
        let about: Vec<_> = self
            .about
            .iter()
            .map(|path| String::from_utf8_lossy(path))
            .collect();
        format!("{}({}): {failure}", self.name, about.join(", "))
    }

    /// Words for an error that concerns this path alone.
    pub(crate) fn words_about(&self, path: &[u8], failure: &Failure) -> String {
        let path = String::from_utf8_lossy(path);
        format!("{}({path}): {failure}", self.name)
    }

    /// A path that C gave.
    ///
    /// # Safety
    /// The crate's rules of C.
    // SAFETY: its caller's to keep, as said above.
    pub(crate) unsafe fn path<'a>(
        &mut self,
        path: *const c_char,
        argument: &'static str,
    ) -> Result<&'a [u8]> {
        // SAFETY: the caller's promise.
        let path = unsafe { pointers::text(path, argument, crate::abi::PANDOFS_PATH_MAX) }?;
        self.about.push(path.to_vec());
        match path.is_empty() {
            true => Err(pandofs_types::FsError::NotFound.into()),
            false => Ok(path),
        }
    }

    pub(crate) fn mount(&self, fs: Fs) -> Result<Arc<Mount>> {
        match table::get(fs.id)? {
            Entry::Mount(mount) => Ok(mount),
            Entry::File(_) | Entry::Dir(_) => Err(CallFailure::NoHandle.into()),
        }
    }

    pub(crate) fn file(&mut self, file: File) -> Result<Arc<OpenFile>> {
        match table::get(file.id)? {
            Entry::File(file) => {
                self.about.push(file.path.clone());
                Ok(file)
            }
            Entry::Mount(_) | Entry::Dir(_) => Err(CallFailure::NoHandle.into()),
        }
    }

    pub(crate) fn dir(&mut self, dir: Dir) -> Result<Arc<OpenDir>> {
        match table::get(dir.id)? {
            Entry::Dir(dir) => {
                self.about.push(dir.path.clone());
                Ok(dir)
            }
            Entry::Mount(_) | Entry::File(_) => Err(CallFailure::NoHandle.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last_words() -> String {
        // SAFETY: it is this thread's, and no call comes in between.
        let words = unsafe { CStr::from_ptr(last_error::get()) };
        words.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_does_not_get_across() {
        let fails = |name| done(name, |_| panic!("{name} broke"));
        assert_eq!(fails("a"), -libc::EIO);
        assert_eq!(last_words(), "a(): a defect of the library: a broke");
        assert_eq!(count("b", |_| panic!("plain")), -i64::from(libc::EIO));
        assert_eq!(last_words(), "b(): a defect of the library: plain");
    }

    #[test]
    fn words_say_what_failed_and_where() {
        let failed = done("pandofs_unlink", |call| {
            // SAFETY: the text has an end.
            unsafe { call.path(c"/a\xff".as_ptr(), "path") }?;
            Err(pandofs_types::FsError::IsDir.into())
        });
        assert_eq!(failed, -libc::EISDIR);
        assert_eq!(last_words(), "pandofs_unlink(/a\u{fffd}): is a directory");
        assert_eq!(done("other", |_| Ok(())), 0);
        assert_eq!(last_words(), "pandofs_unlink(/a\u{fffd}): is a directory");
        std::thread::spawn(|| assert_eq!(last_words(), ""))
            .join()
            .unwrap();
    }
}
