//! Draws operations that meet: few names, few users, and directories that move below one another.

use crate::bytes::PAGE;
use crate::model::{FUTURE, Model, encode_acl};
use crate::op::{Blob, HandleId, Op, Path, Special, Step, XattrMode};
use crate::rng::Rng;
use crate::subject::Traits;
use pandofs_api::Allocation;
use pandofs_types::{FileKind, SetTime, Time};

/// Names that everything collides on.
const HOT: [&[u8]; 5] = [b"a", b"b", b"c", b"d", b"e"];
/// Names that fill directories, so that they split.
const FILLERS: u64 = 40;
/// Handles that files are opened as.
const HANDLES: u64 = 6;
/// Inodes at which removing becomes likelier than making.
const ENOUGH: u64 = 250;
/// Bytes of the largest read or write.
const MAX_TRANSFER: u64 = 70_000;

const DIR_MODES: [u16; 10] = [
    0o777, 0o777, 0o777, 0o777, 0o755, 0o1777, 0o770, 0o700, 0o733, 0o555,
];
const CHMOD_DIR_MODES: [u16; 10] = [
    0o777, 0o777, 0o755, 0o1777, 0o2777, 0o3777, 0o2775, 0o700, 0o711, 0o444,
];
const FILE_MODES: [u16; 9] = [
    0o666, 0o2666, 0o600, 0o640, 0o4755, 0o2755, 0o6777, 0o444, 0o060,
];
const XATTRS: [&[u8]; 5] = [
    b"user.one",
    b"user.two",
    b"user.\xff odd",
    b"trusted.one",
    b"security.one",
];
const ACLS: [&[u8]; 2] = [b"system.posix_acl_access", b"system.posix_acl_default"];
/// Users and groups that lists name.
const NAMED: [u32; 3] = [1_000, 1_001, 2_000];

/// Source of the operations of a run.
#[derive(Debug)]
pub struct Generator {
    rng: Rng,
    traits: Traits,
}

impl Generator {
    /// Draws only what a subject of these traits can do.
    pub fn new(seed: u64, traits: Traits) -> Generator {
        Generator {
            rng: Rng::new(seed),
            traits,
        }
    }

    /// The next operation on a tree like the model's. It may be one that the model does not specify.
    pub fn step(&mut self, model: &Model) -> Step {
        let op = self.op(model);
        // The superuser more often than each of the others, or nothing would ever get done.
        let caller = match self.rng.below(3) {
            0 => 0,
            _ => self.rng.below(self.traits.callers as u64) as usize,
        };
        Step { caller, op }
    }

    fn op(&mut self, model: &Model) -> Op {
        let full = model.census().inodes > ENOUGH;
        match self.rng.below(if full { 160 } else { 100 }) {
            0..3 => Op::CreateUnnamed {
                dir: if self.rng.chance(1, 10) {
                    self.old_path(model)
                } else {
                    model.any_dir(&mut self.rng)
                },
                mode: *self.rng.pick(&FILE_MODES),
                handle: self.new_handle(),
                may_be_named: self.rng.chance(4, 5),
            },
            3..14 => Op::Create {
                path: self.new_path(model),
                mode: *self.rng.pick(&FILE_MODES),
                handle: self.rng.chance(1, 3).then(|| self.new_handle()),
            },
            14..19 => Op::Mkdir {
                path: self.new_path(model),
                mode: *self.rng.pick(&DIR_MODES),
            },
            19..21 => Op::Mknod {
                path: self.new_path(model),
                special: match self.rng.below(4) {
                    0 => Special::Socket,
                    1 => Special::Char { rdev: 0x103 },
                    _ => Special::Fifo,
                },
                mode: *self.rng.pick(&FILE_MODES),
            },
            21..24 => Op::Symlink {
                path: self.new_path(model),
                target: self.target(),
            },
            24..29 => Op::Link {
                from: self.file_path(model),
                to: self.new_path(model),
            },
            29..32 => Op::Exchange {
                from: self.old_path(model),
                to: self.old_path(model),
            },
            32..43 => Op::Rename {
                from: self.old_path(model),
                to: if self.rng.chance(1, 2) {
                    self.new_path(model)
                } else {
                    self.old_path(model)
                },
                no_replace: self.rng.chance(1, 6),
                whiteout: self.rng.chance(1, 8),
            },
            43..50 => Op::Stat {
                path: self.old_path(model),
            },
            50..53 => {
                let path = self.old_path(model);
                let modes = if self.rng.chance(1, 2) {
                    &CHMOD_DIR_MODES[..]
                } else {
                    &FILE_MODES
                };
                Op::Chmod {
                    path,
                    mode: *self.rng.pick(modes),
                }
            }
            53..55 => self.chown(model),
            55..57 => Op::Truncate {
                path: self.file_path(model),
                size: self.offset(),
            },
            57..59 => self.set_times(model),
            59..63 => Op::ReadDir {
                path: self.dir_path(model),
            },
            63..64 => Op::ReadLink {
                path: self.old_path(model),
            },
            64..67 => self.set_xattr(model),
            67..69 => Op::GetXattr {
                path: self.old_path(model),
                name: self.xattr_name(),
            },
            69..70 => Op::ListXattr {
                path: self.old_path(model),
            },
            70..71 => Op::RemoveXattr {
                path: self.old_path(model),
                name: self.xattr_name(),
            },
            71..75 => {
                let (read, write) = *self.rng.pick(&[(true, false), (false, true), (true, true)]);
                Op::Open {
                    path: self.file_path(model),
                    handle: self.new_handle(),
                    read,
                    write,
                    truncate: write && self.rng.chance(1, 3),
                }
            }
            75..84 => self.on_handle(model),
            84..86 => Op::Rmdir {
                path: self.dir_path(model),
            },
            86..90 => Op::Rmdir {
                path: self.leaf_path(model),
            },
            90..92 => Op::Unlink {
                path: self.old_path(model),
            },
            92..100 => Op::Unlink {
                path: self.file_path(model),
            },
            100..115 => Op::Rmdir {
                path: self.leaf_path(model),
            },
            _ => Op::Unlink {
                path: self.file_path(model),
            },
        }
    }

