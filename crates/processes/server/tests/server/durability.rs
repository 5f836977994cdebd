//! Answers before and after the disk has a change, and the state after a restart.

use crate::common;

use common::held_log::HeldLog;
use common::link::{OTHER, accept, listen, messages, send};
use common::{Connection, ID, Memory, eventually, map};
use pandofs_api::{
    AdminReply, AdminRequest, DataReply, DataRequest, FIRST_TRUNCATIONS, PeerMessage, Refusal,
    Reply, Request, op,
};
use pandofs_lane::{LaneError, RecoverError};
use pandofs_server::{Server, ServerError, StartError};
use pandofs_storage::log::{Log, LogError};
use pandofs_storage::store::Store;
use pandofs_types::limits::{DEFAULT_INLINE_BYTES, MAX_LOG_BYTES};
use pandofs_types::{FsError, SetAttr, ShardId};
use pandofs_wire::hello::Peer;
use pandofs_wire::message::AnswerBody;
use std::sync::Arc;

#[test]
fn a_sync_is_answered_when_a_sync_that_began_after_it_has_ended() {
    let memory = Memory::new();
    let log = HeldLog::new();
    let server = memory.start_on(memory.store.clone(), log.clone());
    let mut first = Connection::client(server.address(), 1);
    let mut second = Connection::client(server.address(), 2);
    first.create("a").unwrap();
    assert_eq!(log.begun(), 1, "only the start syncs the log");

    let sync = first.shard_request(ShardId(0), Request::Sync(op::Sync));
    first.send(sync);
    assert_eq!(first.answers_so_far(), []);
    eventually("a sync begins", || (log.begun() == 2).then_some(()));
    assert_eq!(first.answers_so_far(), []);
    // The lane goes on meanwhile, and the sync under way does not count for what comes now.
    second.create("b").unwrap();
    let sync = second.shard_request(ShardId(0), Request::Sync(op::Sync));
    second.send(sync);
    assert_eq!(second.answers_so_far(), []);
    log.allow(2);
    assert_eq!(first.answer().body, AnswerBody::Shard(Ok(Reply::Done)));
    // The round that answered the first is over, and so is what else the end of that sync let go.
    assert_eq!(second.answers_so_far(), []);
    eventually("a second sync begins", || (log.begun() == 3).then_some(()));
    assert_eq!(second.answers_so_far(), []);
    log.allow(u64::MAX);
    assert_eq!(second.answer().body, AnswerBody::Shard(Ok(Reply::Done)));
    assert_eq!(log.log.unsynced(), 0);
}

#[test]
fn one_sync_serves_many() {
    const CLIENTS: u64 = 20;
    let memory = Memory::new();
    let log = HeldLog::new();
    let server = memory.start_on(memory.store.clone(), log.clone());
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|session| Connection::client(server.address(), session))
        .collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.create(&format!("file-{number}")).unwrap();
        let sync = client.shard_request(ShardId(0), Request::Sync(op::Sync));
        client.send(sync);
    }
    // The first of them began a sync; all the others share the next.
    let mut admin = Connection::admin(server.address());
    eventually("all have arrived", || {
        (admin.status().requests == 2 * CLIENTS).then_some(())
    });
    log.allow(u64::MAX);
    for client in &mut clients {
        assert_eq!(client.answer().body, AnswerBody::Shard(Ok(Reply::Done)));
    }
    assert_eq!(log.begun(), 3);
    assert_eq!(admin.status().log_syncs, 2);
}

#[test]
fn with_flush_interval_0_every_change_is_synced_before_it_is_answered() {
    let memory = Memory::with_map(|dir| map(dir, 1, 0));
    let log = HeldLog::new();
    let server = memory.start_on(memory.store.clone(), log.clone());
    let mut client = Connection::client(server.address(), 1);
    let request = client.shard_request(ShardId(0), common::create("a"));
    client.send(request);
    assert_eq!(client.answers_so_far(), []);
    eventually("a sync begins", || (log.begun() == 2).then_some(()));
    assert_eq!(client.answers_so_far(), []);
    log.allow(u64::MAX);
    assert!(matches!(client.answer().body, AnswerBody::Shard(Ok(_))));
}

