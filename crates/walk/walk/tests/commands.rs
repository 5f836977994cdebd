//! Commands of a rank, one by one.

use pandofs_walk::limits::{
    ITEMS_BETWEEN_ASKERS, READY_ITEMS_FOR_OTHERS, READY_ITEMS_PER_WORKER, SHORTEST_PAUSE,
    SPILL_ABOVE_ITEMS,
};
use pandofs_walk::{
    Algorithm, Colour, Command, Config, Event, Failure, Message, Rank, RankId, Split, Token,
    Topology,
};

const DEQS: Algorithm = Algorithm::Distributed(Split::Equal);

fn config(algorithm: Algorithm) -> Config {
    Config {
        spill_above: 4,
        spill_chunk: 3,
        ..Config::new(algorithm, 1)
    }
}

fn rank(algorithm: Algorithm, ranks: u32, me: u32) -> Rank<u32> {
    Rank::new(&config(algorithm), &Topology::one_host(ranks), RankId(me))
}

fn step(rank: &mut Rank<u32>, event: Event<u32>) -> Vec<Command<u32>> {
    let mut out = Vec::new();
    rank.step(event, &mut out);
    out
}

fn start(roots: &[u32]) -> Event<u32> {
    Event::Start {
        roots: roots.to_vec(),
    }
}

fn done(children: &[u32]) -> Event<u32> {
    Event::Done {
        worker: 0,
        children: children.to_vec(),
    }
}

fn found(children: &[u32]) -> Event<u32> {
    Event::Found {
        worker: 0,
        children: children.to_vec(),
    }
}

fn message(from: u32, message: Message<u32>) -> Event<u32> {
    Event::Message {
        from: RankId(from),
        message,
    }
}

fn send(to: u32, message: Message<u32>) -> Command<u32> {
    Command::Send {
        to: RankId(to),
        message,
    }
}

fn items(items: &[u32]) -> Message<u32> {
    Message::Work {
        items: items.to_vec(),
    }
}

fn work(item: u32) -> Command<u32> {
    Command::Work { worker: 0, item }
}

fn token(colour: Colour, in_flight: i64) -> Message<u32> {
    Message::Token(Token { colour, in_flight })
}

#[test]
fn alone_it_works_depth_first_and_finishes() {
    for algorithm in Algorithm::ALL {
        let mut it = rank(algorithm, 1, 0);
        assert_eq!(step(&mut it, start(&[1])), [work(1)]);
        assert_eq!(step(&mut it, done(&[2, 3])), [work(3)]);
        assert_eq!(step(&mut it, done(&[4])), [work(4)]);
        assert_eq!(step(&mut it, done(&[])), [work(2)]);
        assert_eq!(step(&mut it, done(&[])), [Command::Finished], "{algorithm}");
        assert!(it.has_ended());
        assert_eq!(step(&mut it, Event::Woken), []);
    }
}

#[test]
fn a_thief_gets_the_oldest_while_the_victim_works() {
    let mut it = rank(DEQS, 3, 0);
    assert_eq!(step(&mut it, start(&[1])), [work(1)]);
    assert_eq!(
        step(&mut it, message(2, Message::Ask)),
        [send(2, Message::Deny)]
    );
    assert_eq!(it.wanted(), READY_ITEMS_FOR_OTHERS, "somebody asked");
    assert_eq!(step(&mut it, found(&[2, 3, 4])), []);
    assert_eq!(it.wanted(), READY_ITEMS_FOR_OTHERS - 3);
    assert_eq!(
        step(&mut it, message(2, Message::Ask)),
        [send(2, items(&[2, 3]))]
    );
    assert_eq!(
        step(&mut it, message(1, Message::Ask)),
        [send(1, items(&[4]))]
    );
    assert_eq!(
        step(&mut it, done(&[])),
        [send(2, Message::Ask), send(1, token(Colour::White, 0))]
    );
    // The others have done it, but the token was not with rank 2 before the work was.
    assert_eq!(
        step(&mut it, message(2, Message::Deny)),
        [send(2, Message::Ask)]
    );
    assert_eq!(
        step(&mut it, message(2, token(Colour::Black, -2))),
        [send(1, token(Colour::White, 0))]
    );
    assert_eq!(
        step(&mut it, message(2, token(Colour::White, -2))),
        [
            send(1, Message::Finish),
            send(2, Message::Finish),
            Command::Finished
        ]
    );
}

