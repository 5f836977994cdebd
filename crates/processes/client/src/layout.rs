//! Striping of files, and its text form.
//!
//! The text stands on the command line and in an extended attribute, which is in no list of
//! attributes, so that nothing copies it to where it means nothing.

use crate::Client;
use crate::error::{ClientError, Result};
use crate::inodes::inode_of;
use pandofs_api::{DirSettings, FileBody, Layout, LayoutChoice, Request, XattrMode, op};
use pandofs_session::Target;
use pandofs_types::limits::{MAX_STRIPE_UNIT_BYTES, MIN_STRIPE_UNIT_BYTES};
use pandofs_types::{Credentials, FsError, Ino, ServerId};

/// The extended attribute.
pub const LAYOUT_XATTR: &[u8] = b"user.pandofs.layout";

/// The striping of a file or of files to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutOf {
    /// The choice for files and directories that are made in it.
    Dir(LayoutChoice),
    /// Of a file; `is_fixed` once it has had data.
    File {
        /// Where its data is, or would go.
        layout: Layout,
        /// True once it has had data: then it stays.
        is_fixed: bool,
    },
}

impl Client {
    /// The striping of a file, or of those that are made in a directory.
    ///
    /// # Errors
    /// `Invalid` for what is neither; `Stale` when there is no such inode.
    pub fn layout(&self, caller: &Credentials, ino: Ino) -> Result<LayoutOf> {
        let core = self.core();
        // Writes of this client that are not reported make a file one with data.
        let inode = inode_of(core.ask(
            caller,
            Target::Inode(ino),
            Request::GetAttr(op::GetAttr { ino }),
        )?)?;
        match (inode.dir, inode.body) {
            (Some(dir), _) => Ok(LayoutOf::Dir(dir.settings.layout.unwrap_or_default())),
            (None, FileBody::Inline { layout, .. }) => Ok(LayoutOf::File {
                layout,
                is_fixed: inode.attr.size > 0,
            }),
            (None, FileBody::Striped(layout) | FileBody::Sparse(layout)) => Ok(LayoutOf::File {
                layout,
                is_fixed: true,
            }),
            (None, FileBody::None) => Err(FsError::Invalid.into()),
        }
    }

    /// Chooses how a file is striped, or those that are made in a directory from now on.
    ///
    /// # Errors
    /// `NotEmpty` for a file that has data; `NotPermitted` for callers that do not own it;
    /// `Invalid` for what the servers cannot do, and for what is neither.
    pub fn set_layout(&self, caller: &Credentials, ino: Ino, layout: LayoutChoice) -> Result<()> {
        let core = self.core();
        let request = match self.layout(caller, ino)? {
            LayoutOf::Dir(_) => {
                let settings = DirSettings {
                    layout: Some(layout),
                    ..DirSettings::default()
                };
                return self.set_dir_settings(caller, ino, settings);
            }
            LayoutOf::File { .. } => Request::SetLayout(op::SetLayout { ino, layout }),
        };
        let file = core.opens.file(ino);
        let token = file.as_ref().map(|file| file.token());
        let inode = inode_of(core.ask(caller, Target::Inode(ino), request)?)?;
        if let (Some(file), Some(token)) = (&file, token) {
            file.learn(token, &inode);
        }
        Ok(())
    }

    /// The attribute's value; `NoAttribute` of a directory for which nothing is chosen.
    pub(crate) fn layout_xattr(&self, caller: &Credentials, ino: Ino) -> Result<Vec<u8>> {
        match self.layout(caller, ino).map_err(no_attribute)? {
            LayoutOf::Dir(choice) if choice == LayoutChoice::default() => {
                Err(FsError::NoAttribute.into())
            }
            LayoutOf::Dir(choice) => Ok(layout_text(&choice).into_bytes()),
            LayoutOf::File { layout, .. } => Ok(layout_text(&chosen(&layout)).into_bytes()),
        }
    }

    pub(crate) fn set_layout_xattr(
        &self,
        caller: &Credentials,
        ino: Ino,
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        let text = std::str::from_utf8(value).map_err(|_| FsError::Invalid)?;
        let choice = parse_layout(text).map_err(|_| FsError::Invalid)?;
        let is_there = match self.layout_xattr(caller, ino) {
            Err(ClientError::Fs(FsError::NoAttribute)) => false,
            result => result.map(|_| true)?,
        };
        match mode {
            XattrMode::Create if is_there => Err(FsError::Exists.into()),
            XattrMode::Replace if !is_there => Err(FsError::NoAttribute.into()),
            _ => self.set_layout(caller, ino, choice),
        }
    }

