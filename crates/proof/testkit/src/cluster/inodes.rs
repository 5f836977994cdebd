//! The cluster worked on by inode numbers.

use super::Cluster;
use super::files::inode_of;
use super::session::{Refused, Target, unexpected};
use crate::inodes::{Done, Inodes, Make};
use crate::op::{Special, XattrMode};
use crate::rng::Rng;
use crate::subject::Census;
use pandofs_api::{Allocation, DirPart, EntryReply, NewNode, Reply, Request, op};
use pandofs_client::RenameHow;
use pandofs_placement::{DirMap, Gather};
use pandofs_types::{Attr, Credentials, FileKind, Ino, Name, Position, SetAttr, Time};
use std::ops::Range;

impl Cluster {
    fn entry(&mut self, client: usize, reply: Reply) -> Done<EntryReply> {
        match reply {
            Reply::Entry(entry) => {
                self.sessions[client].learn_inode(entry.ino, entry.shard);
                Ok(entry)
            }
            other => Err(unexpected(&other)),
        }
    }

    /// A directory's attributes, gathered from every shard that has a part of it: `attr` is the home's, which
    /// knows `map`.
    fn gather(
        &mut self,
        client: usize,
        by: &Credentials,
        attr: &mut Attr,
        map: DirMap,
    ) -> Done<()> {
        let dir = attr.ino;
        let home = DirPart {
            entries: attr.size,
            subdirs: attr.nlink - 2,
            mtime: attr.mtime,
            ctime: attr.ctime,
            map: map.clone(),
        };
        let mut gather = Gather::new(self.sessions[client].map(dir));
        gather.answer(dir.birth_shard(), map, home);
        loop {
            let shards = gather.ask();
            if shards.is_empty() {
                break;
            }
            for shard in shards {
                match self.ask(
                    client,
                    by,
                    Target::Shard(shard),
                    Request::DirPart(op::DirPart { dir }),
                ) {
                    Ok(Reply::Part(part)) => {
                        self.sessions[client].learn_map(dir, &part.map);
                        gather.answer(shard, part.map.clone(), part);
                    }
                    Ok(other) => return Err(unexpected(&other)),
                    Err(Refused::NoPart) => {
                        gather.nothing(shard, Some(&self.sessions[client].map(dir)));
                    }
                    Err(other) => return Err(other.into()),
                }
            }
        }
        (attr.size, attr.nlink, attr.mtime) = (0, 2, Time(i64::MIN));
        for (_, part) in gather.finish().1 {
            attr.size += part.entries;
            attr.nlink += part.subdirs;
            attr.mtime = attr.mtime.max(part.mtime);
            attr.ctime = attr.ctime.max(part.ctime);
        }
        Ok(())
    }
}

impl Inodes for Cluster {
    fn begin(&mut self, hash: u64) -> usize {
        self.rng = Rng::new(self.config.seed ^ hash);
        if self.rng.chance(1, 4) {
            self.slowness = self.rng.next_u64();
        }
        // Some of what is under way goes on between two operations of the test.
        while self.rng.chance(1, 2) && !self.mail.is_empty() {
            self.work();
        }
        self.rng.below(self.sessions.len() as u64) as usize
    }

    fn lookup(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
    ) -> Done<(Ino, FileKind)> {
        let request = Request::Lookup(op::Lookup {
            dir,
            name: name.clone(),
        });
        let reply = self.at_name(client, by, dir, name, request)?;
        self.entry(client, reply)
            .map(|entry| (entry.ino, entry.kind))
    }

    fn create(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
        mode: u16,
    ) -> Done<Ino> {
        let request = Request::Create(op::Create {
            dir,
            name: name.clone(),
            node: NewNode::File,
            mode,
            umask: 0,
            open: true,
        });
        let reply = self.at_name(client, by, dir, name, request)?;
        let entry = self.entry(client, reply)?;
        self.sessions[client].opened(entry.ino);
        Ok(entry.ino)
    }

    fn create_unnamed(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        mode: u16,
        may_be_named: bool,
    ) -> Done<Ino> {
        let at = Position(self.rng.below(Position::END.0));
        let request = Request::CreateUnnamed(op::CreateUnnamed {
            dir,
            at,
            mode,
            umask: 0,
            may_be_named,
        });
        let target = Target::Place { dir, position: at };
        let reply = self.expect(client, by, target, request)?;
        let entry = self.entry(client, reply)?;
        self.sessions[client].opened(entry.ino);
        Ok(entry.ino)
    }

