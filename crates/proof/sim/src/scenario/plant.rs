//! Wrong things that are done on purpose.

/// Something wrong that is done on purpose, to see that the oracles notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Answers that must wait for the disk do not.
    Unsynced,
    /// A client whose request may have been executed asks another shard when it learns of one.
    ForgetsDoubt,
    /// A client remembers what names lead to.
    CachesEntries,
    /// That an inode died is acknowledged and not done.
    KeepsForwarding,
    /// Homes acknowledge what they are told of splits and forget it.
    KeepsMapsFromHome,
    /// The source of a split keeps its half in the store.
    KeepsPartition,
    /// An entry is lost on its way to the target of a split.
    LosesEntry,
    /// A number of entries is not written.
    Miscounts,
    /// A number of links is not written.
    MiscountsLinks,
    /// A file is made, and its name is not written.
    LosesName,
    /// A moved directory keeps its old parent.
    KeepsParent,
    /// The end of an operation leaves its locks.
    KeepsLocks,
    /// Numbers of inodes that a loss of power took away are given out again.
    ReusesNumbers,
    /// Messages of the commit protocol are sent once only.
    NeverRepeats,
    /// A client does not tell a restarted server what it has open.
    ForgetsOpens,
    /// Nor which locks it has.
    ForgetsFileLocks,
    /// A client says that it has let go of names that were recalled, and believes them.
    KeepsRecalledNames,
    /// The same of attributes.
    KeepsRecalledAttributes,
    /// A client's clock goes so slowly that it believes for longer than a server takes it to.
    OutlivesLeases,
    /// A new directory is stored otherwise than its record says.
    MistakesTime,
    /// A client says that it has let go of a granted directory, and sends what it did in it later.
    AnswersRecallsAtOnce,
    /// A sync does not wait for what was answered early.
    SyncsWithoutQueue,
    /// A client takes some batches for done that it does not send.
    SkipsBatches,
    /// A client takes leases from a restarted server before it has sent what it did under grants from before.
    BeginsAnewAtOnce,
    /// A client tells nobody that something is lost which it answered early.
    TellsNoLoss,
    /// The shards of a server that takes up a newer cluster map go on by the old one.
    KeepsOldMap,
    /// A server that takes up a newer cluster map does not keep it, and starts again by the old one.
    LosesNewMap,
    /// A client answers names that it believes to any caller.
    AnswersAnybody,
    /// Permission bits of a directory change in its inode, and not where its names are.
    KeepsRights,
    /// An extended attribute that is set again keeps its value.
    KeepsValues,
    /// Changes of directories are taken down in no path log.
    KeepsPaths,
    /// A file that is cut stays as long as it was.
    KeepsSizes,
    /// The time of an inode's change is stored as one before the last.
    TurnsTimesBack,
    /// A client answers from leases without what it has answered early since.
    BelievesWithoutQueue,
    /// A data object takes a write that goes by another number of truncations.
    TakesAnyCount,
    /// A truncation that comes again to a data object is carried out again.
    TruncatesAgain,
    /// A truncation is not carried out on some of the servers that a file is striped over.
    LeavesStripe,
    /// A server carries out requests over a connection that a client has given up.
    HearsAbandoned,
    /// A data server acknowledges a sync without syncing.
    SyncsNothing,
    /// A client takes a sync for one of what it had written before the server's machine was started anew.
    TakesLateSyncs,
    /// That a data object was removed is acknowledged and not done.
    KeepsObjects,
    /// A client's clock stands still while its process does.
    StandsStill,
    /// A client goes on to believe in locks that a server says are others' by now.
    KeepsLostLocks,
    /// A server that lets go of a session keeps what it has open, locked and leased.
    KeepsExpired,
    /// A shard executes what was answered early under grants that are over.
    TakesLateBatches,
    /// Of changes of a file's attributes that a client sends as one, one is left out.
    DropsMerged,
}

impl Plant {
    /// In the order in which they are listed.
    pub const ALL: [Plant; 46] = [
        Plant::Unsynced,
        Plant::ForgetsDoubt,
        Plant::CachesEntries,
        Plant::KeepsForwarding,
        Plant::KeepsMapsFromHome,
        Plant::KeepsPartition,
        Plant::LosesEntry,
        Plant::Miscounts,
        Plant::MiscountsLinks,
        Plant::LosesName,
        Plant::KeepsParent,
        Plant::KeepsLocks,
        Plant::ReusesNumbers,
        Plant::NeverRepeats,
        Plant::ForgetsOpens,
        Plant::ForgetsFileLocks,
        Plant::KeepsRecalledNames,
        Plant::KeepsRecalledAttributes,
        Plant::OutlivesLeases,
        Plant::MistakesTime,
        Plant::AnswersRecallsAtOnce,
        Plant::SyncsWithoutQueue,
        Plant::TellsNoLoss,
        Plant::SkipsBatches,
        Plant::BeginsAnewAtOnce,
        Plant::KeepsOldMap,
        Plant::LosesNewMap,
        Plant::AnswersAnybody,
        Plant::KeepsRights,
        Plant::KeepsValues,
        Plant::KeepsPaths,
        Plant::KeepsSizes,
        Plant::TurnsTimesBack,
        Plant::BelievesWithoutQueue,
        Plant::TakesAnyCount,
        Plant::TruncatesAgain,
        Plant::LeavesStripe,
        Plant::HearsAbandoned,
        Plant::SyncsNothing,
        Plant::TakesLateSyncs,
        Plant::KeepsObjects,
        Plant::StandsStill,
        Plant::KeepsLostLocks,
        Plant::KeepsExpired,
        Plant::TakesLateBatches,
        Plant::DropsMerged,
    ];

    /// Returns whether it is seen in what is stored as soon as done, and looking at all of that often finds it before it has
    /// done more harm. Others are seen in what clients are told, at a start or at the end.
    pub fn is_of_the_store(self) -> bool {
        matches!(
            self,
            Plant::KeepsPartition
                | Plant::LosesEntry
                | Plant::Miscounts
                | Plant::MiscountsLinks
                | Plant::LosesName
                | Plant::KeepsParent
                | Plant::ForgetsOpens
        )
    }
}
