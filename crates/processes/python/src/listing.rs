//! The class of listings of directories.

use crate::error::exception;
use crate::held::Held;
use crate::path::PathArgument;
use crate::session::attributes;
use pandofs_handles::{OpenDir, Result, format};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

/// A directory that is being listed.
#[pyclass(frozen, module = "pandofs._pandofs")]
pub(crate) struct Listing {
    held: Held<OpenDir>,
    path: PathArgument,
}

impl Listing {
    pub(crate) fn new(dir: OpenDir, path: PathArgument) -> Listing {
        Listing {
            held: Held::new(dir),
            path,
        }
    }
}

#[pymethods]
impl Listing {
    /// The next entries, none at the end: of each its name, number and kind (`S_IFMT`), and its attributes or None.
    fn page<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let page = py.detach(|| -> Result<_> {
            let dir = self.held.get()?;
            dir.next_page()
        });
        let page = page.map_err(|failure| exception(py, &failure, &[&self.path]))?;
        let entries: Vec<Bound<'py, PyTuple>> = page
            .iter()
            .map(|entry| {
                let attributes = entry.attr.as_ref().map(attributes);
                let name = PyBytes::new(py, entry.name.as_bytes());
                (name, entry.ino.0, format(entry.kind), attributes).into_pyobject(py)
            })
            .collect::<PyResult<_>>()?;
        PyList::new(py, entries)
    }

    /// Ends the listing.
    fn close(&self, py: Python<'_>) {
        // One that is closed already, or another process's, has nothing to be ended.
        py.detach(|| drop(self.held.take()));
    }
}
