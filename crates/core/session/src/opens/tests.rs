//! Open files and closes, without a server.

use super::*;
use pandofs_types::Epoch;

/// Both, and a server's count of registrations.
#[derive(Default)]
struct Opens {
    files: OpenFiles<()>,
    closes: Closes,
    registrations: u64,
}

impl Opens {
    fn of(opens: &[(u64, u16)]) -> Opens {
        let mut all = Opens {
            registrations: 1,
            ..Opens::default()
        };
        for &(ino, shard) in opens {
            all.open(ino, shard);
        }
        all
    }

    fn open(&mut self, ino: u64, shard: u16) {
        self.files.opened(Ino(ino), ShardId(shard), true, || ());
    }

    fn release(&mut self, ino: u64) -> bool {
        self.closes.release(&mut self.files, Ino(ino))
    }

    fn register(&mut self, shards: &[ShardId]) -> Vec<(ShardId, Vec<(Ino, u32)>)> {
        self.registrations += 1;
        self.closes.register(shards, self.files.counts())
    }

    fn to_register(&self, ino: u64) -> Option<(u32, ShardId)> {
        self.closes.to_register(&self.files, Ino(ino))
    }
}

#[test]
fn opens_are_counted_and_closes_are_queued() {
    let mut opens = Opens::of(&[(5, 1), (5, 1)]);
    assert_eq!(opens.files.count(Ino(5)), Some((2, ShardId(1))));
    opens.files.moved(Ino(5), ShardId(3));
    assert!(opens.release(5));
    assert!(opens.release(5));
    assert!(!opens.release(5));
    assert_eq!(opens.files.count(Ino(5)), None);
    assert!(opens.files.file(Ino(5)).is_none() && opens.files.is_empty());
    let batch = Batch {
        shard: ShardId(3),
        inos: vec![Ino(5); 2],
        registration: 7,
    };
    assert_eq!(opens.closes.take(|_| 7), [batch]);
    assert_eq!(opens.closes.take(|_| 7), []);
}

#[test]
fn an_inode_is_registered_with_the_closes_that_are_still_to_come() {
    let mut opens = Opens::of(&[(5, 1), (6, 1)]);
    assert!(opens.release(5));
    assert!(opens.release(6));
    assert_eq!(opens.to_register(5), None);
    opens.open(5, 1);
    assert_eq!(opens.to_register(5), Some((2, ShardId(1))));
    let batches = opens.closes.take(|_| 1);
    assert_eq!(opens.to_register(5), Some((2, ShardId(1))));
    opens.closes.given_up(&batches[0]);
    assert_eq!(opens.to_register(5), Some((1, ShardId(1))));
    assert_eq!(opens.files.count(Ino(5)), Some((1, ShardId(1))));
}

#[test]
fn a_registration_counts_the_queued_closes() {
    let mut opens = Opens::of(&[(5, 1), (5, 1), (6, 1), (7, 2)]);
    for ino in [5, 6, 7] {
        opens.release(ino);
    }
    let opened = opens.register(&[ShardId(1)]);
    assert_eq!(opened, [(ShardId(1), vec![(Ino(5), 1), (Ino(7), 1)])]);
    let left = opens.closes.take(|_| 1);
    assert_eq!(
        left,
        [Batch {
            shard: ShardId(2),
            inos: vec![Ino(7)],
            registration: 1
        }]
    );
}

#[test]
fn closes_that_were_registered_are_not_queued_again() {
    let mut opens = Opens::of(&[(5, 1)]);
    opens.release(5);
    let batch = opens.closes.take(|_| 1).remove(0);
    opens
        .closes
        .sent(&batch, &batch.whole(), opens.registrations, |_| true);
    let batch = opens.closes.take(|_| 1).remove(0);
    opens.register(&[ShardId(1)]);
    opens
        .closes
        .sent(&batch, &batch.whole(), opens.registrations, |_| true);
    assert_eq!(opens.closes.take(|_| 2), []);
    assert!(opens.closes.is_empty());
}

