//! Messages between the processes of one walk, and their encoding.
//!
//! A message is in postcard's encoding: numbers as varints, sequences with their length in front.
//! Items travel with the names of the directories above them, each once in a message and after the
//! one that it is in, so that paths have no limit and no process needs to know what another one has
//! seen. All processes of a walk are of one version (see `processes.rs`), so the format is pinned
//! only against changes by accident.

use crate::claims::Key;
use crate::dir::{Dir, DirState, Origin, Unreadable};
use crate::slice::Item;
use pandofs_walk::{Colour, Message, RankId, Token};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::Arc;

/// A message with the number of its walk.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Envelope<'l> {
    /// Number of the walk among those of these processes, from 1. Messages of an ended walk are
    /// late.
    pub walk: u32,
    #[serde(borrow)]
    pub body: Body<'l>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Body<'l> {
    Ask,
    #[serde(borrow)]
    Work(Parcel<'l>),
    Deny,
    Token {
        black: bool,
        in_flight: i64,
    },
    Finish,
    Abort {
        dead: u32,
    },
    Found(Parcel<'l>),
    Results {
        parcel: Parcel<'l>,
        found_messages: u64,
    },
    /// All parts that were lent of one directory are done.
    Back {
        loan: u64,
        place: u32,
        #[serde(with = "serde_bytes")]
        gathered: &'l [u8],
        /// Something in it or below it was written in place of being done.
        unfinished: bool,
    },
    /// The walk is to end.
    Stop,
    /// To the process that decides on these keys: whether they were claimed before in the walk that
    /// began with this number. Each with a number of the sender.
    Claim {
        since: u32,
        keys: Vec<(u64, Key)>,
    },
    /// Whether they were the first.
    Claimed(Vec<(u64, bool)>),
    /// To rank 0, for standard output: whole records.
    Output(#[serde(with = "serde_bytes")] &'l [u8]),
    /// To rank 0: nothing more comes, and this is what came out.
    Bye {
        counted: [u64; 4],
        #[serde(with = "serde_bytes")]
        result: &'l [u8],
    },
    /// From rank 0: everybody is done.
    Close,
    /// To rank 0: see [`Rpc`](crate::Rpc). Of no walk.
    Question {
        number: u64,
        #[serde(with = "serde_bytes")]
        question: &'l [u8],
    },
    /// From rank 0.
    Answer {
        number: u64,
        #[serde(with = "serde_bytes")]
        answer: &'l [u8],
    },
    /// From rank 0: somebody looks how far the walk is.
    Watch,
    /// To rank 0: how far the sender is. Counts of [`Meter::all`](crate::Meter::all), and items
    /// that wait.
    SoFar {
        counted: [u64; 4],
        queued: u64,
    },
    /// To rank 0, and from there to all: items are to be written in place of being done.
    Save,
    /// From rank 0: it takes what the receiver has for it, see [`crate::Processes::collect`].
    Fetch,
    /// To rank 0: the next piece of that, of up to `CHECKPOINT_PIECE_BYTES`.
    Piece {
        last: bool,
        #[serde(with = "serde_bytes")]
        bytes: &'l [u8],
    },
    /// From rank 0: see [`crate::Processes::tell`].
    Broadcast(#[serde(with = "serde_bytes")] &'l [u8]),
}

/// Items, and the directories that they are in.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Parcel<'l> {
    /// Number at the sender; 0 if it does not want to know when the items are done.
    loan: u64,
    /// Place 0 is what the roots are in, place N the Nth of these.
    #[serde(borrow)]
    dirs: Vec<Above<'l>>,
    items: Vec<Packed<'l>>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Above<'l> {
    /// The place of the directory that it is in, below its own.
    above: u32,
    seed: [u64; 2],
    #[serde(with = "serde_bytes")]
    name: &'l [u8],
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Packed<'l> {
    kind: Kind,
    /// The place of the directory that it is in, or a part of.
    holder: u32,
    /// A directory's name, a slice's entries, or what a task is.
    #[serde(with = "serde_bytes")]
    content: &'l [u8],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Kind {
    Directory { seed: [u64; 2] },
    Slice,
    Task,
}

/// A directory, and how many parts of it others have.
type Lent<D> = (Arc<Dir<D>>, usize);

/// Parts of directories that other processes have, by loan and place.
pub(crate) struct Loans<D> {
    last: u64,
    lent: HashMap<(u64, u32), Lent<D>>,
    /// Whether anybody wants to know when directories are done.
    wanted: bool,
}

impl<D> Loans<D> {
    pub(crate) fn new(wanted: bool) -> Loans<D> {
        Loans {
            last: 0,
            lent: HashMap::new(),
            wanted,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.lent.is_empty()
    }

    /// The directory, and how many parts of it are back.
    pub(crate) fn back(&mut self, loan: u64, place: u32) -> Result<Lent<D>, Unreadable> {
        self.lent.remove(&(loan, place)).ok_or(Unreadable)
    }
}

/// Encodes a message of the step machine.
pub(crate) fn pack<D: DirState>(
    walk: u32,
    message: &Message<Item<D>>,
    loans: &mut Loans<D>,
) -> Vec<u8> {
    let body = match message {
        Message::Ask => Body::Ask,
        Message::Deny => Body::Deny,
        Message::Finish => Body::Finish,
        Message::Abort { dead } => Body::Abort { dead: dead.0 },
        Message::Token(token) => Body::Token {
            black: token.colour == Colour::Black,
            in_flight: token.in_flight,
        },
        Message::Work { items } => Body::Work(parcel(items, loans)),
        Message::Found { items } => Body::Found(parcel(items, loans)),
        Message::Results {
            items,
            found_messages,
        } => Body::Results {
            parcel: parcel(items, loans),
            found_messages: *found_messages,
        },
    };
    write(&Envelope { walk, body })
}

/// The bytes of a message.
pub(crate) fn write(envelope: &Envelope<'_>) -> Vec<u8> {
    match postcard::to_stdvec(envelope) {
        Ok(bytes) => bytes,
        Err(error) => unreachable!("a vector takes everything: {error}"),
    }
}

/// # Errors
/// When these are no message's bytes.
pub(crate) fn read(bytes: &[u8]) -> Result<Envelope<'_>, Unreadable> {
    postcard::from_bytes(bytes).map_err(|_| Unreadable)
}

fn parcel<'i, D: DirState>(items: &'i [Item<D>], loans: &mut Loans<D>) -> Parcel<'i> {
    let mut places: HashMap<*const Dir<D>, u32> = HashMap::new();
    let mut dirs = Vec::new();
    let mut packed = Vec::with_capacity(items.len());
    let mut lent: HashMap<u32, Lent<D>> = HashMap::new();
    for item in items {
        let (kind, dir, content) = match item {
            Item::Directory(dir) => match dir.above() {
                Some(above) => (
                    Kind::Directory { seed: dir.seed() },
                    above,
                    dir.name().to_bytes(),
                ),
                None => unreachable!("what the roots are in is no item"),
            },
            Item::Slice(dir, entries) => (Kind::Slice, dir, &**entries),
            Item::Task(dir, what) => (Kind::Task, dir, &**what),
        };
        let holder = place(dir, &mut places, &mut dirs);
        packed.push(Packed {
            kind,
            holder,
            content,
        });
        if loans.wanted {
            lent.entry(holder).or_insert((Arc::clone(dir), 0)).1 += 1;
        }
    }
    let mut loan = 0;
    if loans.wanted && !items.is_empty() {
        loans.last += 1;
        loan = loans.last;
        let lent = lent.into_iter();
        loans
            .lent
            .extend(lent.map(|(place, parts)| ((loan, place), parts)));
    }
    Parcel {
        loan,
        dirs,
        items: packed,
    }
}

/// The place of a directory among those of a message, to which it and those above it are added if
/// need be.
fn place<'i, D>(
    dir: &'i Arc<Dir<D>>,
    places: &mut HashMap<*const Dir<D>, u32>,
    dirs: &mut Vec<Above<'i>>,
) -> u32 {
    let mut missing = Vec::new();
    let mut next = Some(dir);
    let mut at = 0;
    while let Some(dir) = next.filter(|dir| !dir.is_top()) {
        if let Some(known) = places.get(&Arc::as_ptr(dir)) {
            at = *known;
            break;
        }
        missing.push(dir);
        next = dir.above();
    }
    for dir in missing.into_iter().rev() {
        dirs.push(Above {
            above: at,
            seed: dir.seed(),
            name: dir.name().to_bytes(),
        });
        at = dirs.len() as u32;
        places.insert(Arc::as_ptr(dir), at);
    }
    at
}

/// Returns the message for the step machine; none if it is for the transport.
///
/// # Errors
/// When the message contradicts itself.
pub(crate) fn walk_message<D: DirState>(
    body: Body<'_>,
    from: RankId,
) -> Result<Option<Message<Item<D>>>, Unreadable> {
    Ok(Some(match body {
        Body::Ask => Message::Ask,
        Body::Deny => Message::Deny,
        Body::Finish => Message::Finish,
        Body::Abort { dead } => Message::Abort { dead: RankId(dead) },
        Body::Token { black, in_flight } => Message::Token(Token {
            colour: if black { Colour::Black } else { Colour::White },
            in_flight,
        }),
        Body::Work(parcel) => Message::Work {
            items: unpack(parcel, from)?,
        },
        Body::Found(parcel) => Message::Found {
            items: unpack(parcel, from)?,
        },
        Body::Results {
            parcel,
            found_messages,
        } => Message::Results {
            items: unpack(parcel, from)?,
            found_messages,
        },
        Body::Back { .. }
        | Body::Stop
        | Body::Claim { .. }
        | Body::Claimed(_)
        | Body::Output(_)
        | Body::Bye { .. }
        | Body::Close
        | Body::Question { .. }
        | Body::Answer { .. }
        | Body::Watch
        | Body::SoFar { .. }
        | Body::Save
        | Body::Fetch
        | Body::Piece { .. }
        | Body::Broadcast(_) => {
            return Ok(None);
        }
    }))
}

fn unpack<D: DirState>(parcel: Parcel<'_>, rank: RankId) -> Result<Vec<Item<D>>, Unreadable> {
    let mut parts = vec![0_usize; parcel.dirs.len() + 1];
    for item in &parcel.items {
        *parts.get_mut(item.holder as usize).ok_or(Unreadable)? += 1;
    }
    let origin = |place: usize| {
        (parcel.loan != 0 && parts[place] > 0).then_some(Origin {
            rank,
            loan: parcel.loan,
            place: place as u32,
        })
    };
    let top = Dir::proxy(None, c"", [0, 0], parts[0], origin(0));
    let mut dirs: Vec<Arc<Dir<D>>> = vec![Arc::new(top)];
    for above in &parcel.dirs {
        let place = dirs.len();
        let parent = dirs.get(above.above as usize).ok_or(Unreadable)?;
        let name = terminated(above.name)?;
        let dir = Dir::proxy(Some(parent), &name, above.seed, parts[place], origin(place));
        dirs.push(Arc::new(dir));
    }
    parcel
        .items
        .iter()
        .map(|item| {
            let holder = dirs.get(item.holder as usize).ok_or(Unreadable)?;
            Ok(match item.kind {
                Kind::Directory { seed } => {
                    let name = terminated(item.content)?;
                    Item::Directory(Arc::new(if parcel.loan == 0 {
                        Dir::child(holder, &name, seed)
                    } else {
                        Dir::unspilled(holder, &name, seed)
                    }))
                }
                kind => {
                    if parcel.loan == 0 {
                        holder.add_part();
                    }
                    let (dir, content) = (Arc::clone(holder), item.content.into());
                    if kind == Kind::Slice {
                        Item::Slice(dir, content)
                    } else {
                        Item::Task(dir, content)
                    }
                }
            })
        })
        .collect()
}

fn terminated(name: &[u8]) -> Result<CString, Unreadable> {
    CString::new(name).map_err(|_| Unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items() -> Vec<Item<()>> {
        let top = Dir::<()>::top();
        let a = Arc::new(Dir::child(&top, c"a", [1, 2]));
        let b = Arc::new(Dir::child(&a, c"b\n\xff", [0, 0]));
        let c = Arc::new(Dir::child(&b, c"c", [3, 4]));
        let d = Arc::new(Dir::child(&a, c"d", [0, 0]));
        b.add_part();
        b.add_part();
        vec![
            Item::Directory(c),
            Item::Slice(Arc::clone(&b), (*b"entries").into()),
            Item::Directory(d),
            Item::Task(b, (*b"later").into()),
        ]
    }

    fn sent(wanted: bool) -> (Loans<()>, Vec<u8>) {
        let mut loans = Loans::new(wanted);
        let message = Message::Work { items: items() };
        let bytes = pack(7, &message, &mut loans);
        (loans, bytes)
    }

    #[test]
    fn a_letter_is_what_it_was() {
        let (_, bytes) = sent(true);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, GOLDEN);
    }

    /// Walk 7, Work, loan 1; two directories: a in place 0 with the numbers 1 and 2, b in place 1;
    /// four items.
    const GOLDEN: &str = concat!(
        "07010102",
        "0001020161",
        "01000003620aff",
        "04",
        "000304020163",
        "010207656e7472696573",
        "000000010164",
        "0202056c61746572",
    );

    #[test]
    fn items_arrive_with_the_directories_above_them_and_come_back() {
        let (mut loans, bytes) = sent(true);
        let envelope = read(&bytes).unwrap();
        assert_eq!(envelope.walk, 7);
        let from = RankId(3);
        let Some(Message::Work { items }) = walk_message::<()>(envelope.body, from).unwrap() else {
            panic!("no work");
        };
        let [
            Item::Directory(c),
            Item::Slice(b, entries),
            Item::Directory(d),
            Item::Task(of, later),
        ] = &items[..]
        else {
            panic!("{items:?}");
        };
        assert_eq!((&**entries, &**later), (&b"entries"[..], &b"later"[..]));
        assert!(Arc::ptr_eq(b, of) && c.above().is_some_and(|above| Arc::ptr_eq(above, b)));
        assert_eq!((c.name(), c.seed(), c.depth()), (c"c", [3, 4], 2));
        assert_eq!((b.name(), b.depth()), (c"b\n\xff", 1));
        let a = b.parent().unwrap();
        assert_eq!((a.name(), a.seed(), a.depth()), (c"a", [1, 2], 0));
        assert!(d.parent().is_some_and(|parent| Arc::ptr_eq(parent, a)));

        // Three parts of b were lent and one of a.
        assert!(!b.parts_done(2));
        assert!(b.parts_done(1));
        let origin = b.origin().unwrap();
        assert_eq!(origin.rank, from);
        let (dir, parts) = loans.back(origin.loan, origin.place).unwrap();
        assert_eq!((dir.name(), parts), (c"b\n\xff", 3));
        assert_eq!(
            loans.back(origin.loan, origin.place).err(),
            Some(Unreadable)
        );
        assert!(a.parts_done(1));
        let origin = a.origin().unwrap();
        assert_eq!(loans.back(origin.loan, origin.place).unwrap().1, 1);
        assert!(loans.is_empty());
    }

    #[test]
    fn what_nobody_waits_for_is_not_remembered() {
        let (loans, bytes) = sent(false);
        assert!(loans.is_empty());
        let Some(Message::Work { items }) =
            walk_message::<()>(read(&bytes).unwrap().body, RankId(3)).unwrap()
        else {
            panic!("no work");
        };
        let Item::Slice(b, _) = &items[1] else {
            panic!("no slice");
        };
        assert_eq!(b.origin(), None);
        assert!(!b.parts_done(3), "it has no end");
    }

    #[test]
    fn what_came_damaged_is_refused_or_means_something_else() {
        let (_, bytes) = sent(true);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut other = bytes.clone();
                other[at] ^= 1 << bit;
                if let Ok(envelope) = read(&other) {
                    let _ = walk_message::<()>(envelope.body, RankId(3));
                }
            }
        }
    }

    #[test]
    fn a_part_that_is_unfinished_comes_back_as_such() {
        let back = Envelope {
            walk: 7,
            body: Body::Back {
                loan: 2,
                place: 1,
                gathered: b"g",
                unfinished: true,
            },
        };
        let bytes = write(&back);
        assert_eq!(bytes, [7, 8, 2, 1, 1, b'g', 1]);
        assert_eq!(read(&bytes).unwrap(), back);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn letters_that_contradict_themselves_are_refused() {
        let (_, bytes) = sent(true);
        for cut in 0..bytes.len() {
            assert!(read(&bytes[..cut]).is_err());
        }
        let parcel = |above, holder| Parcel {
            loan: 1,
            dirs: vec![Above {
                above,
                seed: [0, 0],
                name: b"a",
            }],
            items: vec![Packed {
                kind: Kind::Slice,
                holder,
                content: b"",
            }],
        };
        assert!(unpack::<()>(parcel(0, 1), RankId(0)).is_ok());
        assert!(unpack::<()>(parcel(1, 1), RankId(0)).is_err());
        assert!(unpack::<()>(parcel(0, 2), RankId(0)).is_err());
    }
}
