//! Router: the shard of a request and the meaning of a refusal, from what is cached alone.

use pandofs_api::op::Places;
use pandofs_api::{Layout, PathReply, Refusal, Request, ShardRequest};
use pandofs_placement::DirMap;
use pandofs_types::{Epoch, FsError, HashKey, Ino, Name, Position, ServerId, ShardId};

/// The target of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The shard that holds this position of the directory.
    Name {
        /// The directory.
        dir: Ino,
        /// Of the name's hash.
        position: Position,
    },
    /// The shard that holds the inode.
    Inode(Ino),
    /// This shard.
    Shard(ShardId),
    /// This server's data objects.
    Server(ServerId),
}

/// The cached places of directories and inodes; all of them may be stale. Threads may share them.
pub trait KnownPlaces {
    /// The shard that holds this position of the directory.
    fn shard_of(&self, dir: Ino, position: Position) -> ShardId;

    /// The shard that holds the inode.
    fn inode_shard(&self, ino: Ino) -> ShardId;

    /// As [`DirMaps::merge`](crate::DirMaps::merge).
    fn merge(&self, dir: Ino, map: &DirMap) -> bool;

    /// As [`DirMaps::correct`](crate::DirMaps::correct).
    fn correct(&self, dir: Ino, home: &DirMap) -> bool;

    /// The inode was found on this shard.
    fn moved(&self, ino: Ino, shard: ShardId);
}

/// The places, and the key by which names have positions.
#[derive(Debug)]
pub struct Router<'p, P> {
    /// Of the file system; the same on all servers.
    pub hash_key: HashKey,
    /// Places as they are known, which may be old.
    pub places: &'p P,
}

/// The reaction that a refusal asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reaction {
    /// The operation failed.
    Fail(FsError),
    /// Use this layout instead of the inode.
    NotInline {
        /// Where the data is to go, or is.
        layout: Layout,
        /// As in [`Refusal::NotInline`].
        striped: bool,
    },
    /// The shard has nothing of the directory.
    NoPart,
    /// The path is to be gone through, or the directory to be asked for by its number.
    ByPath(PathReply),
    /// Send it again: where to is known better now.
    Again,
    /// Fetch the directory's map from its home, [correct](KnownPlaces::correct) it, and send the request
    /// again; if nothing is [known better](Router::knows_better) then, this was in vain.
    AskHome(Ino),
    /// The inode is there: learn it and send the request again.
    Moved {
        /// The inode.
        ino: Ino,
        /// Where it is by the answer.
        shard: ShardId,
    },
    /// Look for a cluster map with this epoch or a higher one, and send it again.
    WrongServer(Epoch),
    /// Send it again after a pause.
    TryAgain,
    /// As `TryAgain`: a lock is in the way.
    NotYet,
    /// A refusal that no correct shard gives this client.
    Broken(String),
}

impl<P: KnownPlaces> Router<'_, P> {
    /// The shard to ask, as far as is known; `None` for a server's data objects.
    pub fn shard_of(&self, target: Target) -> Option<ShardId> {
        match target {
            Target::Name { dir, position } => Some(self.places.shard_of(dir, position)),
            Target::Inode(ino) => Some(self.places.inode_shard(ino)),
            Target::Shard(shard) => Some(shard),
            Target::Server(_) => None,
        }
    }

    /// Fills in where the second inode or name of a request is, as far as is known now.
    pub fn aim_within(&self, request: &mut Request) {
        request.operation_mut().aim(self);
    }

    /// Returns whether the request would now go elsewhere, or name another shard, than it did.
    pub fn knows_better(&self, target: Target, asked: &ShardRequest) -> bool {
        let Target::Name { dir, position } = target else {
            return false;
        };
        let elsewhere = asked
            .request
            .operation()
            .new_name()
            .is_some_and(|new| self.shard_of_name(new.dir, new.name) != new.shard);
        elsewhere || self.places.shard_of(dir, position) != asked.shard
    }

    /// Learns what the refusal teaches about directories, and says what to do.
    pub fn refused(
        &self,
        target: Target,
        asked: Option<&ShardRequest>,
        refusal: Refusal,
    ) -> Reaction {
        match refusal {
            Refusal::Fs(error) => Reaction::Fail(error),
            Refusal::Misdirected(map) => match asked
                .map(|asked| (asked, asked.request.operation().dir()))
            {
                Some((asked, Some(dir))) => self.misdirected(target, asked, dir, map),
                _ => Reaction::Broken(
                    "a request that names no directory was answered with a directory's map".into(),
                ),
            },
            Refusal::NewNameMisdirected(map) => {
                match asked.map(|asked| (asked, asked.request.operation().new_name())) {
                    Some((asked, Some(new))) => self.misdirected(target, asked, new.dir, map),
                    _ => Reaction::Broken(
                        "a shard redirected the new name of a request without one".into(),
                    ),
                }
            }
            Refusal::Moved { ino, shard } => Reaction::Moved { ino, shard },
            Refusal::WrongServer { epoch } => Reaction::WrongServer(epoch),
            Refusal::TryAgain => Reaction::TryAgain,
            Refusal::NotInline { layout, striped } => Reaction::NotInline { layout, striped },
            Refusal::StaleSequence => Reaction::Broken(
                "a shard has seen a later request on this slot: client and shard disagree about \
                 which requests were answered"
                    .into(),
            ),
            Refusal::Malformed(why) => {
                Reaction::Broken(format!("a shard refused a request: {why}"))
            }
            Refusal::NotYet => Reaction::NotYet,
            Refusal::ByPath(known) => Reaction::ByPath(known),
        }
    }

    /// The name is on another shard, says the one that was asked.
    fn misdirected(
        &self,
        target: Target,
        asked: &ShardRequest,
        dir: Ino,
        map: Option<DirMap>,
    ) -> Reaction {
        let learnt = map.is_some_and(|map| self.places.merge(dir, &map));
        if let Target::Shard(_) = target {
            // This shard was asked for what it has.
            return Reaction::NoPart;
        }
        // Another thread may have learnt it while this one was asking.
        if learnt || self.knows_better(target, asked) {
            return Reaction::Again;
        }
        Reaction::AskHome(dir)
    }
}

/// Returns whether after this refusal it is still unknown if the request was executed before. A
/// shard that had executed it would have said so; one that is still at it may say to try again, and
/// the wrong server knows nothing.
pub fn leaves_doubt(refusal: &Refusal) -> bool {
    matches!(refusal, Refusal::TryAgain | Refusal::WrongServer { .. })
}

impl<P: KnownPlaces> Places for Router<'_, P> {
    fn shard_of_name(&self, dir: Ino, name: &Name) -> ShardId {
        let position = self.hash_key.position(name.as_bytes());
        self.places.shard_of(dir, position)
    }

    fn shard_of_inode(&self, ino: Ino) -> ShardId {
        self.places.inode_shard(ino)
    }
}
