//! Paths as Python gives them: text, bytes, or an object that says which.

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// A path, and the object that it came from, for exceptions.
#[derive(Debug)]
pub(crate) struct PathArgument {
    pub bytes: Vec<u8>,
    pub given: Py<PyAny>,
}

impl<'py> FromPyObject<'_, 'py> for PathArgument {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<PathArgument> {
        let py = object.py();
        let given = match object.is_instance_of::<PyString>() || object.is_instance_of::<PyBytes>()
        {
            true => object.to_owned(),
            false => py.import("os")?.getattr("fspath")?.call1((object,))?,
        };
        let bytes = if let Ok(bytes) = given.cast::<PyBytes>() {
            bytes.as_bytes().to_vec()
        } else if given.is_instance_of::<PyString>() {
            given.extract::<OsString>()?.into_vec()
        } else {
            return Err(PyTypeError::new_err("a path is text or bytes"));
        };
        if bytes.contains(&0) {
            return Err(PyValueError::new_err("embedded null byte"));
        }
        Ok(PathArgument {
            bytes,
            given: given.unbind(),
        })
    }
}