    fn new_handle(&mut self) -> HandleId {
        self.rng.below(HANDLES) as HandleId
    }

    fn on_handle(&mut self, model: &Model) -> Op {
        let open = model.open_handles();
        if open.is_empty() {
            return Op::Stat {
                path: self.old_path(model),
            };
        }
        let handle = *self.rng.pick(&open);
        match self.rng.below(19) {
            17.. => Op::LinkOpen {
                handle,
                to: self.new_path(model),
            },
            0..2 => Op::Close { handle },
            2..5 => Op::Read {
                handle,
                offset: self.offset(),
                length: self.length(),
            },
            5..9 => Op::Write {
                handle,
                offset: self.offset(),
                length: self.length(),
                fill: self.rng.below(1_000),
            },
            9..10 => Op::SetSize {
                handle,
                size: self.offset(),
            },
            10..11 => Op::StatOpen { handle },
            11..12 => Op::Sync { handle },
            12..13 => Op::Seek {
                handle,
                offset: self.offset(),
                data: self.rng.chance(1, 2),
            },
            13..15 => self.allocate(handle),
            _ => Op::Append {
                handle,
                length: self.length(),
                fill: self.rng.below(1_000),
            },
        }
    }

    fn allocate(&mut self, handle: HandleId) -> Op {
        let keep_size = self.rng.chance(1, 2);
        let allocation = match self.rng.below(5) {
            0..2 => Allocation::Reserve { keep_size },
            2..4 => Allocation::Punch,
            _ => Allocation::Zero { keep_size },
        };
        Op::Allocate {
            handle,
            offset: self.offset(),
            length: u64::from(self.length()),
            allocation,
        }
    }

    /// Around what matters: the start, the end of what is kept inline, stripe units, 4 GiB.
    fn offset(&mut self) -> u64 {
        let small = self.rng.below(200);
        match self.rng.below(12) {
            0..3 => 0,
            3..6 => small,
            6..8 => PAGE - 100 + small,
            8..10 => PAGE * self.rng.below(24) + small % 3,
            10 => (1 << 20) * (1 + self.rng.below(3)) - 100 + small,
            _ => (1 << 32) - 100 + small,
        }
        .min(self.traits.max_file_size)
    }

    fn length(&mut self) -> u32 {
        let length = match self.rng.below(10) {
            0..5 => 1 + self.rng.below(300),
            5..7 => PAGE - 1 + self.rng.below(3),
            7..9 => 1 + self.rng.below(3 * PAGE),
            _ => 1 + self.rng.below(MAX_TRANSFER),
        };
        length as u32
    }

    fn name(&mut self) -> Vec<u8> {
        match self.rng.below(30) {
            0..16 => self.rng.pick(&HOT).to_vec(),
            16..28 => format!("n{}", self.rng.below(FILLERS)).into_bytes(),
            28 => match self.rng.below(4) {
                0 => vec![b'x'; 255],
                1 => vec![b'x'; 256],
                _ => vec![b'y'; 254],
            },
            _ => b" \xff\n*".to_vec(),
        }
    }

    /// A path that need not lead to anything, or go through directories.
    fn odd_path(&mut self, model: &Model) -> Path {
        let dir = model.any_dir(&mut self.rng);
        dir.child(&self.name()).child(&self.name())
    }

    fn new_path(&mut self, model: &Model) -> Path {
        if self.rng.chance(1, 40) {
            return self.odd_path(model);
        }
        let dir = model.any_dir(&mut self.rng);
        dir.child(&self.name())
    }

    fn old_path(&mut self, model: &Model) -> Path {
        if self.rng.chance(1, 40) {
            return self.odd_path(model);
        }
        let dir = model.any_dir(&mut self.rng);
        match model.any_name(&dir, &mut self.rng) {
            Some((name, _)) if self.rng.chance(9, 10) => dir.child(&name),
            _ => dir.child(&self.name()),
        }
    }

