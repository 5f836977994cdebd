//! Servers: newer maps, strangers, data requests.

use crate::driver::{Driver, NEVER, answered, create, has_sync, server};
use pandofs_api::{DataReply, DataRequest, PeerMessage, Reply, Request, op};
use pandofs_lane::{Command, Heard, MapOutcome};
use pandofs_placement::ClusterMap;
use pandofs_types::limits::RESEND_INTERVAL;
use pandofs_types::{Epoch, Ino, ServerId, ShardId, Steady};
use std::sync::Arc;

#[test]
fn a_map_is_taken_up_when_the_store_has_all_that_was_done_by_the_last_one() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    driver.commands();
    let mut keep = |_: &ClusterMap| Ok(());
    assert!(driver.lane.take_up_map(&mut keep).unwrap().is_none());

    let before = driver.lane.map().clone();
    let next = before.with_servers(vec![server(1, 0)]).unwrap();
    let mut foreign = next.clone();
    foreign.name = "other".to_owned();
    driver.lane.offer_map(Box::new(foreign), Some(1));
    let taken = driver.lane.take_up_map(&mut keep).unwrap().unwrap();
    assert_eq!(taken.waiting, [1]);
    assert!(matches!(taken.outcome, MapOutcome::Unfit(_)), "{taken:?}");

    driver.lane.offer_map(Box::new(next.clone()), None);
    let mut keep_not = |_: &ClusterMap| Err("no space".to_owned());
    let taken = driver.lane.take_up_map(&mut keep_not).unwrap().unwrap();
    assert_eq!(taken.outcome, MapOutcome::NotKept("no space".to_owned()));
    assert_eq!(driver.lane.map().epoch, Epoch(1));

    driver.ask(2, create("b"));
    driver.run().unwrap();
    let (store, log) = (Arc::clone(&driver.store), Arc::clone(&driver.log));
    let mut kept = Vec::new();
    let mut keep = |map: &ClusterMap| {
        assert_eq!((store.memory.unflushed(), log.unsynced()), (0, 0));
        kept.push(map.epoch);
        Ok(())
    };
    driver.lane.offer_map(Box::new(next), Some(2));
    let taken = driver.lane.take_up_map(&mut keep).unwrap().unwrap();
    assert_eq!((taken.waiting, taken.outcome), (vec![2], MapOutcome::New));
    assert_eq!(kept, [Epoch(2)]);
    assert_eq!(driver.lane.map().epoch, Epoch(2));

    driver.lane.offer_map(Box::new((*before).clone()), None);
    let taken = driver.lane.take_up_map(&mut |_| Ok(())).unwrap().unwrap();
    assert_eq!(taken.outcome, MapOutcome::Known);
}

#[test]
fn messages_of_strangers_are_dropped() {
    let mut driver = Driver::new(5_000);
    let ask = |from, to| PeerMessage::SlotsAsk {
        from,
        to,
        dir: Ino::ROOT,
    };
    let mut hear = |from, to| driver.lane.hear(ServerId(1), ask(from, to)).unwrap();
    let other_map = |from, may_be_newer| Heard::OtherMap {
        from,
        to: ShardId(0),
        may_be_newer,
    };
    // Of a shard of this very server, and of one that a later map may have.
    assert_eq!(hear(ShardId(1), ShardId(0)), other_map(ShardId(1), false));
    assert_eq!(hear(ShardId(2), ShardId(0)), other_map(ShardId(2), true));
    assert!(!driver.lane.has_inputs());
}

/// (Were it kept: the answer comes, and what was kept is carried out once more, over what a client has written meanwhile.)
#[test]
fn a_data_request_that_is_asked_again_does_not_wait_for_the_disk() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    let [
        Command::Answer {
            result: Ok(Reply::Entry(entry)),
            ..
        },
    ] = &driver.commands()[..]
    else {
        panic!("it is made");
    };
    let ino = entry.ino;
    let data = b"sap".to_vec();
    let offset = 0;
    driver.ask(
        2,
        Request::WriteInline(op::WriteInline { ino, offset, data }),
    );
    driver.ask(3, Request::Stripe(op::Stripe { ino }));
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [2]);
    assert!(has_sync(&driver.work(NEVER)));
    driver.lane.synced().unwrap();
    let Some(Command::Data { origin, .. }) = driver.commands().pop() else {
        panic!("its data object is filled");
    };
    // It is asked again when something else is not on disk.
    driver.ask(4, create("b"));
    driver.now = Steady(0).after(RESEND_INTERVAL * 2);
    driver.lane.run_timers(driver.now);
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [4]);
    driver.lane.data_done(origin, DataReply::Done);
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [3]);
    driver.ask(5, Request::Sync(op::Sync));
    driver.run().unwrap();
    assert!(has_sync(&driver.work(NEVER)));
    driver.lane.synced().unwrap();
    let commands = driver.commands();
    assert_eq!((answered(&commands), commands.len()), (vec![5], 1));
}

#[test]
fn another_server_is_told_what_became_of_its_data_request() {
    let mut driver = Driver::new(5_000);
    let request = DataRequest::Remove { ino: Ino(5) };
    let (other, ticket) = (ServerId(1), 3);
    let heard = driver
        .lane
        .hear(other, PeerMessage::Data { ticket, request });
    assert_eq!(heard.unwrap(), Heard::Taken);
    let Some(Command::Data { origin, .. }) = driver.commands().pop() else {
        panic!("nothing is to be done");
    };
    driver.lane.data_done(origin, DataReply::Done);
    let commands = driver.commands();
    let [Command::Send { server, message }] = &commands[..] else {
        panic!("{commands:?}");
    };
    let reply = DataReply::Done;
    assert_eq!(*server, other);
    assert_eq!(*message, PeerMessage::DataDone { ticket, reply });
}
