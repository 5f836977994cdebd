//! The history of each name is linearizable: there is an order of all operations on it in which each does what its
//! client was told, and in which none comes before one that had ended when it began. One of unknown outcome may come
//! anywhere after its beginning, once, or not at all: last, when nobody looks any more.
//!
//! The search is Wing's and Gong's with Lowe's memory of states, by the library `todc-utils`.

use super::Finding;
use crate::history::{Deed, History, Operation};
use pandofs_check::Tables;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::marker::PhantomData;
use todc_utils::linearizability::WGLChecker;
use todc_utils::linearizability::history::{Action, History as Actions};
use todc_utils::specifications::Specification;

/// Target of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Name<T> {
    Free,
    Leads(T),
    /// Nobody has been told where it leads, but somewhere.
    Somewhere,
    /// Free, or it leads there.
    Perhaps(T),
    Anything,
}

/// Of what leads to something or is free, at first free: names, and extended attributes, which "lead to" their values.
pub(super) struct NameSpec<T>(PhantomData<T>);

impl<T: Copy + Eq + Hash + Debug> Specification for NameSpec<T> {
    type State = Name<T>;
    type Operation = Deed<T>;

    fn init() -> Name<T> {
        Name::Free
    }

    fn apply(deed: &Deed<T>, state: &Name<T>) -> (bool, Name<T>) {
        let next = match (*deed, *state) {
            (Deed::Read(None), Name::Free | Name::Perhaps(_) | Name::Anything) => Some(Name::Free),
            (Deed::Read(None), _) => None,
            (Deed::Read(Some(ino)), state) => leads_to(state, ino).then_some(Name::Leads(ino)),
            (Deed::Insert(ino), Name::Free | Name::Perhaps(_) | Name::Anything) => {
                Some(Name::Leads(ino))
            }
            (Deed::Insert(_), _) => None,
            (Deed::Taken, Name::Free) => None,
            (Deed::Taken, Name::Perhaps(ino)) => Some(Name::Leads(ino)),
            (Deed::Taken, Name::Anything) => Some(Name::Somewhere),
            (Deed::Taken, state) => Some(state),
            (Deed::Remove(ino), state) => leads_to(state, ino).then_some(Name::Free),
            (Deed::MayLeave(ino), state) => leads_to(state, ino).then_some(Name::Perhaps(ino)),
            (Deed::Hide(ino), state) => leads_to(state, ino).then_some(Name::Somewhere),
            (Deed::Set(ino), _) => Some(Name::Leads(ino)),
            (Deed::Replace(_) | Deed::Clear, Name::Free) => None,
            (Deed::Replace(ino), _) => Some(Name::Leads(ino)),
            (Deed::Clear, _) => Some(Name::Free),
            (Deed::Swap(from, to), state) => leads_to(state, from).then_some(Name::Leads(to)),
            (Deed::MayInsert, Name::Free) => Some(Name::Somewhere),
            (Deed::MayInsert, Name::Perhaps(_)) => Some(Name::Anything),
            (Deed::MayInsert, state) => Some(state),
            (Deed::MayRemove, Name::Leads(ino)) => Some(Name::Perhaps(ino)),
            (Deed::MayRemove, Name::Somewhere) => Some(Name::Anything),
            (Deed::MayRemove, state) => Some(state),
            (Deed::MaySet | Deed::Forget, _) => Some(Name::Anything),
        };
        (next.is_some(), next.unwrap_or(*state))
    }
}

fn leads_to<T: Eq>(state: Name<T>, to: T) -> bool {
    match state {
        Name::Free => false,
        Name::Leads(there) | Name::Perhaps(there) => there == to,
        Name::Somewhere | Name::Anything => true,
    }
}

pub(super) fn check(tables: &Tables, history: &mut History) -> Result<(), Finding> {
    let entries = tables.entries.iter();
    let found: BTreeMap<_, _> = entries
        .map(|(key, entry)| ((key.dir, key.name.clone()), entry.ino))
        .collect();
    for key in history.keys() {
        let ino = found.get(&key).copied();
        history.end_of(key, ino);
    }
    for key in history.keys() {
        let operations = history.of(&key);
        let (dir, name) = key;
        let what = || format!("name '{name}' of directory {dir}");
        look::<NameSpec<_>>("linearizable", what, &operations)?;
    }
    Ok(())
}

