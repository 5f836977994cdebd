//! Notes of what requests wait for: each wait is named, and its end.

use crate::grants::{ask, chmod, lookup, made, mkdir, recalls, takes};
use crate::support::{Cluster, Step, create_file, name, sent};
use pandofs_api::{Cause, Reply};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Note, Output, Ticket};
use pandofs_types::{Ino, SessionId, ShardId};

const READER: u64 = 7;
const WRITER: u64 = 8;

fn answered(cluster: &mut Cluster, step: Step) -> Reply {
    let mut answer = None;
    cluster.carry(step.outputs, &mut answer);
    answer.expect("it is answered").expect("it is done")
}

#[test]
fn a_change_waits_for_the_client_that_has_leases() {
    let mut cluster = Cluster::new(1, DirPolicy::default(), Settings::default());
    takes(&mut cluster, READER);
    let step = ask(&mut cluster, WRITER, create_file(Ino::ROOT, name("a")));
    let ino = made(answered(&mut cluster, step));
    for _ in 0..2 {
        // The first makes the reader known as one that has leases.
        let step = ask(&mut cluster, READER, lookup(Ino::ROOT, "a"));
        assert_eq!(step.notes, [], "a read waits for nobody");
        answered(&mut cluster, step);
    }
    let step = ask(&mut cluster, WRITER, chmod(ino, 0o600));
    let session = SessionId(READER);
    let recall = recalls(&step).remove(0);
    assert_eq!(recall.session, session);
    let [Note::Waits(ticket, cause)] = step.notes[..] else {
        panic!("{:?}", step.notes);
    };
    assert_eq!(cause, Cause::Recall { session, others: 0 });
    let number = recall.number;
    let step = cluster.input(0, Input::Recalled { session, number });
    assert_eq!(step.notes, [Note::GoesOn(ticket)]);
    let answers =
        |output: &Output| matches!(output, Output::Answer { ticket: of, .. } if *of == ticket);
    assert!(step.outputs.iter().any(answers));
}

#[test]
fn an_operation_over_several_shards_waits_for_their_servers_and_what_it_locks_for_it() {
    let mut cluster = Cluster::new(2, DirPolicy::Random, Settings::default());
    let first = ask(&mut cluster, WRITER, mkdir(Ino::ROOT, "a"));
    let other = Cause::Server {
        server: cluster.map.server_of(ShardId(1)),
        shard: ShardId(1),
    };
    let [
        Note::Coordinates(coordinated, by),
        Note::Waits(ticket, cause),
    ] = first.notes[..]
    else {
        panic!("{:?}", first.notes);
    };
    assert_eq!((coordinated, cause), (ticket, other));
    // Another one of the same name.
    let second = ask(&mut cluster, READER, mkdir(Ino::ROOT, "a"));
    let [Note::Waits(waiting, Cause::Operation(tx))] = second.notes[..] else {
        panic!("{:?}", second.notes);
    };
    assert_eq!((tx, tx.coordinator), (by, ShardId(0)));
    assert_ne!(waiting, ticket);
    // It comes again, over another connection.
    let mut again = cluster.request_by(READER, 0, mkdir(Ino::ROOT, "a"));
    if let Input::Request { request, .. } = &mut again {
        request.key.sequence -= 1;
    }
    let again = cluster.input(0, again);
    let newest = Ticket(waiting.0 + 1);
    assert_eq!(again.notes, [Note::Again(waiting, newest)]);
    let message = sent(&first.outputs).remove(0);
    let done = cluster.input(1, Input::Peer(message));
    let message = sent(&done.outputs).remove(0);
    let ended = cluster.input(0, Input::Peer(message));
    assert_eq!(ended.notes, [Note::GoesOn(newest)]);
}
