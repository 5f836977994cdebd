//! Random requests, answered early or not, beside a name space that executes them one after the other.

use crate::server::{
    SERVER, Session, create, ino_of, lookup, mkdir, name, rename, rmdir, unlink, write,
};
use pandofs_api::{FileBody, NewNode, Refusal, Reply, Request, XattrMode, op};
use pandofs_placement::DirPolicy;
use pandofs_types::limits::DEFAULT_INLINE_BYTES;
use pandofs_types::{Credentials, FsError, Ino, Position, SetAttr, ShardId};

/// Numbers from a seed (SplitMix64: Steele, Lea, Flood 2014).
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % limit
    }
}

const INLINE_END: u64 = DEFAULT_INLINE_BYTES as u64;
const NAMES: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn request(draw: &mut Draw, dirs: &[Ino], files: &[Ino]) -> Request {
    let dir = dirs[draw.below(dirs.len() as u64) as usize];
    let new_dir = dirs[draw.below(dirs.len() as u64) as usize];
    let of = NAMES[draw.below(6) as usize];
    let to = NAMES[draw.below(6) as usize];
    let file = files.get(draw.below(files.len().max(1) as u64) as usize);
    let ino = file.copied().unwrap_or(dir);
    match draw.below(20) {
        0..3 => create(dir, of),
        3 | 15 | 16 => mkdir(dir, of),
        4 => unlink(dir, of),
        5 => rmdir(dir, of),
        6 | 7 => rename(dir, of, new_dir, to),
        8 => Request::Link(op::Link {
            dir,
            name: name(of),
            ino,
            inode_shard: ino.birth_shard(),
        }),
        9 => write(ino, draw.below(20), &[7; 10]),
        // Around the end of what is kept inline.
        17 => write(ino, INLINE_END - 15 + draw.below(10), &[7; 10]),
        18 | 19 => Request::ReadInline(op::ReadInline { ino }),
        10 => Request::SetAttr(op::SetAttr {
            ino,
            set: SetAttr {
                mode: Some(0o700),
                size: (file.is_some() && draw.below(2) == 0).then(|| draw.below(30)),
                ..SetAttr::default()
            },
        }),
        11 => Request::SetXattr(op::SetXattr {
            ino,
            name: b"user.colour".to_vec(),
            value: vec![1; draw.below(9) as usize],
            mode: XattrMode::Either,
        }),
        12 => Request::RemoveXattr(op::RemoveXattr {
            ino,
            name: b"user.colour".to_vec(),
        }),
        13 => Request::Create(op::Create {
            dir,
            name: name(of),
            node: NewNode::Symlink {
                target: b"somewhere".to_vec(),
            },
            mode: 0o777,
            umask: 0,
            open: false,
        }),
        _ => lookup(dir, of),
    }
}

/// Test that the answer tells attributes: where a name and its inode are on different shards, that of the name does not.
fn tells_inode(answer: &Result<Reply, Refusal>) -> bool {
    !matches!(answer, Ok(Reply::Entry(entry)) if entry.inode.is_none())
}

/// The answers without numbers, times and places, which each side chooses for itself.
fn plain(answer: &Result<Reply, Refusal>, with_inode: bool) -> String {
    match answer {
        Ok(Reply::Entry(entry)) => {
            let inode = entry
                .inode
                .as_ref()
                .filter(|_| with_inode)
                .map(|inode| (inode.attr.mode, inode.attr.nlink, inode.attr.size));
            format!("{:?} {inode:?}", entry.kind)
        }
        Ok(Reply::Inode(inode)) => {
            let attr = &inode.attr;
            let kept = match &inode.body {
                FileBody::Inline { data, .. } => Some(data),
                _ => None,
            };
            format!("{:o} {} {} {kept:?}", attr.mode, attr.nlink, attr.size)
        }
        // A directory that is moved into itself, in place of another one with something in it: which step is checked first
        // depends on the shards.
        Err(Refusal::Fs(FsError::Invalid | FsError::NotEmpty)) => "not to be moved".to_owned(),
        Ok(Reply::Removed { .. }) => "removed".to_owned(),
        Ok(Reply::Renamed { .. }) => "renamed".to_owned(),
        other => format!("{other:?}"),
    }
}

