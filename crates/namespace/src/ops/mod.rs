//! What clients ask, one operation a file.
//!
//! Reads answer from a [`View`]. A change of one inode has a `check` that only reads, run once when the
//! request arrives (over state that may be older by the records in flight) and once more when its record
//! is applied, and an `apply` that cannot fail after it. Everything that may touch several shards makes
//! a [`Plan`].

pub mod accessed;
pub mod acl;
pub mod allocate;
pub mod append;
pub mod create;
pub mod create_unnamed;
pub mod dir_part;
pub mod exchange;
pub mod getattr;
pub mod link;
pub mod lookup;
pub mod mkdir;
pub mod needs_space;
pub mod open;
pub mod read_inline;
pub mod readdir;
pub mod readlink;
pub mod remove;
pub mod rename;
pub mod set_layout;
pub mod setattr;
pub mod stripe;
pub mod write_inline;
pub mod wrote_data;
pub mod xattr;

use crate::made;
use crate::{Locks, Stop, Txn, View};
use pandofs_api::{
    EntryReply, FileBody, InodeReply, Refusal, Reply, Request, Step, StepResult, op,
};
use pandofs_placement::{DirPolicy, Drawn, Placing};
use pandofs_types::{Credentials, FileKind, Ino, SessionId, ShardId, Time};
use serde::{Deserialize, Serialize};

/// What is not determined by the state, fixed in the record (DESIGN, section 2).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choices {
    pub time: Time,
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
    /// Nobody but who asks has the file open that is given a size.
    pub alone: bool,
}

impl Choices {
    /// What decides where something new goes.
    fn drawn(&self, view: &View<'_>) -> Drawn {
        Drawn {
            random: self.random,
            shards: view.map.shard_count(),
            placing: self.placing,
        }
    }
}

/// What the shard's driver wants done with a step of another shard's operation. (A format: 0, 1, 2.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Admission {
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
    pub steps: Vec<(ShardId, Step)>,
    pub answer: PlanAnswer,
}

/// How a plan is answered once it is executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlanAnswer {
    /// The inode that one of the steps made or linked, which is on `shard`.
    Made {
        shard: ShardId,
    },
    Removed {
        ino: Ino,
    },
    Renamed {
        ino: Ino,
    },
    /// This inode, which is here.
    Inode {
        ino: Ino,
    },
    /// A split: nobody asked.
    Nobody,
    /// This inode, which had the first name, and what had the other one.
    Exchanged {
        ino: Ino,
    },
    /// That it is done.
    Done,
}

/// What a mutation comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    Done(Reply),
    Plan(Plan),
}

/// Answers a request that changes nothing.
pub fn read(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    request: &Request,
) -> Result<Reply, Stop> {
    made::check_request(locks, request)?;
    match request {
        Request::Lookup(op::Lookup { dir, name }) => lookup::read(view, locks, caller, *dir, name),
        Request::GetAttr(op::GetAttr { ino }) => getattr::read(view, locks, *ino),
        Request::Followed(op::Followed { ino }) => getattr::read_followed(view, locks, *ino),
        Request::Open(op::Open {
            ino,
            access,
            truncate: false,
        }) => open::read(view, locks, caller, *ino, *access),
        Request::ReadLink(op::ReadLink { ino }) => readlink::read(view, locks, *ino),
        Request::ReadInline(op::ReadInline { ino }) => read_inline::read(view, locks, *ino),
        Request::GetXattr(op::GetXattr { ino, name }) => {
            xattr::get(view, locks, caller, *ino, name)
        }
        Request::ListXattr(op::ListXattr { ino }) => xattr::list(view, locks, caller, *ino),
        Request::ReadDir(op::ReadDir {
            dir,
            from,
            plus,
            max_entries,
            max_bytes,
        }) => readdir::read(
            view,
            locks,
            caller,
            *dir,
            *from,
            *plus,
            *max_entries,
            *max_bytes,
        ),
        Request::DirPart(op::DirPart { dir }) => dir_part::read(view, *dir),
        other => Err(Refusal::Malformed(format!("{other:?} is not a read")).into()),
    }
}