#[test]
fn what_nobody_waits_for_is_synced_after_the_interval() {
    let memory = Memory::with_map(|dir| map(dir, 1, 20));
    let server = memory.start();
    let mut client = Connection::client(server.address(), 1);
    client.create("a").unwrap();
    eventually("the log is synced", || {
        (memory.log.unsynced() == 0).then_some(())
    });
    let status = Connection::admin(server.address()).status();
    assert!(status.log_syncs >= 1);
}

#[test]
fn a_log_that_cannot_be_synced_stops_the_server() {
    let memory = Memory::new();
    let log = HeldLog::new();
    let server = memory.start_on(memory.store.clone(), log.clone());
    let mut client = Connection::client(server.address(), 1);
    client.create("a").unwrap();
    let sync = client.shard_request(ShardId(0), Request::Sync(op::Sync));
    client.send(sync);
    log.fail();
    assert_eq!(client.next_body(), None, "nothing may be acknowledged");
    let error = server.join().unwrap_err();
    assert!(
        matches!(
            error,
            ServerError::Lane(LaneError::Log(LogError::Failed { .. }))
        ),
        "{error}"
    );
}

#[test]
fn a_killed_server_finds_in_the_log_what_the_store_has_not_flushed() {
    let mut memory = Memory::new();
    let server = memory.start();
    let mut client = Connection::client(server.address(), 1);
    for number in 0..50 {
        client.create(&format!("file-{number}")).unwrap();
    }
    server.abandon();
    server.join().unwrap();
    memory.crash();

    let server = memory.start();
    assert!(server.replayed().records >= 50, "{:?}", server.replayed());
    let mut client = Connection::client(server.address(), 1);
    for number in 0..50 {
        client.lookup(&format!("file-{number}")).unwrap();
    }
    assert_eq!(
        client.lookup("another"),
        Err(Refusal::Fs(FsError::NotFound))
    );
}

#[test]
fn a_stopped_server_leaves_nothing_to_replay() {
    let mut memory = Memory::new();
    let server = memory.start();
    Connection::client(server.address(), 1).create("a").unwrap();
    server.stop();
    server.join().unwrap();
    memory.crash();
    assert_eq!(memory.log.span(0), None);

    let server = memory.start();
    assert_eq!(server.replayed().records, 0);
    let mut client = Connection::client(server.address(), 2);
    client.lookup("a").unwrap();
    client.create("b").unwrap();
}

#[test]
fn a_flush_prunes_what_the_store_holds() {
    let memory = Memory::new();
    let server = memory.start();
    let mut client = Connection::client(server.address(), 1);
    let mut admin = Connection::admin(server.address());
    for round in 0..5 {
        client.create(&format!("file-{round}")).unwrap();
        let before = memory.log.next_index(0).unwrap();
        assert!(admin.status().log_bytes > 0);
        assert_eq!(admin.administer(AdminRequest::Flush), AdminReply::Done);
        assert_eq!(memory.store.unflushed(), 0);
        // A timer of the shard may have written a record since; none older is left.
        let first = memory.log.span(0).map(|(first, _)| first);
        assert!(
            first.is_none_or(|first| first >= before),
            "{first:?} < {before}"
        );
    }
}

/// Writes more than a lane keeps of log, and sees that the lane lets go of it unasked.
#[test]
fn the_log_is_pruned_when_it_has_grown() {
    const AT_ONCE: u64 = 256;
    let memory = Memory::new();
    let server = memory.start();
    let mut client = Connection::client(server.address(), 1);
    let made = client.create("a").unwrap();
    let Reply::Entry(entry) = made else {
        panic!("{made:?}");
    };
    let writes = MAX_LOG_BYTES / u64::from(DEFAULT_INLINE_BYTES) + AT_ONCE;
    for _ in 0..writes / AT_ONCE {
        for _ in 0..AT_ONCE {
            let (ino, data) = (entry.ino, vec![7; DEFAULT_INLINE_BYTES as usize]);
            let write = Request::WriteInline(op::WriteInline {
                ino,
                offset: 0,
                data,
            });
            let request = client.shard_request(entry.shard, write);
            client.send(request);
        }
        for _ in 0..AT_ONCE {
            let answer = client.answer().body;
            assert!(matches!(answer, AnswerBody::Shard(Ok(_))), "{answer:?}");
        }
    }
    let mut admin = Connection::admin(server.address());
    eventually("the log is pruned", || {
        (admin.status().log_bytes < MAX_LOG_BYTES / 2).then_some(())
    });
    assert!(
        memory
            .log
            .span(0)
            .is_none_or(|(first, _)| first > writes / 2)
    );
    assert!(memory.log.bytes() < MAX_LOG_BYTES);
}

