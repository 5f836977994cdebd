//! The class of open files: reading and writing at offsets.

use crate::error::exception;
use crate::held::Held;
use crate::path::PathArgument;
use crate::session::{Attributes, attributes};
use pandofs_handles::{MAX_CALL_BYTES, OpenFile, Result};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// An open file.
#[pyclass(frozen, module = "pandofs._pandofs")]
pub(crate) struct File {
    held: Held<OpenFile>,
    path: PathArgument,
}

impl File {
    pub(crate) fn new(file: OpenFile, path: PathArgument) -> File {
        File {
            held: Held::new(file),
            path,
        }
    }

    /// Does something with the file, while other threads of Python go on.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&OpenFile) -> Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| work(&*self.held.get()?));
        done.map_err(|failure| exception(py, &failure, &[&self.path]))
    }
}

#[pymethods]
impl File {
    /// Up to so many bytes from the offset on: fewer only where the file ends.
    fn pread<'py>(
        &self,
        py: Python<'py>,
        size: usize,
        offset: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = self.with(py, |file| {
            let mut bytes = Vec::new();
            let wanted = size.min(MAX_CALL_BYTES);
            file.read(offset, wanted, |_, piece| bytes.extend_from_slice(piece))?;
            Ok(bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes at the offset, and says how many bytes.
    fn pwrite(&self, py: Python<'_>, data: PyBackedBytes, offset: u64) -> PyResult<usize> {
        self.with(py, |file| file.write(offset, &data))
    }

    /// Writes at the end, and says where that was.
    fn append(&self, py: Python<'_>, data: PyBackedBytes) -> PyResult<u64> {
        self.with(py, |file| file.append(&data))
    }

    /// Sets the length in bytes.
    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.with(py, |file| file.truncate(size))
    }

    /// Attributes.
    fn stat(&self, py: Python<'_>) -> PyResult<Attributes> {
        let attr = self.with(py, |file| {
            Ok(file.client().getattr(&file.caller, file.ino)?)
        })?;
        Ok(attributes(&attr))
    }

    /// Has others see what was written.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, OpenFile::flush)
    }

    /// Has it on disk.
    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, OpenFile::sync)
    }

    /// Closes it, and raises what went wrong with earlier writes and was not raised yet.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let closed = py.detach(|| {
            let file: Arc<OpenFile> = self.held.take()?;
            file.close()
        });
        closed.map_err(|failure| exception(py, &failure, &[&self.path]))
    }
}