/// Rejects a mutation that cannot succeed, or finds the key it must wait for, without changing
/// anything. For what would become a plan the plan is returned, for its choices to be made. What there is to place
/// by is taken out of the choices where the directory's policy does not ask for it.
pub fn check(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    request: &Request,
    choices: &mut Choices,
) -> Result<Option<Plan>, Stop> {
    made::check_request(locks, request)?;
    match request {
        Request::Create(op::Create {
            dir,
            name,
            node,
            mode,
            umask,
            ..
        }) => {
            let modes = (*mode, *umask);
            let made = create::check(view, locks, caller, *dir, name, node, modes, choices)?;
            if !made.adapts() {
                choices.placing = None;
            }
            let plan = made.plan(view, caller, *dir, name, None);
            Ok(plan.map(|(plan, _)| plan))
        }
        Request::Mkdir(op::Mkdir {
            dir,
            name,
            mode,
            umask,
        }) => {
            let (plan, parts) =
                mkdir::plan(view, locks, caller, *dir, name, *mode, *umask, choices)?;
            if !matches!(mkdir::policy(view, &parts), DirPolicy::Adaptive(_)) {
                choices.placing = None;
            }
            Ok(Some(plan))
        }
        other => check_unplaced(view, locks, caller, other, choices),
    }
}

/// The same of what is not placed anywhere.
fn check_unplaced(
    view: &View<'_>,
    locks: &Locks,
    caller: &Credentials,
    request: &Request,
    choices: &Choices,
) -> Result<Option<Plan>, Stop> {
    if let Some(change) = acl::Change::of(request)? {
        return Ok(match acl::check(view, locks, caller, change, choices)? {
            acl::Checked::Here(_) => None,
            acl::Checked::Plan(plan) => Some(plan),
        });
    }
    match request {
        Request::CreateUnnamed(op::CreateUnnamed { dir, at, mode, .. }) => {
            create_unnamed::check(view, locks, caller, *dir, *at, *mode).map(|_| None)
        }
        Request::Open(op::Open {
            ino,
            access,
            truncate: true,
        }) => open::check(view, locks, caller, *ino, *access).map(|_| None),
        Request::WriteInline(op::WriteInline { ino, offset, data }) => {
            write_inline::check(view, locks, *ino, *offset, data.len()).map(|_| None)
        }
        Request::Stripe(op::Stripe { ino }) => stripe::check(view, locks, *ino).map(|_| None),
        Request::WroteData(op::WroteData { ino, .. }) => {
            wrote_data::check(view, locks, *ino).map(|_| None)
        }
        Request::SetXattr(op::SetXattr {
            ino,
            name,
            value,
            mode,
        }) => xattr::check_set(view, locks, caller, *ino, name, value, *mode).map(|_| None),
        Request::RemoveXattr(op::RemoveXattr { ino, name }) => {
            xattr::check_remove(view, locks, caller, *ino, name).map(|_| None)
        }
        Request::SetAttr(op::SetAttr { ino, set }) => {
            match setattr::check(view, locks, caller, *ino, set, choices)? {
                setattr::Checked::Here(_) => Ok(None),
                setattr::Checked::Plan(plan) => Ok(Some(plan)),
            }
        }
        Request::SetDirSettings(op::SetDirSettings { dir, settings }) => {
            setattr::plan_settings(view, locks, caller, *dir, settings, choices).map(Some)
        }
        Request::Unlink(op::Unlink { dir, name }) => {
            remove::plan(view, locks, caller, *dir, name, false, choices).map(Some)
        }
        Request::Rmdir(op::Rmdir { dir, name }) => {
            remove::plan(view, locks, caller, *dir, name, true, choices).map(Some)
        }
        Request::Link(op::Link {
            dir,
            name,
            ino,
            inode_shard,
        }) => link::plan(view, locks, caller, *dir, name, *ino, *inode_shard, choices).map(Some),
        Request::Rename(op::Rename {
            dir,
            name,
            new_dir,
            new_name,
            new_shard,
            no_replace,
            whiteout,
        }) => {
            let to = rename::To {
                dir: *new_dir,
                name: new_name,
                shard: *new_shard,
            };
            let how = rename::How {
                no_replace: *no_replace,
                whiteout: *whiteout,
            };
            rename::plan(view, locks, caller, *dir, name, to, how, choices).map(Some)
        }
        Request::Exchange(op::Exchange {
            dir,
            name,
            new_dir,
            new_name,
            new_shard,
        }) => {
            let other = rename::To {
                dir: *new_dir,
                name: new_name,
                shard: *new_shard,
            };
            exchange::plan(view, locks, caller, *dir, name, other, choices).map(Some)
        }
        Request::Allocate(op::Allocate {
            ino,
            offset,
            length,
            allocation,
        }) => allocate::check(view, locks, *ino, *offset, *length, *allocation).map(|_| None),
        Request::AppendInline(op::AppendInline { ino, data }) => {
            append::check(view, locks, *ino, data.len()).map(|_| None)
        }
        Request::Extend(op::Extend { ino, length }) => {
            append::check_extend(view, locks, *ino, *length).map(|_| None)
        }
        Request::Accessed(op::Accessed { inos, .. }) => accessed::check(inos).map(|()| None),
        Request::SetLayout(op::SetLayout { ino, layout }) => {
            set_layout::check(view, locks, caller, *ino, layout).map(|_| None)
        }
        other => Err(Refusal::Malformed(format!("{other:?} is not a mutation")).into()),
    }
}

