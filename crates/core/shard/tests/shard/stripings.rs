//! Files that are striped while nothing is in them: whatever tells where their data objects are waits for the disk.

use crate::grants::{self, HOLDER, OTHER, ask, batch, granted, numbers};
use crate::support::{Cluster, Step, create_file, name};
use pandofs_api::{Refusal, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_types::{Ino, Position};

fn stripe(ino: Ino) -> Request {
    Request::Stripe(op::Stripe { ino })
}

/// True if the one answer waits for the disk.
fn waits(step: &Step) -> bool {
    let mut answers = step.outputs.iter().filter_map(|output| match output {
        Output::Answer { durable, .. } => Some(*durable),
        _ => None,
    });
    let waits = answers.next().expect("it is answered");
    assert_eq!(answers.next(), None);
    waits
}

/// Input that the shard is to be given when it is on disk.
fn when_durable(step: &Step) -> Input {
    let mut inputs = step.outputs.iter().filter_map(|output| match output {
        Output::WhenDurable { input, .. } => Some(input.clone()),
        _ => None,
    });
    inputs.next().expect("something waits for the disk")
}

/// Whether the answers to all that tells of the file's data objects wait.
fn all_wait(cluster: &mut Cluster, ino: Ino) -> bool {
    let dir = Ino::ROOT;
    let tell = [
        Request::GetAttr(op::GetAttr { ino }),
        Request::Lookup(op::Lookup {
            dir,
            name: name("file"),
        }),
        Request::ReadDir(op::ReadDir {
            dir,
            from: Position::FIRST,
            max_entries: 100,
            max_bytes: 10_000,
            plus: true,
        }),
        Request::ReadInline(op::ReadInline { ino }),
        Request::WriteInline(op::WriteInline {
            ino,
            offset: 0,
            data: b"sap".to_vec(),
        }),
    ];
    let mut waiting = Vec::new();
    for request in tell {
        waiting.push(waits(&ask(cluster, HOLDER, request)));
    }
    assert!(
        waiting.iter().all(|waits| *waits == waiting[0]),
        "{waiting:?}"
    );
    waiting[0]
}

#[test]
fn nobody_is_told_of_data_objects_before_it_is_on_disk_that_there_are_some() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let (ino, other) = (cluster.file("file"), cluster.file("other"));
    let first = ask(&mut cluster, HOLDER, stripe(ino));
    assert!(waits(&first));
    assert!(all_wait(&mut cluster, ino));
    let getattr = Request::GetAttr(op::GetAttr { ino: other });
    assert!(
        !waits(&ask(&mut cluster, HOLDER, getattr)),
        "it is not striped"
    );
    let missing = Request::Lookup(op::Lookup {
        dir: Ino::ROOT,
        name: name("nothing"),
    });
    assert!(!waits(&ask(&mut cluster, HOLDER, missing)));

    // A second one comes before that is on disk, and its record is later.
    let second = ask(&mut cluster, HOLDER, stripe(ino));
    assert!(waits(&second));
    cluster.input(0, when_durable(&first));
    assert!(all_wait(&mut cluster, ino));
    cluster.input(0, when_durable(&second));
    assert!(!all_wait(&mut cluster, ino));
}

/// B is refused to write inline and its connection breaks; were it answered at once when it repeats that, it would write to data
/// objects that a loss of power makes nobody's.
#[test]
fn a_refusal_that_tells_waits_when_it_is_repeated_as_well() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let ino = cluster.file("file");
    let striped = ask(&mut cluster, HOLDER, stripe(ino));
    let write = Request::WriteInline(op::WriteInline {
        ino,
        offset: 0,
        data: b"sap".to_vec(),
    });
    let write = cluster.request_by(OTHER, 0, write);
    let first = cluster.input(0, write.clone());
    let refused = grants::answer(&first);
    assert!(
        matches!(refused, Some(Err(Refusal::NotInline { striped: true, .. }))),
        "{refused:?}"
    );
    assert!(waits(&first));
    let again = cluster.input(0, write.clone());
    assert_eq!(grants::answer(&again), refused);
    assert!(waits(&again));
    cluster.input(0, when_durable(&striped));
    assert!(!waits(&cluster.input(0, write)));
}

#[test]
fn a_batch_waits_that_stripes_and_so_does_a_grant_that_tells() {
    let (mut cluster, dir) = grants::cluster();
    let mut number = numbers(&mut cluster, HOLDER);
    granted(&mut cluster, HOLDER, dir).expect("a grant");
    let (other, ino) = (number(), number());
    let make = |text, ino| (create_file(dir, name(text)), Some(ino));
    let plain = batch(&mut cluster, vec![make("plain", other)]);
    assert!(!waits(&ask(&mut cluster, HOLDER, Request::Batch(plain))));
    let striped = batch(&mut cluster, vec![make("file", ino), (stripe(ino), None)]);
    let step = ask(&mut cluster, HOLDER, Request::Batch(striped));
    assert!(waits(&step));
    let grant = Request::Grant(op::Grant { dir });
    assert!(waits(&ask(&mut cluster, HOLDER, grant.clone())));
    cluster.input(0, when_durable(&step));
    assert!(!waits(&ask(&mut cluster, HOLDER, grant)));
}

/// Its bytes are in its first data object before anybody is answered; the object is asked when the record is on disk.
#[test]
fn a_file_with_something_in_it_is_locked_until_that_is_in_its_data_object() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    let ino = cluster.file("file");
    let write = Request::WriteInline(op::WriteInline {
        ino,
        offset: 0,
        data: b"sap".to_vec(),
    });
    assert!(!matches!(
        cluster.call(0, write),
        Err(Refusal::NotInline { .. })
    ));
    let step = ask(&mut cluster, HOLDER, stripe(ino));
    let [Output::Data { durable: true, .. }] = &step.outputs[..] else {
        panic!("{step:?}");
    };
    let getattr = Request::GetAttr(op::GetAttr { ino });
    assert_eq!(ask(&mut cluster, 6, getattr).outputs, []);
}