#[test]
fn who_is_not_asked_any_more_makes_no_items_for_others() {
    let config = Config::new(DEQS, 1);
    let mut it = Rank::new(&config, &Topology::one_host(2), RankId(0));
    assert_eq!(step(&mut it, start(&[0])), [work(0)]);
    assert_eq!(it.wanted(), 0);
    step(&mut it, message(1, Message::Ask));
    let many: Vec<u32> = (1..=ITEMS_BETWEEN_ASKERS as u32).collect();
    assert_eq!(step(&mut it, found(&many)), []);
    for left in (1..=ITEMS_BETWEEN_ASKERS).rev() {
        assert_eq!(it.wanted(), READY_ITEMS_FOR_OTHERS - left);
        assert_eq!(step(&mut it, done(&[])), [work(left as u32)]);
    }
    assert_eq!(it.wanted(), 0);
}

#[test]
fn refusals_lead_to_longer_and_longer_pauses() {
    let mut it = rank(DEQS, 2, 1);
    assert_eq!(step(&mut it, start(&[])), [send(0, Message::Ask)]);
    let mut pause = SHORTEST_PAUSE;
    for _ in 0..3 {
        assert_eq!(
            step(&mut it, message(0, Message::Deny)),
            [Command::Wake { after: pause }]
        );
        pause *= 2;
        assert_eq!(step(&mut it, Event::Woken), [send(0, Message::Ask)]);
    }
    assert_eq!(step(&mut it, message(0, items(&[7]))), [work(7)]);
    assert_eq!(step(&mut it, Event::Woken), [], "a late one does no harm");
    assert_eq!(step(&mut it, done(&[])), [send(0, Message::Ask)]);
    assert_eq!(
        step(&mut it, message(0, Message::Deny)),
        [Command::Wake {
            after: SHORTEST_PAUSE
        }]
    );
}

#[test]
fn a_busy_rank_keeps_the_token_and_blackens_it() {
    let mut it = rank(DEQS, 3, 1);
    assert_eq!(step(&mut it, start(&[])).len(), 1);
    assert_eq!(step(&mut it, message(0, items(&[7]))), [work(7)]);
    assert_eq!(step(&mut it, message(0, token(Colour::White, 5))), []);
    let commands = step(&mut it, done(&[]));
    assert_eq!(commands[1..], [send(2, token(Colour::Black, 4))]);
}

#[test]
fn workers_of_one_rank_share_its_queue() {
    let config = Config {
        workers: 3,
        ..config(Algorithm::Hybrid(Split::Random))
    };
    let mut it = Rank::new(&config, &Topology::one_host(1), RankId(0));
    let work = |worker, item| Command::Work { worker, item };
    assert_eq!(step(&mut it, start(&[1])), [work(0, 1)]);
    assert_eq!(it.wanted(), 3 * READY_ITEMS_PER_WORKER);
    assert_eq!(step(&mut it, found(&[2])), [work(1, 2)]);
    assert_eq!(step(&mut it, done(&[3, 4, 5])), [work(0, 5), work(2, 4)]);
    assert_eq!(it.queued(), 1);
    let done = |worker| Event::Done {
        worker,
        children: vec![],
    };
    assert_eq!(step(&mut it, done(2)), [work(2, 3)]);
    assert_eq!(step(&mut it, done(2)), []);
    assert_eq!(step(&mut it, done(0)), []);
    assert_eq!(step(&mut it, done(1)), [Command::Finished]);
}

