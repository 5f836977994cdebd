//! Operations of clients, one a file.
//!
//! Reads answer from a [`View`]. A change of one inode has a `check` that only reads, run once when the
//! request arrives (over state that may be older by the records in flight) and once more when its record
//! is applied, and an `apply` that cannot fail after it. Everything that may touch several shards makes
//! a [`Plan`].

mod accessed;
pub mod acl;
mod allocate;
mod append;
pub mod by_path;
pub mod create;
mod create_unnamed;
mod dir_part;
mod exchange;
mod execute;
mod getattr;
pub mod here;
mod joined;
mod link;
mod lookup;
mod mkdir;
mod mkdir_away;
mod open;
pub mod open_name;
mod read_inline;
mod readdir;
mod readlink;
mod remove;
mod rename;
mod rmdir_away;
mod set_layout;
pub mod setattr;
mod stripe;
mod take_numbers;
mod write_inline;
mod write_new;
mod wrote_data;
pub mod xattr;

use crate::made;
use crate::{Context, Stop, Txn, View};
use pandofs_api::{EntryReply, FileBody, InodeReply, Refusal, Reply, Request, Step, StepResult};
use pandofs_placement::{Drawn, Placing};
use pandofs_types::{FileKind, Ino, ShardId, Time};
use serde::{Deserialize, Serialize};

use execute::path_operation;
pub use execute::{ByLoad, Checked, Execute, operation};
pub use joined::joined;

/// Inputs that the state does not determine, fixed in the record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choices {
    /// For all times that the record sets; by the server's clock.
    pub time: Time,
    /// Uniform over all values, for every draw of placement.
    pub random: u64,
    /// Inodes known not to be open: losing its last name frees such a one at once. Any other is kept
    /// as an orphan until the shard's driver finds that nobody has it open.
    pub closed: Vec<Ino>,
    /// Whether a step of another shard's operation is taken on.
    pub admission: Admission,
    /// The slot array, should a directory need one.
    pub slots: Vec<ShardId>,
    /// Where the directory's policy follows the load: what is placed by.
    pub placing: Option<Placing>,
    /// Nobody but the requester has the file open that is given a size.
    pub alone: bool,
    /// The number of the inode that is made, if the session has chosen it. An operation that makes an inode makes one.
    pub ino: Option<Ino>,
}

impl Choices {
    /// With those that a session has made, when it answered the operation under a grant.
    fn of_session(&self, time: Time, random: u64, placing: Option<Placing>) -> Choices {
        Choices {
            time,
            random,
            placing,
            ..self.clone()
        }
    }

    /// Inputs to the placement of something new.
    fn drawn(&self, view: &View<'_>) -> Drawn {
        Drawn {
            random: self.random,
            shards: view.map.shard_count(),
            placing: self.placing,
        }
    }
}

/// Admission of a step of another shard's operation by the shard's driver. (A format: 0, 1, 2.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Admission {
    /// Taken on, if the state lets it.
    #[default]
    Open,
    /// It would take a lock that a split is waiting to see gone: refused for now.
    Busy,
    /// It needs space, and the disk has none to give: refused with `NoSpace`.
    Full,
}

/// An operation as steps of shards, in the order of execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The coordinator's own ones are among them.
    pub steps: Vec<(ShardId, Step)>,
    /// Told to the client once the operation is committed.
    pub answer: PlanAnswer,
}

/// Answer to a plan once it is executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanAnswer {
    /// The inode that one of the steps made or linked, which is on `shard`.
    Made {
        /// The shard that has it.
        shard: ShardId,
    },
    /// That the name is gone.
    Removed {
        /// The inode that it led to.
        ino: Ino,
    },
    /// That the name has moved.
    Renamed {
        /// The inode that it leads to.
        ino: Ino,
    },
    /// This inode, which is here.
    Inode {
        /// Its number.
        ino: Ino,
    },
    /// A split: nobody asked.
    Nobody,
    /// This inode, which had the first name, and what had the other one.
    Exchanged {
        /// Its number.
        ino: Ino,
    },
    /// That it is done.
    Done,
}

/// Outcome of a mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Changed; this is the answer.
    Done(Reply),
    /// Nothing is changed yet: these steps are an operation to be coordinated.
    Plan(Plan),
}

/// Answers a request that changes nothing.
pub fn read(view: &View<'_>, cx: &Context<'_>, request: &Request) -> Result<Reply, Stop> {
    made::check_request(cx.locks, request)?;
    if request.is_mutation() && !open_name::finds(view, request)? {
        return Err(Refusal::Malformed(format!("{request:?} is not a read")).into());
    }
    operation(request).read(view, cx)
}

/// Checks a mutation; a plan if it may touch several shards.
pub fn check(view: &View<'_>, cx: &Context<'_>, request: &Request) -> Result<Checked, Stop> {
    made::check_request(cx.locks, request)?;
    if !request.is_mutation() {
        return Err(Refusal::Malformed(format!("{request:?} is not a mutation")).into());
    }
    operation(request).check(view, cx)
}