/// A server that is registered with while a close is told to another one counts it in.
#[test]
fn closes_of_what_has_moved_are_queued_for_the_shard_that_has_it() {
    let mut opens = Opens::of(&[(5, 1), (5, 1), (6, 1)]);
    for ino in [5, 5, 6] {
        opens.release(ino);
    }
    let batch = opens.closes.take(|_| 1).remove(0);
    let told = opens.closes.register(&[ShardId(2)], opens.files.counts());
    assert_eq!(told, [(ShardId(2), vec![(Ino(5), 2), (Ino(6), 1)])]);
    // The first is not among the closes of the batch, nor is the last of inode 6.
    let not_closed = [(9, 2), (6, 1), (5, 2), (6, 1)];
    let not_closed = not_closed.map(|(ino, shard)| (Ino(ino), ShardId(shard)));
    let answer = Some(Ok(Reply::NotClosed(not_closed.to_vec())));
    let left = batch.left_by(answer).unwrap();
    assert_eq!(left, [(Ino(6), ShardId(1)), (Ino(5), ShardId(2))]);
    opens.register(&[ShardId(1)]);
    opens
        .closes
        .sent(&batch, &left, opens.registrations, |shard| {
            shard == ShardId(1)
        });
    let batch = Batch {
        shard: ShardId(2),
        inos: vec![Ino(5)],
        registration: 2,
    };
    assert_eq!(opens.closes.take(|_| 2), [batch]);
}

#[test]
fn a_restarted_server_is_told_of_what_may_have_moved_there() {
    let mut opens = Opens::of(&[(5, 1), (6, 2), (6, 2), (6, 2), (7, 2)]);
    // A close that another shard is still to get comes from there if the inode is not
    // there any more.
    for ino in [6, 7] {
        opens.release(ino);
    }
    // Also if it was opened anew there before the close came.
    let all = [
        (ShardId(1), vec![(Ino(5), 1), (Ino(6), 3), (Ino(7), 1)]),
        (ShardId(3), vec![(Ino(5), 1), (Ino(6), 3), (Ino(7), 1)]),
    ];
    let shards = [ShardId(1), ShardId(3)];
    assert_eq!(opens.register(&shards), all);
    let batch = opens.closes.take(|_| 1).remove(0);
    assert_eq!(opens.register(&shards), all);
    opens.closes.given_up(&batch);
    let told = opens.register(&shards);
    assert_eq!(told[1].1, [(Ino(5), 1), (Ino(6), 2)]);
    assert!(opens.closes.is_empty() && !opens.files.is_empty());
}

#[test]
fn closes_are_told_again_only_if_they_did_not_count() {
    let batch = Batch {
        shard: ShardId(1),
        inos: vec![Ino(5), Ino(6)],
        registration: 1,
    };
    let again = Ok(batch.whole());
    assert_eq!(batch.left_by(None), Ok(Vec::new()));
    assert_eq!(batch.left_by(Some(Ok(Reply::Done))), Ok(Vec::new()));
    assert_eq!(batch.left_by(Some(Err(Refusal::TryAgain))), again);
    let elsewhere = Refusal::WrongServer { epoch: Epoch(4) };
    assert_eq!(batch.left_by(Some(Err(elsewhere))), again);
    let odd = Refusal::StaleSequence;
    assert_eq!(batch.left_by(Some(Err(odd.clone()))), Err(odd));
}

#[test]
fn a_message_is_full_and_longer_queues_are_cut() {
    let mut opens = Opens::of(&[]);
    for ino in 0..=MAX_RELEASES_PER_MESSAGE as u64 {
        assert_eq!(
            opens.closes.is_full(),
            ino >= MAX_RELEASES_PER_MESSAGE as u64
        );
        opens.open(ino, 1);
        opens.release(ino);
    }
    let sizes: Vec<usize> = opens
        .closes
        .take(|_| 1)
        .iter()
        .map(|batch| batch.inos.len())
        .collect();
    assert_eq!(sizes, [MAX_RELEASES_PER_MESSAGE, 1]);
    assert!(!opens.closes.is_full());
}