#[test]
fn who_asks_gets_what_was_spilled_first() {
    let mut it = rank(DEQS, 3, 0);
    assert_eq!(step(&mut it, start(&[0])), [work(0)]);
    let spilled = step(&mut it, done(&(1..=12).collect::<Vec<_>>()));
    let pieces = spilled.iter();
    let pieces = pieces.filter(|it| matches!(it, Command::Spill { .. }));
    assert_eq!(pieces.count(), 3, "1 to 9: {spilled:?}");
    let give = |to| [Command::GiveSpilled { to: RankId(to) }];
    assert_eq!(step(&mut it, message(1, Message::Ask)), give(1));
    assert_eq!(it.queued(), 8);
    assert_eq!(step(&mut it, message(2, Message::Ask)), give(2));
    assert_eq!(step(&mut it, done(&[])), [work(11)]);
    assert_eq!(step(&mut it, done(&[])), [work(10), Command::Refill]);
    assert_eq!(
        step(&mut it, message(1, Message::Ask)),
        [send(1, Message::Deny)],
        "nothing else is spilled"
    );
}

#[test]
fn a_walk_that_goes_on_begins_with_what_is_spilled() {
    for algorithm in [DEQS, Algorithm::Cp { keep_one: false }] {
        let mut it = rank(algorithm, 2, 0);
        for items in [5, 2] {
            assert_eq!(step(&mut it, Event::Spilled { items }), []);
        }
        assert_eq!(it.queued(), 7);
        assert_eq!(step(&mut it, start(&[])), [Command::Refill], "{algorithm}");
        step(&mut it, Event::Refilled { items: vec![6, 7] });
        // A master does not work itself.
        assert_eq!(it.queued(), if algorithm == DEQS { 6 } else { 7 });
    }
}

#[test]
fn what_does_not_fit_in_memory_is_spilled_and_brought_back() {
    let mut it = rank(DEQS, 2, 0);
    assert_eq!(step(&mut it, start(&[0])), [work(0)]);
    let spill = |items: &[u32]| Command::Spill {
        items: items.to_vec(),
    };
    assert_eq!(
        step(&mut it, done(&[1, 2, 3, 4, 5, 6, 7, 8])),
        [work(8), spill(&[1, 2, 3])]
    );
    assert_eq!(it.queued(), 7);
    for next in [7, 6, 5] {
        assert_eq!(step(&mut it, done(&[])), [work(next)]);
    }
    assert_eq!(step(&mut it, done(&[])), [work(4), Command::Refill]);
    assert_eq!(
        step(&mut it, message(1, Message::Ask)),
        [send(1, Message::Deny)],
        "they are not here yet"
    );
    assert_eq!(
        step(&mut it, done(&[])),
        [],
        "not idle: it has spilled items"
    );
    assert_eq!(
        step(
            &mut it,
            Event::Refilled {
                items: vec![1, 2, 3]
            }
        ),
        [work(3)]
    );
    assert_eq!(
        step(&mut it, message(1, Message::Ask)),
        [send(1, items(&[1]))]
    );
    assert_eq!(Config::new(DEQS, 0).spill_above, SPILL_ABOVE_ITEMS);
}

#[test]
fn a_master_hands_out_one_item_at_a_time() {
    let mut it = rank(Algorithm::Cp { keep_one: false }, 3, 0);
    assert_eq!(step(&mut it, start(&[1])), []);
    assert_eq!(
        step(&mut it, message(2, Message::Ask)),
        [send(2, items(&[1]))]
    );
    assert_eq!(step(&mut it, message(1, Message::Ask)), []);
    let results = |items: &[u32], found_messages| Message::Results {
        items: items.to_vec(),
        found_messages,
    };
    let found = |items: &[u32]| Message::Found {
        items: items.to_vec(),
    };
    assert_eq!(
        step(&mut it, message(2, found(&[2, 3]))),
        [send(1, items(&[2]))]
    );
    assert_eq!(
        step(&mut it, message(2, results(&[4], 1))),
        [send(2, items(&[3]))]
    );
    assert_eq!(
        step(&mut it, message(1, results(&[], 0))),
        [send(1, items(&[4]))]
    );
    assert_eq!(step(&mut it, message(2, results(&[], 0))), []);
    assert_eq!(
        step(&mut it, message(1, results(&[], 1))),
        [],
        "a message with children is still under way"
    );
    assert_eq!(
        step(&mut it, message(1, found(&[5]))),
        [send(2, items(&[5]))]
    );
    assert_eq!(
        step(&mut it, message(2, results(&[], 0))),
        [
            send(1, Message::Finish),
            send(2, Message::Finish),
            Command::Finished
        ]
    );
}