/// With the inodes of the one name space in place of those of the other.
fn translated(request: &Request, to: impl Fn(Ino) -> Ino) -> Request {
    let mut request = request.clone();
    match &mut request {
        Request::Create(op::Create { dir, .. })
        | Request::Mkdir(op::Mkdir { dir, .. })
        | Request::Unlink(op::Unlink { dir, .. })
        | Request::Rmdir(op::Rmdir { dir, .. })
        | Request::Lookup(op::Lookup { dir, .. }) => *dir = to(*dir),
        Request::Rename(rename) => {
            rename.dir = to(rename.dir);
            rename.new_dir = to(rename.new_dir);
            rename.new_shard = rename.new_dir.birth_shard();
        }
        Request::Link(link) => {
            link.dir = to(link.dir);
            link.ino = to(link.ino);
            link.inode_shard = link.ino.birth_shard();
        }
        Request::WriteInline(op::WriteInline { ino, .. })
        | Request::ReadInline(op::ReadInline { ino })
        | Request::SetAttr(op::SetAttr { ino, .. })
        | Request::SetXattr(op::SetXattr { ino, .. })
        | Request::RemoveXattr(op::RemoveXattr { ino, .. }) => *ino = to(*ino),
        other => panic!("{other:?} is not drawn"),
    }
    request
}

/// Requests that were answered early, and operations that were sent by themselves.
fn run(seed: u64, shards: u16, policy: DirPolicy) -> (u64, u64) {
    let mut draw = Draw(seed);
    let mut session = Session::over(shards, policy);
    let mut plainly = Session::over(shards, policy);
    let top = session.granted_dir("top");
    let there = ino_of(
        &plainly
            .server
            .ask(&Credentials::ROOT, &mkdir(Ino::ROOT, "top"))
            .unwrap(),
    );
    let mut dirs = vec![top];
    let mut files: Vec<Ino> = Vec::new();
    let mut pairs = vec![(top, there)];
    for _ in 0..300 {
        match draw.below(40) {
            0 => {
                session.send_nth(draw.below(4) as usize);
            }
            1 => {
                let dir = dirs[draw.below(dirs.len() as u64) as usize];
                session.deputy.recall(dir, crate::server::at(session.now));
                session.drain();
                session.deputy.let_go(dir);
            }
            2 => session
                .deputy
                .lost(SERVER, [ShardId(draw.below(u64::from(shards)) as u16)]),
            3 => session.now += 3_000,
            4 | 5 => session.deputy.hears(SERVER),
            _ => {}
        }
        let asked = request(&mut draw, &dirs, &files);
        let to = |ino| {
            pairs
                .iter()
                .find(|(here, _)| *here == ino)
                .map_or(ino, |(_, there)| *there)
        };
        let other = translated(&asked, to);
        let answer = session.ask(asked.clone());
        let expected = plainly.server.ask(&Credentials::ROOT, &other);
        assert!(session.lost.is_empty(), "seed {seed}: {:?}", session.lost);
        let told = tells_inode(&answer) && tells_inode(&expected);
        assert_eq!(
            plain(&answer, told),
            plain(&expected, told),
            "seed {seed}: {asked:?}"
        );
        if let (Ok(Reply::Entry(here)), Ok(Reply::Entry(there))) = (&answer, &expected)
            && !pairs.contains(&(here.ino, there.ino))
        {
            pairs.push((here.ino, there.ino));
            match asked {
                Request::Mkdir(_) => dirs.push(here.ino),
                _ => {
                    // The other name space closes nothing.
                    session.open.push(here.ino);
                    files.push(here.ino);
                }
            }
        }
    }
    // The server answers as the image did, once all is sent.
    session.drain();
    assert!(session.lost.is_empty(), "seed {seed}: {:?}", session.lost);
    for dir in dirs {
        for of in NAMES {
            let asked = lookup(dir, of);
            let here = session.ask(asked.clone());
            let there = session.server.ask(&Credentials::ROOT, &asked);
            assert_eq!(here, there, "seed {seed}: {asked:?}");
        }
        let asked = Request::ReadDir(op::ReadDir {
            dir,
            from: Position::FIRST,
            plus: true,
            max_entries: 100,
            max_bytes: 100_000,
        });
        let here = session.ask(asked.clone());
        let there = session.server.ask(&Credentials::ROOT, &asked);
        assert_eq!(here, there, "seed {seed}: {asked:?}");
    }
    (session.early, session.alone)
}

fn run_all(shards: u16, policy: DirPolicy) -> (u64, u64) {
    let runs = (0..300).map(|seed| run(seed, shards, policy));
    runs.fold((0, 0), |(early, alone), (more, others)| {
        (early + more, alone + others)
    })
}

#[test]
fn every_answer_is_that_of_a_server() {
    let (early, alone) = run_all(1, DirPolicy::Subtree);
    assert!(early > 10_000, "only {early} requests were answered early");
    assert_eq!(alone, 0);
}

#[test]
fn every_answer_is_that_of_four_shards() {
    let (early, alone) = run_all(4, DirPolicy::Random);
    assert!(early > 10_000, "only {early} requests were answered early");
    assert!(alone > 500, "only {alone} directories were made elsewhere");
}

#[test]
fn every_answer_is_that_of_shards_that_paths_lead_to() {
    for shards in [1, 4] {
        let (early, _) = run_all(shards, DirPolicy::CrushPath);
        assert!(early > 5_000, "only {early} requests were answered early");
    }
}
