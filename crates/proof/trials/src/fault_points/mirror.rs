//! A tree that is changed through the client library, beside what it must be.

use super::hunt::Hunt;
use crate::cluster::{CALLER, name};
use anyhow::{Context, Result, bail, ensure};
use pandofs_api::{NewNode, XattrMode};
use pandofs_client::{Client, OpenHow};
use pandofs_types::{FileKind, Ino, Name, SetAttr};
use std::collections::BTreeMap;

/// Bytes that are read back of a file, more than any has.
const READ_BYTES: usize = 1 << 20;
const EXCLUSIVE: OpenHow = OpenHow {
    access: 6,
    truncate: false,
    exclusive: true,
};

/// File, directory or link at a name.
#[derive(Clone, Debug)]
struct Inode {
    ino: Ino,
    kind: FileKind,
    mode: u16,
    /// A file's contents, or where a symbolic link leads.
    content: Vec<u8>,
    /// The one extended attribute that a trial gives.
    attribute: Option<Vec<u8>>,
}

/// Each change must succeed the first time it is asked for: the library repeats what a killed server may or may not
/// have done, and the servers do it once. Where a server has died in the meantime everything is looked at after it.
#[derive(Debug)]
pub(super) struct Mirror<'a> {
    client: &'a Client,
    hunt: &'a Hunt<'a>,
    root: Ino,
    inodes: Vec<Inode>,
    /// By path below the root; several of a file with several names.
    paths: BTreeMap<String, usize>,
}

