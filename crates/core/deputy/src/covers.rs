//! Requests that an image decides: those that go by nothing but names, directories and inodes that are exclusive.

use crate::image::Image;
use pandofs_api::{Request, op};
use pandofs_namespace::records::{Body, EntryRecord};
use pandofs_namespace::{Stop, View};
use pandofs_types::{AclKind, FileKind, Ino, Name};

/// Test that the image says what comes of the request, with that of another shard where the request is about both.
pub(crate) fn decides(
    image: &Image,
    other: Option<&Image>,
    view: &View<'_>,
    request: &Request,
) -> Result<bool, Stop> {
    let covers = Covers { image, view };
    let is_granted = |dir: &Ino| image.granted.contains(dir);
    let is_granted_there = |dir: &Ino| other.is_some_and(|other| other.granted.contains(dir));
    let is_made = |ino: &Ino| image.made.contains(ino);
    if covers.changes_paths(request)? {
        return Ok(false);
    }
    Ok(match request {
        Request::Lookup(op::Lookup { dir, name }) => {
            is_granted(dir)
                && covers
                    .entry(*dir, name)?
                    .is_none_or(|entry| entry.shard != image.shard || image.is_exclusive(entry.ino))
        }
        Request::ReadDir(op::ReadDir { dir, plus, .. }) => {
            is_granted(dir) && (!plus || covers.knows_children(*dir)?)
        }
        Request::DirPart(op::DirPart { dir }) => is_granted(dir),
        Request::GetAttr(op::GetAttr { ino })
        | Request::GetXattr(op::GetXattr { ino, .. })
        | Request::ListXattr(op::ListXattr { ino })
        | Request::SetXattr(op::SetXattr { ino, .. })
        | Request::RemoveXattr(op::RemoveXattr { ino, .. }) => image.is_exclusive(*ino),
        Request::Open(op::Open {
            ino,
            truncate: false,
            ..
        })
        | Request::ReadLink(op::ReadLink { ino })
        | Request::ReadInline(op::ReadInline { ino })
        | Request::Followed(op::Followed { ino })
        | Request::WriteInline(op::WriteInline { ino, .. })
        | Request::WroteData(op::WroteData { ino, .. }) => is_made(ino),
        Request::SetAttr(op::SetAttr { ino, set }) => match set.size {
            // Data objects are truncated by the shard's driver.
            Some(_) => is_made(ino) && covers.is_inline(*ino)?,
            None => image.is_exclusive(*ino),
        },
        Request::WriteNew(op::WriteNew { ino, .. }) => is_made(ino) && covers.is_empty(*ino)?,
        Request::Stripe(op::Stripe { ino }) => is_made(ino) && covers.has_nothing_inline(*ino)?,
        Request::Create(op::Create { dir, .. }) => is_granted(dir),
        // Where a new directory has several partitions the shard chooses their places.
        Request::Mkdir(op::Mkdir { dir, .. }) => {
            is_granted(dir) && covers.new_directories_are_whole(*dir)?
        }
        Request::Unlink(op::Unlink { dir, name }) => {
            is_granted(dir)
                && covers
                    .entry(*dir, name)?
                    .is_none_or(|entry| entry.kind == FileKind::Dir || is_made(&entry.ino))
        }
        Request::Rmdir(op::Rmdir { dir, name }) => {
            is_granted(dir)
                && covers.entry(*dir, name)?.is_none_or(|entry| {
                    entry.kind != FileKind::Dir
                        || is_granted(&entry.ino)
                        || is_granted_there(&entry.ino)
                })
        }
        Request::Link(op::Link { dir, ino, .. }) => is_granted(dir) && is_made(ino),
        Request::Rename(rename) => covers.rename(rename)?,
        _ => false,
    })
}

struct Covers<'a> {
    image: &'a Image,
    view: &'a View<'a>,
}

impl Covers<'_> {
    fn entry(&self, dir: Ino, name: &Name) -> Result<Option<EntryRecord>, Stop> {
        let position = self.view.map.hash_key.position(name.as_bytes());
        self.view.entry(dir, position, name)
    }

    /// Whether all inodes are exclusive that a listing with attributes tells.
    fn knows_children(&self, dir: Ino) -> Result<bool, Stop> {
        let children = self.image.children(dir)?;
        Ok(children
            .iter()
            .all(|child| child.shard != self.image.shard || self.image.is_exclusive(child.ino)))
    }

    /// Whether paths through a directory may lead elsewhere afterwards, or be allowed to others: where there are requests
    /// by path every shard that they go to has to know of it before it is answered.
    fn changes_paths(&self, request: &Request) -> Result<bool, Stop> {
        if self.view.map.settings.path_shards.is_none() {
            return Ok(false);
        }
        let is_dir = |ino: Ino| -> Result<bool, Stop> {
            let is_exclusive = self.image.is_exclusive(ino);
            Ok(!is_exclusive || self.view.inode(ino)?.kind == FileKind::Dir)
        };
        match request {
            Request::SetAttr(op::SetAttr { ino, set }) => {
                let rights = set.mode.is_some() || set.uid.is_some() || set.gid.is_some();
                Ok(rights && is_dir(*ino)?)
            }
            Request::SetXattr(op::SetXattr { ino, name, .. })
            | Request::RemoveXattr(op::RemoveXattr { ino, name }) => {
                Ok(AclKind::of_name(name).is_some() && is_dir(*ino)?)
            }
            Request::Rename(op::Rename { dir, name, .. }) => {
                // Where the entry is not known nothing is decided.
                let moves = self.image.granted.contains(dir)
                    && self
                        .entry(*dir, name)?
                        .is_some_and(|entry| entry.kind == FileKind::Dir);
                Ok(moves)
            }
            _ => Ok(false),
        }
    }

    fn is_inline(&self, ino: Ino) -> Result<bool, Stop> {
        Ok(matches!(self.view.inode(ino)?.body, Body::Inline { .. }))
    }

    fn has_nothing_inline(&self, ino: Ino) -> Result<bool, Stop> {
        Ok(match self.view.inode(ino)?.body {
            Body::Inline { held, .. } => held == 0,
            _ => true,
        })
    }

    fn is_empty(&self, ino: Ino) -> Result<bool, Stop> {
        let inode = self.view.inode(ino)?;
        Ok(inode.size == 0 && matches!(inode.body, Body::Inline { .. }))
    }

    fn new_directories_are_whole(&self, dir: Ino) -> Result<bool, Stop> {
        let settings = self.view.parts(dir)?.map(|parts| parts.settings);
        let initial = settings.and_then(|settings| settings.initial_partitions);
        Ok(initial.unwrap_or(self.view.map.settings.initial_partitions) <= 1)
    }

    fn rename(&self, rename: &op::Rename) -> Result<bool, Stop> {
        let image = self.image;
        let are_granted =
            image.granted.contains(&rename.dir) && image.granted.contains(&rename.new_dir);
        if !are_granted || rename.whiteout {
            return Ok(false);
        }
        let is_whole = |entry: &EntryRecord| match entry.kind {
            FileKind::Dir => image.granted.contains(&entry.ino),
            _ => image.made.contains(&entry.ino),
        };
        let Some(old) = self.entry(rename.dir, &rename.name)? else {
            return Ok(true);
        };
        // Above a directory that moves to another one are others that are not granted.
        let stays = old.kind != FileKind::Dir || rename.dir == rename.new_dir;
        let victim = self.entry(rename.new_dir, &rename.new_name)?;
        Ok(stays && is_whole(&old) && victim.is_none_or(|victim| is_whole(&victim)))
    }
}