/// Returns a finding of the oracle if there is no order of these operations on a thing that fits all that they tell.
pub(super) fn look<S>(
    oracle: &str,
    what: impl Fn() -> String,
    operations: &[Operation<S::Operation>],
) -> Result<(), Finding>
where
    S: Specification<Operation: Copy>,
{
    if is_linearizable::<S>(operations) {
        return Ok(());
    }
    let show = |(begun, ended, deed): &Operation<S::Operation>| {
        let ended = ended.map_or("never".to_owned(), |end| end.to_string());
        format!("{begun}-{ended} {deed:?}")
    };
    let lines: Vec<String> = operations.iter().map(show).collect();
    let text = format!("{}: {}", what(), lines.join(", "));
    Err(Finding::new(oracle, text))
}

/// Beginnings and ends in the order of time.
fn instants<D: Copy>(operations: &[Operation<D>]) -> Vec<(usize, Action<D>)> {
    let mut instants: Vec<(u64, usize, Action<D>)> = Vec::new();
    for (process, &(begun, ended, deed)) in operations.iter().enumerate() {
        instants.push((begun, process, Action::Call(deed)));
        instants.push((ended.unwrap_or(u64::MAX), process, Action::Response(deed)));
    }
    instants.sort_by_key(|&(instant, process, _)| (instant, process));
    let actions = instants.into_iter();
    actions
        .map(|(_, process, action)| (process, action))
        .collect()
}

pub(super) fn is_linearizable<S>(operations: &[Operation<S::Operation>]) -> bool
where
    S: Specification<Operation: Copy>,
{
    let actions = instants(operations);
    actions.is_empty() || WGLChecker::<S>::is_linearizable(Actions::from_actions(actions))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::Ino;

    fn operation(begun: u64, ended: Option<u64>, deed: Deed<Ino>) -> Operation<Deed<Ino>> {
        (begun, ended, deed)
    }

    fn is_linearizable(operations: &[Operation<Deed<Ino>>]) -> bool {
        super::is_linearizable::<NameSpec<_>>(operations)
    }

    const A: Ino = Ino(5);
    const B: Ino = Ino(6);

    #[test]
    fn what_is_read_must_be_there() {
        let insert = operation(1, Some(4), Deed::Insert(A));
        let during = operation(2, Some(3), Deed::Read(None));
        let after = |deed| operation(5, Some(6), deed);
        assert!(is_linearizable(&[
            insert,
            during,
            after(Deed::Read(Some(A)))
        ]));
        assert!(!is_linearizable(&[insert, during, after(Deed::Read(None))]));
        assert!(!is_linearizable(&[insert, after(Deed::Insert(B))]));
    }

    #[test]
    fn what_is_unknown_happens_once_or_not_at_all() {
        let unknown = operation(1, None, Deed::MayInsert);
        let read = |at, ino| operation(at, Some(at + 1), Deed::Read(ino));
        assert!(is_linearizable(&[unknown, read(5, None)]));
        assert!(is_linearizable(&[unknown, read(5, None), read(7, Some(A))]));
        let gone = operation(9, Some(10), Deed::Remove(A));
        let twice = [unknown, read(7, Some(A)), gone, read(11, Some(B))];
        assert!(!is_linearizable(&twice));
    }

    #[test]
    fn what_is_replaced_or_cleared_was_there() {
        let read = |at, ino| operation(at, Some(at + 1), Deed::Read(ino));
        let replace = operation(3, Some(4), Deed::Replace(B));
        let clear = operation(3, Some(4), Deed::Clear);
        let insert = operation(1, Some(2), Deed::Insert(A));
        assert!(is_linearizable(&[insert, replace, read(5, Some(B))]));
        assert!(!is_linearizable(&[insert, replace, read(5, Some(A))]));
        assert!(is_linearizable(&[insert, clear, read(5, None)]));
        assert!(!is_linearizable(&[insert, clear, read(5, Some(A))]));
        assert!(!is_linearizable(&[replace]) && !is_linearizable(&[clear]));
    }

    #[test]
    fn what_a_server_forgot_is_not_expected() {
        let insert = operation(1, Some(2), Deed::Insert(A));
        let forget = operation(3, Some(4), Deed::Forget);
        let read = operation(5, Some(6), Deed::Read(None));
        assert!(is_linearizable(&[insert, forget, read]));
        assert!(!is_linearizable(&[insert, read]));
    }
}