    fn make(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
        make: &Make,
        mode: u16,
    ) -> Done<()> {
        let new = |node| {
            Request::Create(op::Create {
                dir,
                name: name.clone(),
                node,
                mode,
                umask: 0,
                open: false,
            })
        };
        let request = match make {
            Make::Dir => Request::Mkdir(op::Mkdir {
                dir,
                name: name.clone(),
                mode,
                umask: 0,
            }),
            Make::Symlink(target) => new(NewNode::Symlink {
                target: target.clone(),
            }),
            Make::Special(Special::Fifo) => new(NewNode::Fifo),
            Make::Special(Special::Socket) => new(NewNode::Socket),
            Make::Special(Special::Char { rdev }) => new(NewNode::Char { rdev: *rdev }),
        };
        let reply = self.at_name(client, by, dir, name, request)?;
        self.entry(client, reply)?;
        if self.base.is_none() {
            // This is the root of the test's tree; only what comes below it counts.
            self.base = Some(Census {
                entries: 1,
                inodes: 1,
            });
        }
        Ok(())
    }

    fn link(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        dir: Ino,
        name: &Name,
    ) -> Done<()> {
        let inode_shard = self.sessions[client].shard_of_inode(ino);
        let request = Request::Link(op::Link {
            dir,
            name: name.clone(),
            ino,
            inode_shard,
        });
        let reply = self.at_name(client, by, dir, name, request)?;
        self.entry(client, reply).map(|_| ())
    }