impl<'a> Mirror<'a> {
    pub(super) fn new(client: &'a Client, hunt: &'a Hunt<'a>, root: Ino) -> Mirror<'a> {
        Mirror {
            client,
            hunt,
            root,
            inodes: Vec::new(),
            paths: BTreeMap::new(),
        }
    }

    /// Looks at everything if a server has died.
    ///
    /// # Errors
    /// A part that is not as it must be.
    pub(super) fn check(&self) -> Result<()> {
        self.hunt.check(|| self.verify())
    }

    /// # Errors
    /// Fails if the mirror has no such path.
    pub(super) fn ino(&self, path: &str) -> Result<Ino> {
        Ok(self.inodes[self.index(path)?].ino)
    }

    fn index(&self, path: &str) -> Result<usize> {
        let index = self.paths.get(path).copied();
        index.with_context(|| format!("the trial has no {path}"))
    }

    fn at(&self, path: &str) -> Result<(Ino, Name)> {
        match path.rsplit_once('/') {
            Some((above, last)) => Ok((self.ino(above)?, name(last)?)),
            None => Ok((self.root, name(path)?)),
        }
    }

    fn made(&mut self, path: &str, ino: Ino, kind: FileKind, mode: u16, content: &[u8]) {
        self.paths.insert(path.to_string(), self.inodes.len());
        self.inodes.push(Inode {
            ino,
            kind,
            mode,
            content: content.to_vec(),
            attribute: None,
        });
    }

    pub(super) fn mkdir(&mut self, path: &str) -> Result<Ino> {
        let (dir, name) = self.at(path)?;
        let ino = self.client.mkdir(&CALLER, dir, &name, 0o755)?.ino;
        self.made(path, ino, FileKind::Dir, 0o755, &[]);
        self.check()?;
        Ok(ino)
    }

    /// Makes a file and leaves it open.
    pub(super) fn create(&mut self, path: &str, content: &[u8]) -> Result<Ino> {
        let (dir, name) = self.at(path)?;
        let ino = self
            .client
            .create(&CALLER, dir, &name, 0o644, EXCLUSIVE)?
            .node
            .ino;
        self.made(path, ino, FileKind::File, 0o644, &[]);
        self.write(path, 0, content)?;
        Ok(ino)
    }

    pub(super) fn file(&mut self, path: &str, content: &[u8]) -> Result<()> {
        let ino = self.create(path, content)?;
        // Once more, and reported to the inode's shard at once: the first time that was done when no server was to die,
        // by the client of itself while everything was looked at.
        self.client.write(&CALLER, ino, 0, content)?;
        self.client.fsync(&CALLER, ino)?;
        self.check()?;
        self.client.release(ino)?;
        self.check()
    }

    /// Of a file that is open.
    pub(super) fn write(&mut self, path: &str, offset: usize, content: &[u8]) -> Result<()> {
        let index = self.index(path)?;
        let inode = &mut self.inodes[index];
        self.client
            .write(&CALLER, inode.ino, offset as u64, content)?;
        let end = offset + content.len();
        if inode.content.len() < end {
            inode.content.resize(end, 0);
        }
        inode.content[offset..end].copy_from_slice(content);
        self.check()
    }

    pub(super) fn unnamed(&mut self, dir: &str, path: &str, content: &[u8]) -> Result<()> {
        let dir = self.ino(dir)?;
        let made = self
            .client
            .create_unnamed(&CALLER, dir, 0o644.into(), true)?;
        self.client.write(&CALLER, made.ino, 0, content)?;
        let (dir, name) = self.at(path)?;
        self.client.link(&CALLER, made.ino, dir, &name)?;
        self.client.release(made.ino)?;
        self.made(path, made.ino, FileKind::File, 0o644, content);
        self.check()
    }

    pub(super) fn symlink(&mut self, path: &str, target: &str) -> Result<()> {
        let (dir, name) = self.at(path)?;
        let node = self
            .client
            .symlink(&CALLER, dir, &name, target.as_bytes())?;
        self.made(path, node.ino, FileKind::Symlink, 0o777, target.as_bytes());
        self.check()
    }

    pub(super) fn fifo(&mut self, path: &str) -> Result<()> {
        let (dir, name) = self.at(path)?;
        let node = self
            .client
            .mknod(&CALLER, dir, &name, NewNode::Fifo, 0o600)?;
        self.made(path, node.ino, FileKind::Fifo, 0o600, &[]);
        self.check()
    }

    pub(super) fn link(&mut self, path: &str, new: &str) -> Result<()> {
        let (dir, name) = self.at(new)?;
        let index = self.index(path)?;
        self.client
            .link(&CALLER, self.inodes[index].ino, dir, &name)?;
        self.paths.insert(new.to_string(), index);
        self.check()
    }

    pub(super) fn rename(&mut self, path: &str, new: &str) -> Result<()> {
        let ((dir, name), (new_dir, new_name)) = (self.at(path)?, self.at(new)?);
        self.client
            .rename(&CALLER, dir, &name, new_dir, &new_name, false)?;
        self.paths.remove(new);
        self.paths = std::mem::take(&mut self.paths)
            .into_iter()
            .map(|(other, index)| (moved(&other, path, new), index))
            .collect();
        self.check()
    }

    pub(super) fn exchange(&mut self, path: &str, other: &str) -> Result<()> {
        let ((dir, name), (other_dir, other_name)) = (self.at(path)?, self.at(other)?);
        self.client
            .exchange(&CALLER, dir, &name, other_dir, &other_name)?;
        self.paths = std::mem::take(&mut self.paths)
            .into_iter()
            .map(|(found, index)| match moved(&found, path, other) {
                moved if moved != found => (moved, index),
                _ => (moved(&found, other, path), index),
            })
            .collect();
        self.check()
    }

    pub(super) fn unlink(&mut self, path: &str) -> Result<()> {
        let (dir, name) = self.at(path)?;
        self.client.unlink(&CALLER, dir, &name)?;
        self.paths.remove(path);
        self.check()
    }

    pub(super) fn rmdir(&mut self, path: &str) -> Result<()> {
        let (dir, name) = self.at(path)?;
        self.client.rmdir(&CALLER, dir, &name)?;
        self.paths.remove(path);
        self.check()
    }

    pub(super) fn chmod(&mut self, path: &str, mode: u16) -> Result<()> {
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        let index = self.index(path)?;
        let inode = &mut self.inodes[index];
        self.client.setattr(&CALLER, inode.ino, set)?;
        inode.mode = mode;
        self.check()
    }

    pub(super) fn truncate(&mut self, path: &str, size: usize) -> Result<()> {
        let set = SetAttr {
            size: Some(size as u64),
            ..SetAttr::default()
        };
        let index = self.index(path)?;
        let inode = &mut self.inodes[index];
        self.client.setattr(&CALLER, inode.ino, set)?;
        inode.content.resize(size, 0);
        self.check()
    }

    pub(super) fn set_attribute(&mut self, path: &str, value: Option<&[u8]>) -> Result<()> {
        let index = self.index(path)?;
        let inode = &mut self.inodes[index];
        match value {
            Some(value) => {
                self.client
                    .setxattr(&CALLER, inode.ino, ATTRIBUTE, value, XattrMode::Either)?;
            }
            None => self.client.removexattr(&CALLER, inode.ino, ATTRIBUTE)?,
        }
        inode.attribute = value.map(<[u8]>::to_vec);
        self.check()
    }

    /// The whole tree is what it must be.
    ///
    /// # Errors
    /// A part that is not.
    pub(super) fn verify(&self) -> Result<()> {
        let mut found = BTreeMap::new();
        self.list(self.root, "", &mut found)?;
        for path in found.keys() {
            ensure!(self.paths.contains_key(path), "{path} should not be there");
        }
        for (path, &index) in &self.paths {
            let inode = &self.inodes[index];
            let Some(ino) = found.get(path) else {
                bail!("{path} is missing");
            };
            ensure!(
                *ino == inode.ino,
                "{path} leads to {ino}, not {}",
                inode.ino
            );
            self.verify_inode(path, index)
                .with_context(|| format!("{path} is not as it was left"))?;
        }
        Ok(())
    }

    fn list(&self, dir: Ino, above: &str, found: &mut BTreeMap<String, Ino>) -> Result<()> {
        for entry in self.client.list(&CALLER, dir) {
            let entry = entry?;
            let path = format!("{above}{}", entry.name);
            if entry.kind == FileKind::Dir {
                self.list(entry.ino, &format!("{path}/"), found)?;
            }
            ensure!(
                found.insert(path.clone(), entry.ino).is_none(),
                "{path} is listed twice"
            );
        }
        Ok(())
    }

    fn verify_inode(&self, path: &str, index: usize) -> Result<()> {
        let inode = &self.inodes[index];
        let attr = self.client.getattr(&CALLER, inode.ino)?;
        let below = format!("{path}/");
        let inside = || {
            let inside = self.paths.range(below.clone()..);
            inside.filter_map(|(path, &index)| {
                let rest = path.strip_prefix(&below)?;
                (!rest.contains('/')).then_some(index)
            })
        };
        let (nlink, size) = match inode.kind {
            FileKind::Dir => {
                let dirs = inside().filter(|&index| self.inodes[index].kind == FileKind::Dir);
                (2 + dirs.count(), inside().count())
            }
            _ => {
                let names = self.paths.values().filter(|&&other| other == index);
                (names.count(), inode.content.len())
            }
        };
        let is = (attr.kind, attr.mode, attr.nlink as usize, attr.size);
        let wanted = (inode.kind, inode.mode, nlink, size as u64);
        ensure!(
            is == wanted,
            "kind, mode, links and size: {is:?}, not {wanted:?}"
        );
        match inode.kind {
            FileKind::File => {
                let read = self.client.read(&CALLER, inode.ino, 0, READ_BYTES)?;
                ensure!(read == inode.content, "it has other contents");
            }
            FileKind::Symlink => {
                let target = self.client.readlink(&CALLER, inode.ino)?;
                ensure!(target == inode.content, "it leads elsewhere");
            }
            _ => {}
        }
        let attributes = self.client.listxattr(&CALLER, inode.ino)?;
        ensure!(
            attributes.contains(&ATTRIBUTE.to_vec()) == inode.attribute.is_some(),
            "it has the attributes {attributes:?}"
        );
        if let Some(value) = &inode.attribute {
            let is = self.client.getxattr(&CALLER, inode.ino, ATTRIBUTE)?;
            ensure!(is == *value, "its attribute has another value");
        }
        Ok(())
    }

    /// Everything, from the bottom up.
    pub(super) fn remove_all(&mut self) -> Result<()> {
        let paths: Vec<String> = self.paths.keys().rev().cloned().collect();
        for path in paths {
            match self.inodes[self.index(&path)?].kind {
                FileKind::Dir => self.rmdir(&path),
                _ => self.unlink(&path),
            }
            .with_context(|| format!("removing {path}"))?;
        }
        Ok(())
    }
}

const ATTRIBUTE: &[u8] = b"user.trial";

/// Returns the place of a path after `from` has become `to`.
fn moved(path: &str, from: &str, to: &str) -> String {
    match path.strip_prefix(from) {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => format!("{to}{rest}"),
        _ => path.to_string(),
    }
}
