//! Exceptions: `OSError` with its number, words and paths.

use crate::path::PathArgument;
use pandofs_handles::Failure;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// The exception for a failure of a call that was about these paths, two at most. By its number Python makes it
/// `FileNotFoundError` or the like.
pub(crate) fn exception(py: Python<'_>, failure: &Failure, about: &[&PathArgument]) -> PyErr {
    let number = failure.errno();
    let words = match words(py, failure) {
        Ok(words) => words,
        Err(error) => return error,
    };
    let path = |place: usize| about.get(place).map(|path| path.given.clone_ref(py));
    match (path(0), path(1)) {
        (None, _) => PyOSError::new_err((number, words)),
        (Some(path), None) => PyOSError::new_err((number, words, path)),
        // The one in between is for another system.
        (Some(path), Some(other)) => PyOSError::new_err((number, words, path, py.None(), other)),
    }
}

/// The system's words for what the file system answers, and the library's for all else, which say more.
fn words(py: Python<'_>, failure: &Failure) -> PyResult<String> {
    match failure.is_an_answer() {
        true => {
            let strerror = py.import("os")?.getattr("strerror")?;
            strerror.call1((failure.errno(),))?.extract()
        }
        false => Ok(failure.to_string()),
    }
}
