//! Requests of clients: cold and damaged keys, refusals, delays.

use crate::driver::{Driver, NEVER, answered, create, has_sync, lookup};
use pandofs_api::{Cause, Refusal, Reply, Request, ShardRequest, op};
use pandofs_lane::{Command, LaneError};
use pandofs_shard::Ticket;
use pandofs_storage::store::StoreError;
use pandofs_types::limits::{MAX_SLOTS, TICK_INTERVAL};
use pandofs_types::{Epoch, Ino, SessionId, ShardId, SlotId, Steady};
use std::sync::atomic::Ordering;
use std::time::Duration;

#[test]
fn a_cold_key_is_read_elsewhere_and_its_request_goes_on() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    driver.lane.write_out().unwrap();
    driver.commands();
    driver.store.is_cold.store(true, Ordering::Relaxed);
    driver.ask(2, lookup("a"));
    let mut read = 0;
    loop {
        driver.run().unwrap();
        let mut commands = driver.commands();
        let Some(Command::Warm { shard, keys, input }) = commands.pop() else {
            panic!("it is not answered, and waits for nothing");
        };
        assert!(commands.is_empty(), "{commands:?}");
        // The rest of the lane goes on meanwhile.
        assert!(!driver.lane.has_inputs());
        read += 1;
        driver.store.is_cold.store(read < 2, Ordering::Relaxed);
        driver.lane.warmed(shard, keys, input);
        if read == 2 {
            break;
        }
    }
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [2]);
}

#[test]
fn a_damaged_key_refuses_a_request_and_stops_everything_else() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.run().unwrap();
    driver.lane.write_out().unwrap();
    driver.commands();
    driver.store.is_cold.store(true, Ordering::Relaxed);
    driver.ask(2, lookup("a"));
    driver.run().unwrap();
    let Some(Command::Warm { shard, input, .. }) = driver.commands().pop() else {
        panic!("nothing is cold");
    };
    let damage = || StoreError::Corrupt {
        what: "block 7".to_owned(),
    };
    driver.lane.unreadable(shard, &input, damage()).unwrap();
    let commands = driver.commands();
    assert!(
        matches!(
            commands[..],
            [Command::Unreadable {
                ticket: Ticket(2),
                ..
            }]
        ),
        "{commands:?}"
    );
    let other = pandofs_shard::Input::Tick;
    let stops = driver.lane.unreadable(shard, &other, damage());
    assert!(matches!(stops, Err(LaneError::Store(_))), "{stops:?}");
}

#[test]
fn requests_by_another_map_are_refused() {
    let mut driver = Driver::new(5_000);
    let request = driver.request(Request::Sync(op::Sync));
    let mut admit = |change: &dyn Fn(&mut ShardRequest)| {
        let mut request = request.clone();
        change(&mut request);
        driver.lane.admit(&request)
    };
    assert_eq!(admit(&|_| ()), Ok(()));
    let wrong = Err(Refusal::WrongServer { epoch: Epoch(1) });
    assert_eq!(admit(&|request| request.shard = ShardId(2)), wrong);
    let later = Err(Refusal::TryAgain);
    assert_eq!(admit(&|request| request.epoch = Epoch(2)), later);
    let slot = admit(&|request| request.key.slot = SlotId(MAX_SLOTS));
    assert!(matches!(slot, Err(Refusal::Malformed(_))), "{slot:?}");
    assert_eq!(driver.lane.counters().requests, 4);
}