/// A walk by breadth alone would have all directories of a level in the queue, and their
/// directories in memory.
#[test]
fn a_master_hands_out_what_is_in_memory_before_what_was_spilled() {
    let mut it = rank(Algorithm::Cp { keep_one: false }, 2, 0);
    let spilled = Command::Spill {
        items: vec![1, 2, 3],
    };
    assert_eq!(step(&mut it, start(&[1, 2, 3, 4, 5, 6])), [spilled]);
    let results = |items: &[u32]| {
        let items = items.to_vec();
        message(
            1,
            Message::Results {
                items,
                found_messages: 0,
            },
        )
    };
    assert_eq!(
        step(&mut it, message(1, Message::Ask)),
        [send(1, items(&[4]))]
    );
    // Found items are done before it too, the oldest first.
    assert_eq!(step(&mut it, results(&[40, 41])), [send(1, items(&[5]))]);
    assert_eq!(step(&mut it, results(&[])), [send(1, items(&[6]))]);
    assert_eq!(step(&mut it, results(&[])), [send(1, items(&[40]))]);
    let last = step(&mut it, results(&[]));
    assert_eq!(last, [send(1, items(&[41])), Command::Refill]);
    let refilled = Event::Refilled {
        items: vec![1, 2, 3],
    };
    assert_eq!(step(&mut it, refilled), []);
    assert_eq!(step(&mut it, results(&[])), [send(1, items(&[1]))]);
}

#[test]
fn a_slave_sends_its_children_or_keeps_one() {
    let results = |items: &[u32], found_messages| {
        send(
            0,
            Message::Results {
                items: items.to_vec(),
                found_messages,
            },
        )
    };
    let tell = |items: &[u32]| {
        send(
            0,
            Message::Found {
                items: items.to_vec(),
            },
        )
    };
    let mut it = rank(Algorithm::Cp { keep_one: false }, 2, 1);
    assert_eq!(step(&mut it, start(&[])), [send(0, Message::Ask)]);
    assert_eq!(step(&mut it, message(0, items(&[1]))), [work(1)]);
    assert_eq!(step(&mut it, found(&[2, 3])), [tell(&[2, 3])]);
    assert_eq!(step(&mut it, done(&[4])), [results(&[4], 1)]);
    assert_eq!(
        step(&mut it, message(0, Message::Finish)),
        [Command::Finished]
    );

    let mut it = rank(Algorithm::Cp { keep_one: true }, 2, 1);
    assert_eq!(step(&mut it, start(&[])), [send(0, Message::Ask)]);
    assert_eq!(step(&mut it, message(0, items(&[1]))), [work(1)]);
    assert_eq!(step(&mut it, found(&[2, 3])), [tell(&[2])]);
    assert_eq!(step(&mut it, done(&[4])), [tell(&[4]), work(3)]);
    assert_eq!(step(&mut it, done(&[5])), [work(5)]);
    assert_eq!(step(&mut it, done(&[])), [results(&[], 2)]);
}

#[test]
fn a_death_ends_it_for_all_at_once() {
    let failed = Command::Failed(Failure::RankDied { rank: RankId(2) });
    for algorithm in Algorithm::ALL {
        let mut it = rank(algorithm, 4, 1);
        assert_eq!(step(&mut it, start(&[])).len(), 1);
        let abort = || Message::Abort { dead: RankId(2) };
        assert_eq!(
            step(&mut it, Event::Died { rank: RankId(2) }),
            [send(0, abort()), send(3, abort()), failed.clone()]
        );
        assert_eq!(step(&mut it, message(0, items(&[1]))), []);

        let mut other = rank(algorithm, 4, 0);
        step(&mut other, start(&[9]));
        assert_eq!(
            step(&mut other, message(1, abort())),
            std::slice::from_ref(&failed)
        );
    }
}