/// Applies a mutation of one inode, or plans one of several.
pub fn mutate(
    txn: &mut Txn<'_, '_>,
    cx: &Context<'_>,
    request: &Request,
) -> Result<Mutation, Stop> {
    made::check_request(cx.locks, request)?;
    if !request.is_mutation() {
        return Err(Refusal::Malformed(format!("{request:?} is not a mutation")).into());
    }
    operation(request).apply(txn, cx)
}

/// The answer of an executed plan.
pub fn answer(view: &View<'_>, answer: &PlanAnswer, results: &[StepResult]) -> Result<Reply, Stop> {
    Ok(match answer {
        PlanAnswer::Made { shard } => {
            let made = results
                .iter()
                .find_map(|result| result.inode.as_deref())
                .ok_or_else(|| Stop::Broken("no step made an inode".to_string()))?;
            Reply::Entry(EntryReply {
                ino: made.attr.ino,
                kind: made.attr.kind,
                shard: *shard,
                inode: Some(made.clone()),
            })
        }
        PlanAnswer::Removed { ino } => Reply::Removed { ino: *ino },
        PlanAnswer::Renamed { ino } => Reply::Renamed { ino: *ino },
        PlanAnswer::Inode { ino } => Reply::Inode(inode_reply(view, *ino, &view.inode(*ino)?)?),
        PlanAnswer::Nobody | PlanAnswer::Done => Reply::Done,
        PlanAnswer::Exchanged { ino } => {
            let other = results.iter().find_map(|result| result.entry);
            let other = other.ok_or_else(|| Stop::Broken("an exchange for nothing".to_string()))?;
            Reply::Exchanged {
                ino: *ino,
                other: other.ino,
            }
        }
    })
}

/// The answer of a plan whose two names lead to the same file, so that there is nothing to do.
pub fn answer_same_file(answer: &PlanAnswer) -> Result<Reply, Stop> {
    match answer {
        PlanAnswer::Renamed { ino } => Ok(Reply::Renamed { ino: *ino }),
        PlanAnswer::Exchanged { ino } => Ok(Reply::Exchanged {
            ino: *ino,
            other: *ino,
        }),
        _ => Err(Stop::Broken(
            "only renames and exchanges find the same file".to_string(),
        )),
    }
}

/// Reply about an inode that is here; inline data is left out.
pub fn inode_reply(
    view: &View<'_>,
    ino: Ino,
    inode: &crate::records::InodeRecord,
) -> Result<InodeReply, Stop> {
    let mut attr = inode.attr(ino);
    let mut dir = None;
    if let crate::records::Body::Dir { parent } = inode.body {
        let parts = view
            .parts(ino)?
            .ok_or_else(|| Stop::Broken(format!("directory {ino} has no partition at home")))?;
        attr.nlink = 2 + parts.subdirs();
        attr.size = parts.entries();
        attr.mtime = parts.mtime;
        attr.ctime = inode.ctime.max(parts.ctime);
        dir = Some(Box::new(pandofs_api::DirReply {
            map: parts.map,
            parent,
            settings: parts.settings,
        }));
    }
    Ok(InodeReply {
        attr,
        body: file_body(inode),
        dir,
        truncations: inode.truncations,
    })
}

fn file_body(inode: &crate::records::InodeRecord) -> FileBody {
    use crate::records::Body;
    match &inode.body {
        Body::Inline { layout, .. } => FileBody::Inline {
            data: Vec::new(),
            layout: *layout,
        },
        Body::Striped(layout) => FileBody::Striped(*layout),
        Body::Sparse(layout) => FileBody::Sparse(*layout),
        Body::Nothing | Body::Symlink(_) | Body::Dir { .. } => FileBody::None,
    }
}

/// The attributes of a directory that was just made.
pub(crate) fn new_dir_attr(ino: Ino, new: &pandofs_api::NewDir) -> pandofs_types::Attr {
    pandofs_types::Attr {
        ino,
        kind: FileKind::Dir,
        mode: new.mode,
        nlink: 2,
        uid: new.uid,
        gid: new.gid,
        rdev: 0,
        size: 0,
        blocks: 0,
        atime: new.time,
        mtime: new.time,
        ctime: new.time,
        btime: new.time,
        has_xattrs: !new.acls.is_empty(),
    }
}

/// The time of an inode's change is later than that of the one before, also where a clock was set back or another one is
/// asked: a client with cached contents tells by it whether they are old. One operation may change it twice.
pub(crate) fn pass(ctime: &mut Time, to: Time) {
    if to != *ctime {
        *ctime = to.max(Time(ctime.0.saturating_add(1)));
    }
}

/// A time that an operation sets never goes back behind one that is there.
pub(crate) fn advance(time: &mut Time, to: Time) {
    *time = (*time).max(to);
}