    /// Back to the file system's default.
    pub(crate) fn remove_layout_xattr(&self, caller: &Credentials, ino: Ino) -> Result<()> {
        self.layout_xattr(caller, ino)?;
        self.set_layout(caller, ino, LayoutChoice::default())
    }
}

/// The error for an inode that is neither file nor directory.
fn no_attribute(error: ClientError) -> ClientError {
    match error {
        ClientError::Fs(FsError::Invalid) => FsError::NoAttribute.into(),
        error => error,
    }
}

/// The choice that leads to this layout.
pub fn chosen(layout: &Layout) -> LayoutChoice {
    LayoutChoice {
        unit: Some(layout.unit),
        count: Some(layout.count),
        first: Some(layout.first),
    }
}

/// `unit=1048576 count=4 first=2`; what is not chosen is left out.
pub fn layout_text(choice: &LayoutChoice) -> String {
    let parts = [
        choice.unit.map(|unit| format!("unit={unit}")),
        choice.count.map(|count| format!("count={count}")),
        choice.first.map(|first| format!("first={first}")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Reads what [`layout_text`] writes; words in any order, units of bytes with K, M or G as well.
///
/// # Errors
/// A text that says what is wrong.
pub fn parse_layout(text: &str) -> std::result::Result<LayoutChoice, String> {
    let mut choice = LayoutChoice::default();
    for word in text.split_whitespace() {
        let wrong = || format!("'{word}' is no unit=BYTES, count=SERVERS or first=SERVER");
        let (key, value) = word.split_once('=').ok_or_else(wrong)?;
        let is_again = match key {
            "unit" => choice.unit.replace(parse_unit(value)?).is_some(),
            "count" => {
                let count = value.parse().map_err(|_| wrong())?;
                choice.count.replace(count).is_some()
            }
            "first" => {
                let first = ServerId(value.parse().map_err(|_| wrong())?);
                choice.first.replace(first).is_some()
            }
            _ => return Err(wrong()),
        };
        if is_again {
            return Err(format!("'{key}' stands there twice"));
        }
    }
    Ok(choice)
}

/// Bytes of a stripe unit, as a number or with K, M or G.
///
/// # Errors
/// A text that says what it has to be.
pub fn parse_unit(text: &str) -> std::result::Result<u32, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K' | b'k') => (&text[..text.len() - 1], 10),
        Some(b'M' | b'm') => (&text[..text.len() - 1], 20),
        Some(b'G' | b'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let bytes = digits
        .parse::<u32>()
        .ok()
        .and_then(|number| number.checked_mul(1 << shift));
    bytes
        .filter(|bytes| {
            (MIN_STRIPE_UNIT_BYTES..=MAX_STRIPE_UNIT_BYTES).contains(bytes)
                && bytes.is_multiple_of(MIN_STRIPE_UNIT_BYTES)
        })
        .ok_or_else(|| {
            format!(
                "'{text}' is no stripe unit: a multiple of {} KiB up to {} GiB, as 64K or 1M",
                MIN_STRIPE_UNIT_BYTES >> 10,
                MAX_STRIPE_UNIT_BYTES >> 30
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let choice = LayoutChoice {
            unit: Some(65_536),
            count: Some(2),
            first: Some(ServerId(3)),
        };
        assert_eq!(layout_text(&choice), "unit=65536 count=2 first=3");
        for choice in [
            choice,
            LayoutChoice {
                count: None,
                ..choice
            },
            LayoutChoice::default(),
        ] {
            assert_eq!(parse_layout(&layout_text(&choice)), Ok(choice));
        }
        let words = parse_layout(" first=0  unit=64K\n");
        assert_eq!(
            words.map(|c| layout_text(&c)),
            Ok("unit=65536 first=0".into())
        );
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, said) in [
            ("64K", "is no unit=BYTES"),
            ("size=4", "is no unit=BYTES"),
            ("count=-1", "is no unit=BYTES"),
            ("count=70000", "is no unit=BYTES"),
            ("unit=5000", "multiple of 4 KiB up to 1 GiB"),
            ("unit=4G", "multiple of 4 KiB up to 1 GiB"),
            ("unit=", "multiple of 4 KiB up to 1 GiB"),
            ("count=1 count=2", "twice"),
        ] {
            let error = parse_layout(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