#[test]
fn a_store_and_a_log_that_do_not_fit_each_other_are_refused() {
    let memory = Memory::new();
    let server = memory.start();
    let mut client = Connection::client(server.address(), 1);
    for number in 0..5 {
        client.create(&format!("file-{number}")).unwrap();
    }
    server.abandon();
    server.join().unwrap();
    // An older store than the pruned log belongs to.
    let old = Arc::new(memory.store.crash(0));
    memory.log.prune(0, 3).unwrap();
    let data = memory.data();
    let start = |store: Arc<dyn Store>| {
        Server::start_on(memory.map.clone(), ID, store, memory.log.clone(), &data)
    };
    let error = start(old).unwrap_err();
    assert!(
        matches!(
            error,
            StartError::Recover(RecoverError::LogGap {
                shard: ShardId(0),
                missing_to: 3,
                ..
            })
        ),
        "{error}"
    );
    // And a store that has never been formatted.
    let error = start(Arc::new(pandofs_storage::store::MemoryStore::new())).unwrap_err();
    assert!(
        matches!(
            error,
            StartError::Recover(RecoverError::Shard {
                shard: ShardId(0),
                ..
            })
        ),
        "{error}"
    );
}

/// A cut that was sent is sent again as it was, and at once. Were it held until the log is synced, its
/// answer could come first, a client write behind the truncation, and what was held take that away.
#[test]
fn a_repeated_data_request_does_not_wait_for_the_disk_again() {
    let memory = Memory::with_map(|dir| {
        let mut map = map(dir, 2, 3_600_000);
        map.shards[0] = ID;
        map
    });
    let listener = listen(&memory);
    let log = HeldLog::new();
    let server = memory.start_on(memory.store.clone(), log.clone());
    let mut client = Connection::client(server.address(), 1);
    let mut second = Connection::client(server.address(), 2);
    let made = client.create("a").unwrap();
    let Reply::Entry(entry) = made else {
        panic!("{made:?}");
    };
    let ino = entry.ino;
    let stripe = client.shard_request(ShardId(0), Request::Stripe(op::Stripe { ino }));
    client.send(stripe);
    eventually("a sync begins", || (log.begun() == 2).then_some(()));
    log.allow(2);
    assert!(matches!(
        client.answer().body,
        AnswerBody::Shard(Ok(Reply::Inode(_)))
    ));
    let set = SetAttr {
        size: Some(0),
        ..SetAttr::default()
    };
    let cut = client.shard_request(ShardId(0), Request::SetAttr(op::SetAttr { ino, set }));
    client.send(cut);
    eventually("a sync begins", || (log.begun() == 3).then_some(()));
    log.allow(3);
    let mut link = accept(&listener);
    let sent = messages(&mut link);
    let [PeerMessage::Data { ticket, request }] = &sent[..] else {
        panic!("{sent:?}");
    };
    let cut = DataRequest::Truncate {
        ino,
        truncations: FIRST_TRUNCATIONS + 1,
        length: 0,
    };
    assert_eq!(*request, cut);

    // From here on there is something unsynced, and a sync would not end.
    second.create("b").unwrap();
    assert_eq!(messages(&mut link), sent, "it is sent again");
    let mut to_server = Connection::welcomed(server.address(), Peer::Server { id: OTHER });
    let done = |ticket| PeerMessage::DataDone {
        ticket,
        reply: DataReply::Done,
    };
    send(&mut to_server, vec![done(*ticket)]);
    assert!(matches!(
        client.answer().body,
        AnswerBody::Shard(Ok(Reply::Inode(_)))
    ));
    log.allow(u64::MAX);
    let sync = client.shard_request(ShardId(0), Request::Sync(op::Sync));
    assert_eq!(client.ask(sync), AnswerBody::Shard(Ok(Reply::Done)));

    // No other message on its way was a new request.
    let read = DataRequest::Usage { ino };
    let request = PeerMessage::Data {
        ticket: 77,
        request: read,
    };
    send(&mut to_server, vec![request]);
    let mut seen = Vec::new();
    while !seen
        .iter()
        .any(|message| matches!(message, PeerMessage::DataDone { ticket: 77, .. }))
    {
        seen.extend(messages(&mut link));
    }
    seen.pop();
    assert!(seen.iter().all(|message| *message == sent[0]), "{seen:?}");
}