/// Whether a mutation that was checked leaves everything as it is, so that it needs no record. Such a one
/// may be repeated.
pub fn changes_nothing(
    view: &View<'_>,
    request: &Request,
    choices: &Choices,
) -> Result<bool, Stop> {
    match request {
        Request::Accessed(op::Accessed { inos, rule }) => {
            Ok(accessed::due_of(view, inos, *rule, choices)?.is_empty())
        }
        _ => Ok(false),
    }
}

/// Applies a mutation of one inode, or plans one of several. What it opens is opened by `session`.
pub fn mutate(
    txn: &mut Txn<'_, '_>,
    locks: &Locks,
    session: SessionId,
    caller: &Credentials,
    request: &Request,
    choices: &Choices,
) -> Result<Mutation, Stop> {
    made::check_request(locks, request)?;
    let view = txn.view();
    if let Some(change) = acl::Change::of(request)? {
        return match acl::check(&view, locks, caller, change.clone(), choices)? {
            acl::Checked::Here(inode) => {
                let reply = acl::apply(txn, caller, *inode, change, choices);
                Ok(Mutation::Done(reply))
            }
            acl::Checked::Plan(plan) => Ok(Mutation::Plan(plan)),
        };
    }
    let reply = match request {
        Request::Create(op::Create {
            dir,
            name,
            node,
            mode,
            umask,
            open,
        }) => {
            let modes = (*mode, *umask);
            let checked = create::check(&view, locks, caller, *dir, name, node, modes, choices)?;
            let opened_by = open.then_some(session);
            if let Some((plan, parts)) = checked.plan(&view, caller, *dir, name, opened_by) {
                txn.put_parts(*dir, &parts);
                return Ok(Mutation::Plan(plan));
            }
            create::apply(txn, *dir, name, checked, *open)
        }
        Request::CreateUnnamed(op::CreateUnnamed {
            dir,
            at,
            mode,
            umask,
            may_be_named,
        }) => {
            let parts = create_unnamed::check(&view, locks, caller, *dir, *at, *mode)?;
            let modes = (*mode, *umask);
            create_unnamed::apply(txn, caller, &parts, modes, *may_be_named, choices)
        }
        Request::Open(op::Open {
            ino,
            access,
            truncate: true,
        }) => {
            let inode = open::check(&view, locks, caller, *ino, *access)?;
            open::apply(txn, caller, *ino, inode, choices)?
        }
        Request::WriteInline(op::WriteInline { ino, offset, data }) => {
            let inode = write_inline::check(&view, locks, *ino, *offset, data.len())?;
            write_inline::apply(txn, caller, *ino, inode, *offset, data, choices)?
        }
        Request::Stripe(op::Stripe { ino }) => {
            let inode = stripe::check(&view, locks, *ino)?;
            stripe::apply(txn, *ino, inode)?
        }
        Request::WroteData(op::WroteData {
            ino,
            start,
            end,
            mtime,
            sparse,
            cuts,
        }) => {
            let inode = wrote_data::check(&view, locks, *ino)?;
            let range = *start..*end;
            match *cuts >= inode.cuts {
                true => wrote_data::apply(txn, caller, *ino, inode, range, *mtime, *sparse)?,
                false => wrote_data::before_a_cut(txn, *ino, &inode)?,
            }
        }
        Request::SetXattr(op::SetXattr {
            ino,
            name,
            value,
            mode,
        }) => {
            let inode = xattr::check_set(&view, locks, caller, *ino, name, value, *mode)?;
            xattr::apply_set(txn, *ino, inode, name, value, choices)?
        }
        Request::RemoveXattr(op::RemoveXattr { ino, name }) => {
            let inode = xattr::check_remove(&view, locks, caller, *ino, name)?;
            xattr::apply_remove(txn, *ino, inode, name, choices)?
        }
        Request::SetAttr(op::SetAttr { ino, set }) => {
            match setattr::check(&view, locks, caller, *ino, set, choices)? {
                setattr::Checked::Here(inode) => {
                    setattr::apply(txn, caller, *ino, *inode, set, choices)?
                }
                setattr::Checked::Plan(plan) => return Ok(Mutation::Plan(plan)),
            }
        }
        Request::Mkdir(op::Mkdir {
            dir,
            name,
            mode,
            umask,
        }) => {
            let (plan, parts) =
                mkdir::plan(&view, locks, caller, *dir, name, *mode, *umask, choices)?;
            txn.put_parts(*dir, &parts);
            return Ok(Mutation::Plan(plan));
        }
        Request::Allocate(op::Allocate {
            ino,
            offset,
            length,
            allocation,
        }) => {
            let inode = allocate::check(&view, locks, *ino, *offset, *length, *allocation)?;
            let range = *offset..*offset + *length;
            allocate::apply(txn, caller, *ino, inode, range, *allocation, choices)?
        }
        Request::AppendInline(op::AppendInline { ino, data }) => {
            let inode = append::check(&view, locks, *ino, data.len())?;
            let end = inode.size;
            write_inline::apply(txn, caller, *ino, inode, end, data, choices)?
        }
        Request::Extend(op::Extend { ino, length }) => {
            let inode = append::check_extend(&view, locks, *ino, *length)?;
            append::apply_extend(txn, caller, *ino, inode, *length, choices)?
        }
        Request::Accessed(op::Accessed { inos, rule }) => {
            accessed::check(inos)?;
            accessed::apply(txn, locks, inos, *rule, choices)?
        }
        Request::SetLayout(op::SetLayout { ino, layout }) => {
            let inode = set_layout::check(&view, locks, caller, *ino, layout)?;
            set_layout::apply(txn, *ino, inode, layout, choices)?
        }
        planned => {
            let plan = check_unplaced(&view, locks, caller, planned, choices)?;
            return plan.map(Mutation::Plan).ok_or_else(|| {
                Stop::Broken("an operation is neither applied at once nor planned".to_string())
            });
        }
    };
    Ok(Mutation::Done(reply))
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

/// What clients see of an inode that is here; inline data is left out.
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
        body: file_body(inode, false),
        dir,
        cuts: inode.cuts,
    })
}

fn file_body(inode: &crate::records::InodeRecord, with_data: bool) -> FileBody {
    use crate::records::Body;
    match &inode.body {
        Body::Inline { data, layout } => FileBody::Inline {
            data: if with_data { data.clone() } else { Vec::new() },
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

/// A time that an operation sets never goes back behind one that is there.
pub(crate) fn advance(time: &mut Time, to: Time) {
    *time = (*time).max(to);
}
