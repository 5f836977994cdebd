//! Copies of requests that come late: over a connection that its client has given up.

use crate::support::{Cluster, create_file, name};
use pandofs_api::{Refusal, Reply, Request};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::{FsError, Ino};

fn answer(outputs: &[Output]) -> Result<Reply, Refusal> {
    match outputs {
        [Output::Answer { result, .. }] => result.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_copy_of_a_refused_request_is_refused_whatever_has_become_true() {
    let mut cluster = Cluster::new(1, DirPolicy::Random, Settings::default());
    let (dir, name) = (Ino::ROOT, name("f"));
    let unlink = Request::Unlink {
        dir,
        name: name.clone(),
    };
    let input = cluster.request(0, unlink.clone());
    let refused = answer(&cluster.input(0, input.clone()).outputs);
    assert_eq!(refused, Err(Refusal::Fs(FsError::NotFound)));

    let create = create_file(dir, name);
    let create = cluster.request_by(6, 0, create);
    assert!(answer(&cluster.input(0, create).outputs).is_ok());

    let copy = cluster.input(0, input.clone());
    assert_eq!((answer(&copy.outputs), copy.records.len()), (refused, 0));

    // The slot goes on, and what is older than its last refusal is not looked at.
    let later = cluster.request(0, unlink);
    assert!(answer(&cluster.input(0, later.clone()).outputs).is_ok());
    let last = cluster.request(
        0,
        Request::Unlink {
            dir,
            name: crate::support::name("g"),
        },
    );
    assert!(answer(&cluster.input(0, last).outputs).is_err());
    for old in [input, later] {
        let old: Input = old;
        let told = answer(&cluster.input(0, old).outputs);
        assert_eq!(told, Err(Refusal::StaleSequence));
    }
}
