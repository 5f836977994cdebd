//! Bugs that can be put into the driver, to show that the oracles find them.

/// One bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A coordinator that waits for a decision gives up and aborts.
    AbortsWhileDeciding,
    /// A restarted coordinator aborts what was being decided instead of inquiring.
    RecoversByAborting,
    /// A coordinator forgets a committed operation though a prepared participant has not heard of it.
    ForgetsCommitted,
    /// A participant forgets an operation as soon as it has ended, not when the horizon passes.
    ForgetsAtOnce,
    /// The horizon is kept in memory, and after a restart a delayed `Do` seems new.
    HorizonNotStored,
    /// Messages leave before the record that they depend on is synced.
    SendsBeforeSyncing,
    /// A participant that knows nothing of an operation denies it without recording that.
    DeniesWithoutRecord,
    /// A repeated `Do` is performed again.
    PerformsRepeated,
    /// Locks of undecided operations are lost in a restart.
    LosesLocks,
    /// The locks of aborted operations are kept.
    KeepsLocks,
    /// A message whose answer is missing is not sent again.
    NeverResends,
    /// Ended participations are kept for ever.
    KeepsTombstones,
    /// The client hears of success when the operation is asked to be decided.
    AnswersEarly,
}

impl Fault {
    pub(crate) const ALL: [Fault; 13] = [
        Fault::AbortsWhileDeciding,
        Fault::RecoversByAborting,
        Fault::ForgetsCommitted,
        Fault::ForgetsAtOnce,
        Fault::HorizonNotStored,
        Fault::SendsBeforeSyncing,
        Fault::DeniesWithoutRecord,
        Fault::PerformsRepeated,
        Fault::LosesLocks,
        Fault::KeepsLocks,
        Fault::NeverResends,
        Fault::KeepsTombstones,
        Fault::AnswersEarly,
    ];
}