#[test]
fn closes_that_are_put_back_make_no_message_full() {
    let mut opens = Opens::of(&[]);
    for ino in 0..=MAX_RELEASES_PER_MESSAGE as u64 {
        opens.open(ino, 1);
        opens.release(ino);
    }
    let batches = opens.closes.take(|_| 1);
    let registrations = opens.registrations;
    for batch in &batches {
        let left = batch.whole();
        opens.closes.sent(batch, &left, registrations, |_| true);
    }
    assert!(opens.closes.is_due() && !opens.closes.is_full());
    for ino in 0..MAX_RELEASES_PER_MESSAGE as u64 {
        assert!(!opens.closes.is_full());
        opens.open(ino, 1);
        opens.release(ino);
    }
    assert!(opens.closes.is_full());
}

#[test]
fn closes_that_were_put_back_and_then_registered_make_no_message_full() {
    let mut opens = Opens::of(&[(5, 1), (6, 1), (6, 1)]);
    opens.release(5);
    opens.release(6);
    let batch = opens.closes.take(|_| 1).remove(0);
    let left = batch.whole();
    let registrations = opens.registrations;
    opens.closes.sent(&batch, &left, registrations, |_| true);
    opens.register(&[ShardId(1)]);
    opens.release(6);
    assert!(!opens.closes.is_full());
    assert_eq!(opens.closes.take(|_| 1)[0].inos, [Ino(6)]);
}

#[test]
fn a_batch_is_divided() {
    let batch = Batch {
        shard: ShardId(3),
        inos: [5, 6, 5, 7].map(Ino).to_vec(),
        registration: 2,
    };
    let (these, others) = batch.divided(|ino| ino == Ino(5));
    assert_eq!((these.inos, these.registration), (vec![Ino(5); 2], 2));
    assert_eq!(
        (others.inos, others.shard),
        (vec![Ino(6), Ino(7)], ShardId(3))
    );
}

#[test]
fn opens_that_no_server_has_heard_of_are_closed_without_one() {
    let mut opens = Opens::of(&[(5, 1)]);
    let (ino, shard) = (Ino(5), ShardId(1));
    opens.files.opened(ino, shard, false, || ());
    opens.files.opened(ino, shard, false, || ());
    assert_eq!(opens.files.untold(shard).collect::<Vec<_>>(), [(ino, 2)]);
    assert!(opens.closes.release(&mut opens.files, ino));
    assert!(!opens.closes.is_due());
    assert_eq!(opens.files.untold_of(ino), 1);
    opens.files.told(ino, 1);
    assert_eq!(opens.files.untold(shard).count(), 0);
    assert!(opens.closes.release(&mut opens.files, ino));
    assert!(opens.closes.is_due());
    opens.files.opened(ino, shard, false, || ());
    opens.files.registered(&[ShardId(2)]);
    assert_eq!(opens.files.untold_of(ino), 1);
    opens.files.registered(&[shard]);
    assert_eq!(opens.files.untold_of(ino), 0);
}

#[test]
fn what_is_open_is_told_with_its_value() {
    let mut files = OpenFiles::default();
    assert!(files.is_empty());
    let (first, other) = (Ino(5), Ino(6));
    let value = files.opened(first, ShardId(1), true, || "first");
    assert_eq!(*value, "first");
    let again = files.opened(first, ShardId(2), true, || unreachable!());
    assert!(Arc::ptr_eq(&value, &again));
    files.opened(other, ShardId(1), true, || "other");
    assert_eq!((files.len(), files.is_empty()), (2, false));
    assert_eq!(files.file(first).as_deref(), Some(&"first"));
    assert_eq!(files.file(Ino(7)), None);
    let mut values: Vec<_> = files.files().map(|file| **file).collect();
    values.sort_unstable();
    assert_eq!(values, ["first", "other"]);
    let mut counts: Vec<_> = files.counts().collect();
    counts.sort_unstable();
    assert_eq!(counts, [(first, 2), (other, 1)]);
    assert_eq!(
        files.count(first),
        Some((2, ShardId(2))),
        "where it was last"
    );
}

