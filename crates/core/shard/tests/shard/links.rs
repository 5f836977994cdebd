//! Names of one file, as many as there may be, in a directory that all shards have a part of.

use crate::support::{Cluster, create_file, link, name};
use pandofs_api::{Refusal, Reply, Request, op};
use pandofs_placement::{DirMap, DirPolicy, Settings};
use pandofs_types::limits::MAX_LINKS;
use pandofs_types::{FsError, Ino, ShardId};

#[test]
fn a_file_has_as_many_names_as_it_may_have_and_no_more() {
    let settings = Settings {
        split_threshold: 5_000,
        max_partitions: Some(8),
        ..Settings::default()
    };
    let mut cluster = Cluster::new(4, DirPolicy::default(), settings);
    let mut map = DirMap::single(ShardId(0));
    let ino = cluster.file("1");
    let mut ask = |request: Request, text: &str| {
        let (answer, _) = cluster.call_by_name(&mut map, &name(text), &request);
        answer
    };
    for number in 2..=MAX_LINKS {
        let text = number.to_string();
        let answer = ask(link(Ino::ROOT, &text, ino), &text);
        let Ok(Reply::Entry(entry)) = answer else {
            panic!("name {number}: {answer:?}");
        };
        let links = entry.inode.map(|inode| inode.attr.nlink);
        assert_eq!(links, Some(number));
    }
    let too_many = Err(Refusal::Fs(FsError::TooManyLinks));
    for text in ["one more", "another"] {
        assert_eq!(ask(link(Ino::ROOT, text, ino), text), too_many);
        let lookup = Request::Lookup(op::Lookup {
            dir: Ino::ROOT,
            name: name(text),
        });
        assert_eq!(ask(lookup, text), Err(Refusal::Fs(FsError::NotFound)));
    }
    // A place is free as soon as a name is gone.
    let unlink = Request::Unlink(op::Unlink {
        dir: Ino::ROOT,
        name: name("7"),
    });
    assert!(matches!(ask(unlink, "7"), Ok(Reply::Removed { .. })));
    assert!(ask(link(Ino::ROOT, "one more", ino), "one more").is_ok());
    assert_eq!(ask(link(Ino::ROOT, "another", ino), "another"), too_many);

    let refused = create_file(Ino::ROOT, name("another"));
    assert!(
        ask(refused, "another").is_ok(),
        "it is no limit of the directory"
    );
    let statuses: Vec<_> = cluster
        .nodes
        .iter()
        .map(|node| node.shard.status())
        .collect();
    assert!(
        statuses
            .iter()
            .all(|shard| shard.entries > 5_000 && shard.undecided == 0)
    );
    let entries: u64 = statuses.iter().map(|shard| shard.entries).sum();
    assert_eq!(entries, u64::from(MAX_LINKS) + 1);
}