    fn remove(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
        name: &Name,
        directory: bool,
    ) -> Done<()> {
        let name_again = name.clone();
        let request = if directory {
            Request::Rmdir(op::Rmdir {
                dir,
                name: name_again,
            })
        } else {
            Request::Unlink(op::Unlink {
                dir,
                name: name_again,
            })
        };
        match self.at_name(client, by, dir, name, request)? {
            Reply::Removed { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn rename(
        &mut self,
        client: usize,
        by: &Credentials,
        from: (Ino, &Name),
        to: (Ino, &Name),
        how: RenameHow,
    ) -> Done<()> {
        let request = Request::Rename(op::Rename {
            dir: from.0,
            name: from.1.clone(),
            new_dir: to.0,
            new_name: to.1.clone(),
            new_shard: to.0.birth_shard(),
            no_replace: how.no_replace,
            whiteout: how.whiteout,
        });
        match self.at_name(client, by, from.0, from.1, request)? {
            Reply::Renamed { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn exchange(
        &mut self,
        client: usize,
        by: &Credentials,
        from: (Ino, &Name),
        to: (Ino, &Name),
    ) -> Done<()> {
        let request = Request::Exchange(op::Exchange {
            dir: from.0,
            name: from.1.clone(),
            new_dir: to.0,
            new_name: to.1.clone(),
            // Filled in for each attempt.
            new_shard: pandofs_types::ShardId(0),
        });
        match self.at_name(client, by, from.0, from.1, request)? {
            Reply::Exchanged { .. } => Ok(()),
            other => Err(unexpected(&other)),
        }
    }

    fn attr(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<Attr> {
        let reply = self.expect(
            client,
            by,
            Target::Inode(ino),
            Request::GetAttr(op::GetAttr { ino }),
        )?;
        let inode = inode_of(reply)?;
        let mut attr = inode.attr;
        if let Some(dir) = inode.dir {
            self.sessions[client].learn_map(ino, &dir.map);
            self.gather(client, by, &mut attr, dir.map)?;
        }
        Ok(attr)
    }

    fn set_attr(&mut self, client: usize, by: &Credentials, ino: Ino, set: SetAttr) -> Done<()> {
        let reply = self.expect(
            client,
            by,
            Target::Inode(ino),
            Request::SetAttr(op::SetAttr { ino, set }),
        )?;
        inode_of(reply).map(|_| ())
    }

    fn read_dir(
        &mut self,
        client: usize,
        by: &Credentials,
        dir: Ino,
    ) -> Done<Vec<(Vec<u8>, FileKind)>> {
        let mut entries = Vec::new();
        let mut from = Position::FIRST;
        while from < Position::END {
            let target = Target::Place {
                dir,
                position: from,
            };
            // Small pages, so that a listing goes over many.
            let request = Request::ReadDir(op::ReadDir {
                dir,
                from,
                plus: true,
                max_entries: 3,
                max_bytes: 1 << 16,
            });
            let page = match self.expect(client, by, target, request)? {
                Reply::Entries(page) => page,
                other => return Err(unexpected(&other)),
            };
            self.sessions[client].learn_map(dir, &page.map);
            assert!(page.next > from, "a listing goes on where it was");
            from = page.next;
            for entry in page.entries {
                if let Some(inode) = &entry.inode {
                    assert!(inode.attr.ino == entry.ino && inode.attr.kind == entry.kind);
                }
                entries.push((entry.name.as_bytes().to_vec(), entry.kind));
            }
        }
        Ok(entries)
    }

    fn read_link(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<Vec<u8>> {
        match self.expect(
            client,
            by,
            Target::Inode(ino),
            Request::ReadLink(op::ReadLink { ino }),
        )? {
            Reply::Link(target) => Ok(target),
            other => Err(unexpected(&other)),
        }
    }

    fn set_xattr(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Done<()> {
        let request = Request::SetXattr(op::SetXattr {
            ino,
            name: name.to_vec(),
            value: value.to_vec(),
            mode: mode.into(),
        });
        self.expect(client, by, Target::Inode(ino), request)
            .map(|_| ())
    }

    fn get_xattr(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        name: &[u8],
    ) -> Done<Vec<u8>> {
        let request = Request::GetXattr(op::GetXattr {
            ino,
            name: name.to_vec(),
        });
        match self.expect(client, by, Target::Inode(ino), request)? {
            Reply::Value(value) => Ok(value),
            other => Err(unexpected(&other)),
        }
    }

    fn list_xattr(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<Vec<Vec<u8>>> {
        match self.expect(
            client,
            by,
            Target::Inode(ino),
            Request::ListXattr(op::ListXattr { ino }),
        )? {
            Reply::Names(names) => Ok(names.into_iter().map(|name| name.into_vec()).collect()),
            other => Err(unexpected(&other)),
        }
    }

    fn remove_xattr(&mut self, client: usize, by: &Credentials, ino: Ino, name: &[u8]) -> Done<()> {
        let request = Request::RemoveXattr(op::RemoveXattr {
            ino,
            name: name.to_vec(),
        });
        self.expect(client, by, Target::Inode(ino), request)
            .map(|_| ())
    }

    fn open(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        access: u16,
        truncate: bool,
    ) -> Done<()> {
        let request = Request::Open(op::Open {
            ino,
            access,
            truncate,
            data: false,
        });
        self.expect(client, by, Target::Inode(ino), request)?;
        self.sessions[client].opened(ino);
        Ok(())
    }

    fn close(&mut self, client: usize, ino: Ino) -> Done<()> {
        self.sessions[client].closed(ino);
        let mut target = Target::Inode(ino);
        loop {
            let request = Request::Release(op::Release { inos: vec![ino] });
            let reply = self.expect(client, &Credentials::ROOT, target, request)?;
            let Reply::NotClosed(left) = reply else {
                return Ok(());
            };
            let &[(_, shard)] = &left[..] else {
                panic!("one close was asked for, and left are {left:?}");
            };
            target = Target::Shard(shard);
        }
    }

    fn read(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        length: u32,
    ) -> Done<Vec<u8>> {
        self.read_file(client, by, ino, offset, length)
    }

    fn write(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        data: &[u8],
    ) -> Done<()> {
        self.write_file(client, by, ino, offset, data)
    }

    fn sync(&mut self, client: usize, by: &Credentials, ino: Ino) -> Done<()> {
        let shard = self.sessions[client].shard_of_inode(ino);
        self.expect(client, by, Target::Shard(shard), Request::Sync(op::Sync))
            .map(|_| ())
    }

    fn allocate(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        range: Range<u64>,
        allocation: Allocation,
    ) -> Done<()> {
        self.allocate_file(client, by, ino, range, allocation)
    }

    fn seek(
        &mut self,
        client: usize,
        by: &Credentials,
        ino: Ino,
        offset: u64,
        data: bool,
    ) -> Done<Option<u64>> {
        self.seek_file(client, by, ino, offset, data)
    }

    fn append(&mut self, client: usize, by: &Credentials, ino: Ino, data: &[u8]) -> Done<()> {
        self.append_file(client, by, ino, data)
    }

    fn now(&mut self) -> Time {
        self.now
    }

    fn look_inside(&mut self) -> Result<(), String> {
        self.quiesce(|status| status.undecided + status.waiting > 0)?;
        self.ask_oracles()
    }

    fn settle(&mut self) -> Result<Option<Census>, String> {
        let found = self.come_to_rest()?;
        let base = self.base.expect("the test's tree was made");
        Ok(Some(Census {
            entries: found.entries - base.entries,
            inodes: found.inodes - base.inodes,
        }))
    }
}