#[test]
fn a_client_takes_leases_from_all_shards_before_it_hears_of_recalls() {
    let mut driver = Driver::new(5_000);
    let session = SessionId(9);
    let mut wait = |to, done| {
        let now = Steady(1);
        driver.lane.await_recalls(session, now, to, done, now);
        (driver.commands(), driver.lane.inputs())
    };
    let (commands, inputs) = wait(1, Some(4));
    assert!(matches!(commands[..], [Command::BeginAnew { to: 1 }]));
    assert_eq!(inputs, 0);
    let (commands, inputs) = wait(2, None);
    let begins = |command: &Command<u8>| {
        matches!(
            command,
            Command::Recall {
                to: 2,
                number: 0,
                ..
            }
        )
    };
    assert!(commands.len() == 1 && begins(&commands[0]), "{commands:?}");
    assert_eq!(inputs, 2);
    let (commands, _) = wait(3, Some(0));
    assert!(
        commands.is_empty(),
        "there is nothing to tell: {commands:?}"
    );
    driver.lane.goodbye(session);
    assert!(driver.commands().is_empty(), "it is not known");
    driver.lane.heard(session, Steady(0));
    driver.lane.goodbye(session);
    let commands = driver.commands();
    assert!(
        matches!(commands[..], [Command::Recall { to: 3, .. }]),
        "{commands:?}"
    );
    assert_eq!(driver.lane.inputs(), 4);
}

#[test]
fn a_batch_takes_as_many_as_it_is_told() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.ask(2, create("b"));
    driver.ask(3, create("c"));
    driver
        .batch(|lane, environment| lane.run_batch(environment, 2))
        .unwrap();
    assert_eq!(answered(&driver.commands()), [1, 2]);
    driver.run().unwrap();
    assert_eq!(answered(&driver.commands()), [3]);
}

#[test]
fn a_lookup_is_answered_with_what_no_store_has() {
    let mut driver = Driver::new(5_000);
    driver.ask(1, create("a"));
    driver.ask(2, lookup("a"));
    driver.run().unwrap();
    driver.ask(3, lookup("a"));
    driver.run().unwrap();
    let commands = driver.commands();
    let entries = commands.iter().filter(|command| {
        matches!(
            command,
            Command::Answer {
                result: Ok(Reply::Entry { .. }),
                ..
            }
        )
    });
    assert!(entries.count() >= 2, "{commands:?}");
    assert_eq!(driver.store.memory.unflushed(), 0);
}

#[test]
fn an_answer_says_what_it_has_waited_for_and_hot_directories_are_known() {
    let mut driver = Driver::new(0);
    driver.now = Steady(0).after(Duration::from_secs(1));
    driver.ask(1, create("a"));
    driver.run().unwrap();
    assert!(has_sync(&driver.work(NEVER)));
    let delays = driver.lane.delays(Ticket(1)).unwrap();
    assert_eq!(delays.waits_for(), Some(Cause::Log));
    driver.lane.synced().unwrap();
    let commands = driver.commands();
    let [
        Command::Answer {
            ticket: Ticket(1),
            delays: Some(delays),
            ..
        },
    ] = &commands[..]
    else {
        panic!("{commands:?}");
    };
    let later = driver.now.after(Duration::from_millis(5));
    let waited = [(Cause::Log, Duration::from_millis(5))];
    assert_eq!(delays.parts(later), waited);
    assert_eq!(driver.lane.delays(Ticket(1)), None, "it is answered");
    // A read waits for nothing.
    for ticket in 2..10 {
        driver.ask(ticket, lookup("a"));
    }
    driver.run().unwrap();
    let waited = |command: &Command<u8>| {
        matches!(
            command,
            Command::Answer {
                delays: Some(_),
                ..
            }
        )
    };
    let commands = driver.commands();
    assert!(commands.len() == 8 && !commands.iter().any(waited));
    let hot = driver.lane.hottest(driver.now);
    assert_eq!((hot.len(), hot[0].dir), (1, Ino::ROOT));
}

#[test]
fn time_brings_ticks() {
    let mut driver = Driver::new(5_000);
    driver.lane.run_timers(Steady(0));
    assert_eq!(driver.lane.inputs(), 2, "one for each shard");
    driver.run().unwrap();
    let next = Steady(0).after(TICK_INTERVAL);
    assert_eq!(driver.lane.next_due(), next);
    driver.lane.run_timers(next.before(Duration::from_nanos(1)));
    assert!(!driver.lane.has_inputs());
    driver.lane.run_timers(next);
    assert_eq!(driver.lane.inputs(), 2);
}