    /// Rather of a file than of a directory.
    fn file_path(&mut self, model: &Model) -> Path {
        for _ in 0..10 {
            let dir = model.any_dir(&mut self.rng);
            if let Some((name, kind)) = model.any_name(&dir, &mut self.rng)
                && kind == FileKind::File
            {
                return dir.child(&name);
            }
        }
        self.old_path(model)
    }

    fn dir_path(&mut self, model: &Model) -> Path {
        if self.rng.chance(1, 8) {
            return self.old_path(model);
        }
        let dir = model.any_dir(&mut self.rng);
        if dir == Path::ROOT {
            self.old_path(model)
        } else {
            dir
        }
    }

    /// Rather of a directory that is empty.
    fn leaf_path(&mut self, model: &Model) -> Path {
        for _ in 0..10 {
            let dir = model.any_dir(&mut self.rng);
            if dir != Path::ROOT && model.any_name(&dir, &mut self.rng).is_none() {
                return dir;
            }
        }
        self.dir_path(model)
    }

    /// Leads nowhere: the model does not follow links.
    fn target(&mut self) -> Blob {
        let mut target = b"/nowhere/".to_vec();
        match self.rng.below(12) {
            0 => target.resize(4_095, b'z'),
            1 => target.resize(2_000, b'z'),
            _ => target.extend_from_slice(&self.name()),
        }
        Blob(target)
    }

    fn chown(&mut self, model: &Model) -> Op {
        let path = self.old_path(model);
        let uid = *self
            .rng
            .pick(&[None, None, Some(0), Some(1_000), Some(1_001)]);
        let gid = *self
            .rng
            .pick(&[None, Some(0), Some(1_000), Some(1_001), Some(2_000)]);
        match (uid, gid) {
            (None, None) => Op::Chown {
                path,
                uid: Some(1_000),
                gid: None,
            },
            (uid, gid) => Op::Chown { path, uid, gid },
        }
    }

    fn set_times(&mut self, model: &Model) -> Op {
        let path = self.old_path(model);
        let mut at = || {
            let nanoseconds = self.rng.below(1_000_000_000) as i64;
            let seconds = match self.rng.below(5) {
                0 => FUTURE.0 / 1_000_000_000 + 5,
                1 => -86_400,
                _ => self.rng.below(1_600_000_000) as i64,
            };
            SetTime::At(Time(seconds * 1_000_000_000 + nanoseconds))
        };
        let (first, second) = (at(), at());
        let (atime, mtime) = match self.rng.below(6) {
            0 => (Some(SetTime::Now), Some(SetTime::Now)),
            1 => (Some(first), None),
            2 => (None, Some(second)),
            3 => (Some(SetTime::Now), Some(second)),
            _ => (Some(first), Some(second)),
        };
        Op::SetTimes { path, atime, mtime }
    }

    fn set_xattr(&mut self, model: &Model) -> Op {
        let mode = *self.rng.pick(&[
            XattrMode::Either,
            XattrMode::Either,
            XattrMode::Create,
            XattrMode::Replace,
        ]);
        if self.rng.chance(1, 2) {
            let name = *self.rng.pick(&ACLS);
            return Op::SetXattr {
                path: match name == ACLS[1] && self.rng.chance(4, 5) {
                    true => self.dir_path(model),
                    false => self.old_path(model),
                },
                name: Blob(name.to_vec()),
                value: Blob(self.acl()),
                mode,
            };
        }
        let name = *self.rng.pick(&XATTRS);
        // Local file systems have room for some 4 KiB.
        let length = match name.starts_with(b"user.") {
            true => *self.rng.pick(&[0, 1, 30, 300, 1_000]),
            false => *self.rng.pick(&[0, 1, 30]),
        };
        let fill = self.rng.below(256) as u8;
        Op::SetXattr {
            path: self.old_path(model),
            name: Blob(name.to_vec()),
            value: Blob(vec![fill; length]),
            mode,
        }
    }

    /// An access control list, now and then one that is none.
    fn acl(&mut self) -> Vec<u8> {
        let mut rights = || match self.rng.below(3) {
            0 => 7,
            _ => self.rng.below(8) as u16,
        };
        let obj = [rights() | 6, rights(), rights()];
        let mask = rights();
        let all: Vec<(u32, u16)> = NAMED.iter().map(|id| (*id, rights())).collect();
        let mut some = |from: &[(u32, u16)]| -> Vec<(u32, u16)> {
            let picked = from.iter().filter(|_| self.rng.chance(1, 3));
            picked.copied().collect()
        };
        let (users, groups) = (some(&all[..2]), some(&all));
        match self.rng.below(12) {
            0 => Vec::new(),
            1 => vec![2, 0, 0, 0, 9],
            2 => encode_acl(obj, None, &[(1_000, 7)], &[]),
            3..5 => encode_acl(obj, None, &[], &[]),
            _ => encode_acl(obj, Some(mask), &users, &groups),
        }
    }

    fn xattr_name(&mut self) -> Blob {
        let lists = self.rng.chance(1, 3);
        let names = if lists { &ACLS[..] } else { &XATTRS };
        Blob(self.rng.pick(names).to_vec())
    }
}
