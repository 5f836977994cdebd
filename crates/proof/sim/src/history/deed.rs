//! Effects of operations on what leads to something, or is free: names, and extended attributes.

/// Effect of an operation on a name, or its finding about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed<T> {
    /// It leads there, or nowhere.
    Read(Option<T>),
    /// It was free and leads there now.
    Insert(T),
    /// It was not free.
    Taken,
    /// It led there and is free now.
    Remove(T),
    /// It led there and may be free now: a rename to another name of the same file does nothing.
    MayLeave(T),
    /// It led there, and leads to a white-out now that nobody was told of.
    Hide(T),
    /// It leads there now.
    Set(T),
    /// It led somewhere and leads there now.
    Replace(T),
    /// It led somewhere and is free now.
    Clear,
    /// It led to the first and leads to the second now.
    Swap(T, T),
    /// Not known to have been done: it may lead somewhere now if it was free.
    MayInsert,
    MayRemove,
    MaySet,
    /// A server forgot what had not been synced: anything may be true now.
    Forget,
}
