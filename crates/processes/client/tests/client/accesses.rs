//! Reads are reported later, many at once.

use crate::common::*;
use pandofs_api::{Reply, Request, op};
use pandofs_types::limits::MAX_ACCESSES_PER_MESSAGE;
use pandofs_types::{AtimeRule, Credentials, Ino, SetAttr, SetTime, Time};
use pandofs_wire::message::RequestBody;
use std::collections::BTreeMap;

fn script(request: &RequestBody) -> Reaction {
    let RequestBody::Shard(asked) = request else {
        return unexpected(request);
    };
    match &asked.request {
        Request::GetAttr(op::GetAttr { ino }) | Request::SetAttr(op::SetAttr { ino, .. }) => {
            ok(Reply::Inode(file(*ino)))
        }
        Request::Accessed(_) => ok(Reply::Done),
        _ => unexpected(request),
    }
}

fn told(server: &Fake) -> Vec<Vec<(Ino, Time)>> {
    let inos = |asked: pandofs_api::ShardRequest| match asked.request {
        Request::Accessed(op::Accessed { inos, .. }) => Some(inos),
        _ => None,
    };
    server.asked().into_iter().filter_map(inos).collect()
}

#[test]
fn much_that_was_read_is_told_in_few_requests() {
    const FILES: u64 = 1_000;
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, script);
    let client = client(&map);
    for at in [5, 6] {
        for ino in 2..2 + FILES {
            client.accessed(Ino(ino), Time(at), AtimeRule::Relative);
        }
    }
    let attr = client.getattr(&Credentials::ROOT, Ino(2)).unwrap();
    assert_eq!(attr.atime, Time(6), "its own reading counts at once");
    let last = |told: &[Vec<(Ino, Time)>]| {
        let times: BTreeMap<Ino, Time> = told.iter().flatten().copied().collect();
        times.len() as u64 == FILES && times.values().all(|at| *at == Time(6))
    };
    eventually("all is told", || last(&told(&server)));
    let told = told(&server);
    // A tick may have come between the two rounds of reading.
    let fewest = (FILES as usize).div_ceil(MAX_ACCESSES_PER_MESSAGE);
    assert!(
        (fewest..=2 * fewest + 1).contains(&told.len()),
        "{}",
        told.len()
    );
    let most = told.iter().map(Vec::len).max().unwrap();
    assert!(most <= MAX_ACCESSES_PER_MESSAGE, "{most}");
}

#[test]
fn a_reading_is_told_before_attributes_are_set() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, script);
    let client = client(&map);
    client.accessed(Ino(2), Time(5), AtimeRule::Strict);
    let set = SetAttr {
        atime: Some(SetTime::At(Time(3))),
        ..SetAttr::default()
    };
    client.setattr(&Credentials::ROOT, Ino(2), set).unwrap();
    let asked = server.asked();
    let place = |wanted: fn(&Request) -> bool| asked.iter().position(|a| wanted(&a.request));
    let read = place(|request| matches!(request, Request::Accessed(_)));
    let set = place(|request| matches!(request, Request::SetAttr(_)));
    assert!(read.is_some() && read < set, "{asked:?}");
    assert_eq!(told(&server), [[(Ino(2), Time(5))]]);
}

#[test]
fn what_was_read_last_is_told_when_the_client_ends() {
    let folder = tempfile::tempdir().unwrap();
    let map = map(folder.path(), 1, 1);
    let server = Fake::start(&map, 0, script);
    let client = client(&map);
    client.accessed(Ino(2), Time(5), AtimeRule::Relative);
    drop(client);
    assert_eq!(told(&server), [[(Ino(2), Time(5))]]);
}
