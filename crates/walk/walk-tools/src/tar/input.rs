//! Input of an archive that is read.

use crate::tar::compress::{Filter, Format, Known};
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::fs::File;

/// An archive that is read, expanded if need be.
#[derive(Debug)]
pub(crate) struct Input {
    pub file: File,
    /// It can be read anywhere.
    pub seekable: bool,
    filter: Option<Filter>,
}

impl Input {
    /// Opens it; standard input for `-`. A file tells by itself how it is compressed, unless a
    /// program of the user's is to know.
    ///
    /// # Errors
    /// When it cannot be read, or there is no program to expand it.
    pub(crate) fn open(name: &OsStr, format: Option<Format>) -> Result<Input> {
        let file: File = if name == "-" {
            rustix::io::dup(rustix::stdio::stdin())?.into()
        } else {
            File::open(name).with_context(|| name.display().to_string())?
        };
        let seekable = name != "-" && file.metadata()?.is_file();
        let by_program = matches!(format, Some(Format::Program(_)));
        let format = if seekable && !by_program {
            Known::of_file(&file)?.map(Format::Known)
        } else {
            format
        };
        let Some(format) = format else {
            return Ok(Input {
                file,
                seekable,
                filter: None,
            });
        };
        let (filter, file) = Filter::expand(&format, &file)?;
        Ok(Input {
            file,
            seekable: false,
            filter: Some(filter),
        })
    }

    /// Checks the end of the program that expanded it, if it was read to its end.
    ///
    /// # Errors
    /// When it failed.
    pub(crate) fn finish(self, is_whole: bool) -> Result<()> {
        match self.filter {
            Some(filter) if is_whole => filter.drain(&self.file),
            Some(filter) => {
                filter.stop();
                Ok(())
            }
            None => Ok(()),
        }
    }
}
