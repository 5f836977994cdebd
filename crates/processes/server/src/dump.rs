//! Contents of a shard's store, for `fsck`.

use pandofs_api::AdminReply;
use pandofs_storage::store::Store;
use pandofs_types::ShardId;
use pandofs_types::limits::MAX_DUMP_BYTES;
use serde_bytes::ByteBuf;
use std::ops::ControlFlow;

/// The kinds of stored keys that `fsck` looks at, in their order; see `docs/data-layout.md`. A key is
/// `kind u8 | shard u16 BE | ...`.
const KINDS: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 22];
/// Bytes of a key before what depends on its kind.
const PREFIX_BYTES: usize = 3;

/// The stored pairs of `shard` whose keys come after `after` (empty: all), in the order of the keys,
/// until they take `max_bytes` or [`MAX_DUMP_BYTES`]; the last one may go beyond.
pub(crate) fn dump(store: &dyn Store, shard: ShardId, after: &[u8], max_bytes: u32) -> AdminReply {
    let [high, low] = shard.0.to_be_bytes();
    let first_kind = match after {
        [] => 0,
        [kind, a, b, ..] if KINDS.contains(kind) && [*a, *b] == [high, low] => *kind,
        _ => {
            return AdminReply::Failed(format!(
                "the key to go on after is not one of shard {shard}"
            ));
        }
    };
    let limit = (max_bytes as usize).min(MAX_DUMP_BYTES);
    let (mut pairs, mut bytes) = (Vec::new(), 0);
    for kind in KINDS.into_iter().filter(|&kind| kind >= first_kind) {
        let prefix = [kind, high, low];
        let start = if after.starts_with(&prefix) {
            after
        } else {
            &prefix
        };
        let scanned = store.scan(start, &end_of(prefix), &mut |key, value| {
            if key == after {
                return ControlFlow::Continue(());
            }
            if bytes >= limit {
                // Of one pair too many, which shows that there are more.
                bytes = usize::MAX;
                return ControlFlow::Break(());
            }
            bytes += key.len() + value.len();
            pairs.push((ByteBuf::from(key), ByteBuf::from(value)));
            ControlFlow::Continue(())
        });
        if let Err(error) = scanned {
            return AdminReply::Failed(format!("cannot read the store: {error}"));
        }
        if bytes == usize::MAX {
            return AdminReply::Pairs { pairs, more: true };
        }
    }
    AdminReply::Pairs { pairs, more: false }
}

/// The first key after all that begin with `prefix`.
fn end_of([kind, high, low]: [u8; PREFIX_BYTES]) -> [u8; PREFIX_BYTES] {
    let [high, low] = match u16::from_be_bytes([high, low]).checked_add(1) {
        Some(next) => next.to_be_bytes(),
        None => return [kind + 1, 0, 0],
    };
    [kind, high, low]
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_storage::store::{Batch, MemoryStore};

    fn store() -> MemoryStore {
        let store = MemoryStore::new();
        let mut batch = Batch::new();
        for kind in [1, 2, 15, 16, 22, 23] {
            for shard in [4_u16, 5, 6, u16::MAX] {
                for rest in 0..4 {
                    let [high, low] = shard.to_be_bytes();
                    batch.put(vec![kind, high, low, rest], vec![rest; 10]);
                }
            }
        }
        store.write(&batch).unwrap();
        store
    }

    #[test]
    fn pages_give_all_pairs_of_one_shard_and_no_others() {
        let store = store();
        for (shard, bytes) in [
            (5, 1),
            (5, 15),
            (5, 42),
            (5, 100_000),
            (u16::MAX, 30),
            (9, 50),
        ] {
            let (mut seen, mut after) = (Vec::new(), Vec::new());
            loop {
                match dump(&store, ShardId(shard), &after, bytes) {
                    AdminReply::Pairs { pairs, more } => {
                        seen.extend(pairs.into_iter().map(|(key, _)| key.into_vec()));
                        if !more {
                            break;
                        }
                        after = seen.last().unwrap().clone();
                    }
                    other => panic!("{other:?}"),
                }
            }
            let [high, low] = shard.to_be_bytes();
            let mut expected = Vec::new();
            for kind in [1, 2, 15, 22] {
                expected.extend((0..4).map(|rest| vec![kind, high, low, rest]));
            }
            if shard == 9 {
                expected.clear();
            }
            assert_eq!(seen, expected, "shard {shard}, {bytes} bytes");
        }
    }

    #[test]
    fn it_goes_on_after_a_key_that_has_gone() {
        let AdminReply::Pairs { pairs, more } = dump(&store(), ShardId(5), &[1, 0, 5, 2, 0], 15)
        else {
            panic!("no pairs");
        };
        assert!(more);
        assert_eq!(pairs[0].0, [1, 0, 5, 3]);
        assert_eq!(pairs[1].0, [2, 0, 5, 0]);
    }

    #[test]
    fn another_shards_key_is_refused() {
        for after in [&[1, 0, 4, 0][..], &[0, 0, 5, 0], &[16, 0, 5], &[1, 0]] {
            let reply = dump(&store(), ShardId(5), after, 100);
            assert!(matches!(reply, AdminReply::Failed(_)), "{reply:?}");
        }
    }
}