/// Those of another shard are told to that one, and files that servers have counted are not told.
#[test]
fn opens_are_told_to_the_shard_of_each_file() {
    let mut files = OpenFiles::default();
    for (ino, shard, is_told) in [(5, 1, false), (6, 2, false), (7, 1, true)] {
        files.opened(Ino(ino), ShardId(shard), is_told, || ());
    }
    let untold = |files: &OpenFiles<()>, shard| files.untold(ShardId(shard)).collect::<Vec<_>>();
    assert_eq!(untold(&files, 1), [(Ino(5), 1)]);
    assert_eq!(untold(&files, 2), [(Ino(6), 1)]);
    assert_eq!(
        [5, 6, 7, 8].map(|ino| files.untold_of(Ino(ino))),
        [1, 1, 0, 0]
    );
    files.moved(Ino(6), ShardId(1));
    assert_eq!(untold(&files, 2), []);
    assert_eq!(untold(&files, 1).len(), 2);
    files.told(Ino(5), 7);
    assert_eq!(untold(&files, 1), [(Ino(6), 1)]);
}

#[test]
fn closes_under_way_are_neither_due_nor_forgotten() {
    let mut opens = Opens::of(&[(5, 1), (5, 1), (6, 1)]);
    assert!(opens.closes.is_empty() && !opens.closes.is_due());
    opens.release(5);
    assert!(!opens.closes.is_empty() && opens.closes.is_due());
    let batch = opens.closes.take(|_| 1).remove(0);
    assert!(!opens.closes.is_empty() && !opens.closes.is_due());
    // One more is queued meanwhile: each counts.
    opens.release(5);
    opens.open(5, 1);
    assert_eq!(opens.to_register(5), Some((3, ShardId(1))));
    assert_eq!(opens.to_register(6), Some((1, ShardId(1))), "of others");
    let next = opens.closes.take(|_| 1).remove(0);
    assert_eq!(opens.to_register(5), Some((3, ShardId(1))));
    opens.closes.given_up(&batch);
    assert_eq!(opens.to_register(5), Some((2, ShardId(1))));
    assert!(!opens.closes.is_empty());
    opens.closes.given_up(&next);
    assert!(opens.closes.is_empty());
}

#[test]
fn who_has_nothing_open_registers_nothing() {
    let mut opens = Opens::of(&[(5, 1)]);
    opens.release(5);
    assert_eq!(opens.register(&[ShardId(1), ShardId(2)]), []);
    opens.open(5, 1);
    let told = [1, 2].map(|shard| (ShardId(shard), vec![(Ino(5), 1)]));
    assert_eq!(opens.register(&[ShardId(1), ShardId(2)]), told);
}

/// Closes on their way to shards that are registered with have been counted off there, or are not to be.
#[test]
fn closes_on_their_way_to_other_shards_are_registered_as_often_as_they_come() {
    let mut opens = Opens::of(&[(5, 1), (5, 1), (5, 1), (6, 2)]);
    for ino in [5, 5, 6] {
        opens.release(ino);
    }
    opens.closes.take(|_| 1);
    let told = opens.register(&[ShardId(2)]);
    assert_eq!(told, [(ShardId(2), vec![(Ino(5), 3)])]);
    let told = opens.register(&[ShardId(1)]);
    let counts = vec![(Ino(5), 1), (Ino(6), 1)];
    assert_eq!(told, [(ShardId(1), counts)]);
}

/// It was registered anew, but for the shard that another server leads.
#[test]
fn closes_that_are_left_are_queued_unless_a_registration_has_counted_them() {
    let queued = |registrations, of_server: bool| {
        let mut opens = Opens::of(&[(5, 1)]);
        opens.release(5);
        let batch = opens.closes.take(|_| 1).remove(0);
        let left = batch.whole();
        opens
            .closes
            .sent(&batch, &left, registrations, |_| of_server);
        opens.closes.take(|_| 1).len()
    };
    assert_eq!([queued(1, true), queued(1, false)], [1, 1]);
    assert_eq!([queued(2, true), queued(2, false)], [0, 1]);
}

#[test]
fn a_registration_empties_the_messages_of_its_shards_alone() {
    let fills = |registered| {
        let mut opens = Opens::of(&[]);
        let release = |opens: &mut Opens, ino| {
            opens.open(ino, 1);
            opens.release(ino);
        };
        for ino in 1..MAX_RELEASES_PER_MESSAGE as u64 {
            release(&mut opens, ino);
        }
        opens.register(&[ShardId(registered)]);
        release(&mut opens, MAX_RELEASES_PER_MESSAGE as u64);
        opens.closes.is_full()
    };
    assert!(fills(2) && !fills(1));
}
