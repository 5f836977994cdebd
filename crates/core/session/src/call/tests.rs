use super::*;
use crate::maps::{DirMaps, InodeShards};
use pandofs_api::{Request, RequestKey, op};
use pandofs_types::{Credentials, HashKey, Name, Position, SessionId, SlotId};
use std::cell::RefCell;

const DIR: Ino = Ino(5);
const MS: Duration = Duration::from_millis(1);

#[derive(Default)]
struct Places {
    maps: RefCell<DirMaps>,
    inodes: RefCell<InodeShards>,
}

impl KnownPlaces for Places {
    fn shard_of(&self, dir: Ino, position: Position) -> ShardId {
        self.maps.borrow_mut().shard_of(dir, position)
    }

    fn inode_shard(&self, ino: Ino) -> ShardId {
        self.inodes.borrow_mut().shard_of(ino)
    }

    fn merge(&self, dir: Ino, map: &DirMap) -> bool {
        self.maps.borrow_mut().merge(dir, map)
    }

    fn correct(&self, dir: Ino, home: &DirMap) -> bool {
        self.maps.borrow_mut().correct(dir, home)
    }

    fn moved(&self, ino: Ino, shard: ShardId) {
        self.inodes.borrow_mut().learn(ino, shard);
    }
}

/// A call, what is known of places, and the circumstances.
struct World {
    call: Call,
    asked: ShardRequest,
    places: Places,
    now: Duration,
    patience: Option<Duration>,
    is_closed: bool,
}

impl World {
    fn of(request: Request) -> World {
        let target = match &request {
            Request::Unlink(op::Unlink { dir, name })
            | Request::Lookup(op::Lookup { dir, name }) => Target::Name {
                dir: *dir,
                position: HASH_KEY.position(name.as_bytes()),
            },
            _ => Target::Inode(DIR),
        };
        let asked = ShardRequest {
            shard: ShardId(0),
            epoch: Epoch(3),
            key: RequestKey {
                session: SessionId(1),
                slot: SlotId(0),
                sequence: 1,
            },
            caller: Credentials::ROOT,
            request,
        };
        World {
            call: Call::new(target, asked.request.is_mutation()),
            asked,
            places: Places::default(),
            now: Duration::ZERO,
            patience: None,
            is_closed: false,
        }
    }

    fn unlink() -> World {
        let name = Name::new(b"a").unwrap();
        World::of(Request::Unlink(op::Unlink { dir: DIR, name }))
    }

    fn lookup() -> World {
        let name = Name::new(b"a").unwrap();
        World::of(Request::Lookup(op::Lookup { dir: DIR, name }))
    }

    fn get_attr() -> World {
        World::of(Request::GetAttr(op::GetAttr { ino: DIR }))
    }

    /// The call is sent now; the shard.
    fn sends(&mut self) -> ShardId {
        let router = Router {
            hash_key: HASH_KEY,
            places: &self.places,
        };
        self.call.aim(&router, &mut self.asked)
    }

    /// The steps after each of these attempts, of a second each, with pauses drawn as long as may be.
    fn on(&mut self, events: impl IntoIterator<Item = Event>) -> Vec<Step> {
        let step = |event| {
            let began = self.now;
            self.now += Duration::from_secs(1);
            let router = Router {
                hash_key: HASH_KEY,
                places: &self.places,
            };
            let mut at = Circumstances {
                now: self.now,
                began,
                patience: self.patience,
                is_closed: self.is_closed,
                draw: &mut |most| most,
            };
            self.call.on(event, &router, Some(&self.asked), &mut at)
        };
        events.into_iter().map(step).collect()
    }
}

const HASH_KEY: HashKey = HashKey(1, 2);

fn again(after: Duration) -> Step {
    Step::Again { after }
}

fn wait(after: Duration, seconds: u64) -> Step {
    Step::Wait(Wait {
        after,
        waited: Duration::from_secs(seconds),
        rereads_map: after >= MAX_RECONNECT_PAUSE / 2,
    })
}

fn failed(error: FsError) -> Step {
    Step::Ended(End::Fs(error))
}

fn split_map() -> DirMap {
    DirMap::with_slots((0..4).map(ShardId).collect(), 4)
}

#[test]
fn pauses_double_up_to_the_longest_and_are_cut_to_half_at_most() {
    let mut world = World::get_attr();
    let pauses = [1, 2, 4, 8, 16, 20, 20].map(|ms| MS * ms);
    let steps = world.on(pauses.map(|_| Event::Refused(Refusal::TryAgain)));
    let expected: Vec<Step> = (0..).zip(pauses).map(|(s, pause)| wait(pause, s)).collect();
    assert_eq!(steps, expected);
    let mut pause = Pause::between(MIN_RETRY_PAUSE, MAX_RETRY_PAUSE);
    let mut least = Circumstances {
        now: Duration::ZERO,
        began: Duration::ZERO,
        patience: None,
        is_closed: false,
        draw: &mut |_| 0,
    };
    assert_eq!(pause.next(&mut least), MIN_RETRY_PAUSE / 2);
    assert_eq!(pause.next(&mut least), MIN_RETRY_PAUSE);
    pause.reset();
    assert_eq!(pause.next(&mut least), MIN_RETRY_PAUSE / 2);
}

#[test]
fn a_lost_connection_is_tried_again_at_once_and_then_with_pauses() {
    let mut world = World::lookup();
    let steps = world.on([
        Event::Lost { sent: true },
        Event::Lost { sent: true },
        Event::Unreachable,
        Event::Refused(Refusal::TryAgain),
        Event::Lost { sent: true },
    ]);
    let (away, busy) = (MIN_RECONNECT_PAUSE, MIN_RETRY_PAUSE);
    let expected = [
        again(Duration::ZERO),
        wait(away, 2),
        wait(away * 2, 3),
        // The server is there: what comes next counts anew, but no connection is tried again at once any more.
        wait(busy, 0),
        wait(away, 1),
    ];
    assert_eq!(steps, expected);
    assert!(world.call.is_resent() && !world.call.is_in_doubt());
}

#[test]
fn patience_ends_with_or_without_doubt() {
    let away = |sent| {
        let mut world = World::unlink();
        world.patience = Some(Duration::from_secs(3));
        world.on([Event::Lost { sent }, Event::Unreachable, Event::Unreachable])
    };
    for in_doubt in [true, false] {
        let expected = [
            again(Duration::ZERO),
            wait(MIN_RECONNECT_PAUSE, 2),
            Step::Ended(End::Away { in_doubt }),
        ];
        assert_eq!(away(in_doubt), expected);
    }
    let mut world = World::unlink();
    world.patience = Some(Duration::from_secs(1));
    let steps = world.on([(); 2].map(|()| Event::Refused(Refusal::TryAgain)));
    assert_eq!(steps, [wait(MIN_RETRY_PAUSE, 0), Step::Ended(End::Busy)]);
}

#[test]
fn nothing_is_waited_for_at_the_end_of_the_session() {
    for (event, end) in [
        (Event::Unreachable, End::Away { in_doubt: false }),
        (Event::Refused(Refusal::TryAgain), End::Busy),
        (
            Event::Refused(Refusal::NotYet),
            End::Fs(FsError::Interrupted),
        ),
    ] {
        let mut world = World::unlink();
        world.is_closed = true;
        assert_eq!(world.on([event]), [Step::Ended(end)]);
    }
}

/// The shard remembers the answer of a change, and another one does not.
#[test]
fn a_change_in_doubt_goes_to_the_same_shard_whatever_is_learnt() {
    let mut world = World::unlink();
    assert_eq!(world.sends(), ShardId(0));
    let known = world.places.maps.get_mut().merge(DIR, &split_map());
    assert!(known);
    let elsewhere = {
        let mut other = World::unlink();
        other.places.maps.get_mut().merge(DIR, &split_map());
        other.sends()
    };
    assert_ne!(elsewhere, ShardId(0), "the name has moved");
    world.on([Event::Unreachable, Event::Lost { sent: false }]);
    assert!(!world.call.is_in_doubt() && !world.call.is_resent());
    world.on([Event::Lost { sent: true }]);
    assert!(world.call.is_in_doubt() && world.call.is_resent());
    assert_eq!(world.sends(), ShardId(0));
    // It may be at it still.
    world.on([Event::Refused(Refusal::TryAgain)]);
    assert!(world.call.is_in_doubt());
    assert_eq!(world.sends(), ShardId(0));
    world.on([Event::Refused(Refusal::Misdirected(None))]);
    assert!(!world.call.is_in_doubt());
    assert_eq!(world.sends(), elsewhere);
    // A request that changes nothing goes where the name is known to be.
    let mut world = World::lookup();
    world.places.maps.get_mut().merge(DIR, &split_map());
    world.on([Event::Lost { sent: true }]);
    assert_eq!(world.sends(), elsewhere);
}

#[test]
fn who_learns_nothing_asks_the_home() {
    let mut world = World::lookup();
    world.sends();
    let home = |map| Event::Home { dir: DIR, map };
    let astray = || Event::Refused(Refusal::Misdirected(None));
    let steps = world.on([
        astray(),
        home(Ok(Some(DirMap::single(ShardId(0))))),
        astray(),
        home(Ok(Some(split_map()))),
    ]);
    let expected = [
        Step::AskHome(DIR),
        again(Duration::ZERO),
        Step::AskHome(DIR),
        again(Duration::ZERO),
    ];
    assert_eq!(steps, expected);
    // Only the first has taught nothing.
    assert_eq!(world.call.redirects, 1);
    for (map, error) in [
        (Ok(None), FsError::NotDir),
        (Err(FsError::Stale), FsError::NotFound),
        (Err(FsError::NotFound), FsError::NotFound),
        (Err(FsError::Io), FsError::Io),
    ] {
        assert_eq!(World::lookup().on([home(map)]), [failed(error)]);
    }
}

#[test]
fn who_is_sent_around_makes_pauses_and_gives_up() {
    let mut world = World::get_attr();
    let moved = |number: usize| {
        Event::Refused(Refusal::Moved {
            ino: DIR,
            shard: ShardId(number as u16 % 2),
        })
    };
    let steps = world.on((0..=MAX_REDIRECTS).map(moved));
    let mut expected = vec![again(Duration::ZERO); REDIRECTS_AT_ONCE];
    let mut pause = MIN_RETRY_PAUSE;
    while expected.len() < MAX_REDIRECTS {
        expected.push(again(pause));
        pause = MAX_RETRY_PAUSE.min(pause * 2);
    }
    expected.push(Step::Ended(End::SentAround));
    assert_eq!(steps, expected);
    let last = ShardId(MAX_REDIRECTS as u16 % 2);
    assert_eq!(world.sends(), last, "it is learnt all the same");
}

#[test]
fn a_server_that_goes_by_another_map_is_asked_for_it_if_that_is_newer() {
    let mut world = World::get_attr();
    let wrong = |epoch| {
        Event::Refused(Refusal::WrongServer {
            epoch: Epoch(epoch),
        })
    };
    let found = |is_newer| Event::MapLookedFor { is_newer };
    let steps = world.on([wrong(4), found(true), wrong(2), found(false)]);
    let find = |asks_server| Step::FindMap {
        used: Epoch(3),
        asks_server,
    };
    let expected = [
        find(true),
        again(Duration::ZERO),
        find(false),
        again(MIN_RECONNECT_PAUSE),
    ];
    assert_eq!(steps, expected);
}

#[test]
fn who_does_not_wait_is_told_not_yet() {
    let mut world = World::get_attr();
    let not_yet = || Event::Refused(Refusal::NotYet);
    assert_eq!(world.on([not_yet()]), [wait(MIN_RETRY_PAUSE, 0)]);
    world.call.waits = false;
    assert_eq!(world.on([not_yet()]), [Step::Ended(End::NotYet)]);
}

#[test]
fn what_a_shard_says_for_good_is_an_end() {
    let malformed = Refusal::Malformed("bytes".into());
    let steps = World::lookup().on([
        Event::Refused(FsError::NotFound.into()),
        Event::Refused(malformed),
    ]);
    let why = "a shard refused a request: bytes".to_owned();
    let expected = [failed(FsError::NotFound), Step::Ended(End::Broken(why))];
    assert_eq!(steps, expected);
}

fn rename(new_dir: Ino) -> World {
    let name = |name: &[u8]| Name::new(name).unwrap();
    let request = Request::Rename(op::Rename {
        dir: DIR,
        name: name(b"a"),
        new_dir,
        new_name: name(b"b"),
        new_shard: ShardId(0),
        no_replace: false,
        whiteout: false,
    });
    let mut world = World::of(request);
    let position = HASH_KEY.position(b"a");
    world.call.target = Target::Name { dir: DIR, position };
    world
}

fn new_shard(world: &World) -> ShardId {
    let new_name = world.asked.request.operation().new_name();
    new_name.expect("a rename has one").shard
}

/// The other directory has been split; where the first name is has not changed.
#[test]
fn a_request_goes_with_what_is_known_of_its_second_name() {
    let new_dir = Ino(6);
    let mut world = rename(new_dir);
    assert_eq!(world.sends(), ShardId(0));
    let map = DirMap::with_slots(vec![ShardId(0), ShardId(5), ShardId(6), ShardId(7)], 4);
    let misdirected = |map| Event::Refused(Refusal::NewNameMisdirected(map));
    assert_eq!(world.on([misdirected(None)]), [Step::AskHome(new_dir)]);
    let steps = world.on([
        misdirected(Some(map.clone())),
        misdirected(Some(map.clone())),
    ]);
    // The second time it has not been sent anew, and another thread may have learnt it.
    assert_eq!(steps, [(); 2].map(|()| again(Duration::ZERO)));
    world.sends();
    let expected = map.shard_of(HASH_KEY.position(b"b"));
    assert_ne!(expected, ShardId(0), "the name has moved");
    assert_eq!(new_shard(&world), expected);
    assert_eq!(world.on([misdirected(Some(map))]), [Step::AskHome(new_dir)]);
    // A second inode is aimed at as well.
    let name = Name::new(b"c").unwrap();
    let (ino, inode_shard) = (Ino(9), ShardId(0));
    let mut world = World::of(Request::Link(op::Link {
        dir: DIR,
        name,
        ino,
        inode_shard,
    }));
    world.places.inodes.get_mut().learn(ino, ShardId(3));
    world.sends();
    match &world.asked.request {
        Request::Link(link) => assert_eq!(link.inode_shard, ShardId(3)),
        other => panic!("{other:?}"),
    }
}

/// A listing asks each shard for what it has.
#[test]
fn a_shard_that_is_asked_for_its_part_may_have_none() {
    let mut world = World::of(Request::DirPart(op::DirPart { dir: DIR }));
    world.call.target = Target::Shard(ShardId(2));
    assert_eq!(world.sends(), ShardId(2));
    let steps = world.on([Event::Refused(Refusal::Misdirected(Some(split_map())))]);
    assert_eq!(steps, [Step::Ended(End::NoPart)]);
    assert_eq!(world.places.maps.get_mut().map(DIR), split_map());
}

#[test]
fn a_redirection_that_has_nothing_to_do_with_the_request_is_no_answer() {
    for refusal in [
        Refusal::Misdirected(Some(split_map())),
        Refusal::NewNameMisdirected(None),
    ] {
        let steps = World::get_attr().on([Event::Refused(refusal)]);
        assert!(
            matches!(steps[..], [Step::Ended(End::Broken(_))]),
            "{steps:?}"
        );
    }
}

#[test]
fn a_request_to_a_server_has_no_shard() {
    let places = Places::default();
    let router = Router {
        hash_key: HASH_KEY,
        places: &places,
    };
    places.moved(DIR, ShardId(4));
    let server = pandofs_types::ServerId(2);
    let targets = [
        Target::Inode(DIR),
        Target::Shard(ShardId(3)),
        Target::Server(server),
    ];
    let shards = targets.map(|target| router.shard_of(target));
    assert_eq!(shards, [Some(ShardId(4)), Some(ShardId(3)), None]);
}

/// A server that goes by the same map does not know a newer one.
#[test]
fn a_server_with_the_same_map_is_not_asked_for_another() {
    let mut world = World::get_attr();
    let wrong = Event::Refused(Refusal::WrongServer { epoch: Epoch(3) });
    let find = Step::FindMap {
        used: Epoch(3),
        asks_server: false,
    };
    assert_eq!(world.on([wrong]), [find]);
}

/// It may have got another address.
#[test]
fn the_map_is_read_again_while_a_server_is_away_for_longer() {
    let mut world = World::get_attr();
    let steps = world.on((0..10).map(|_| Event::Unreachable));
    let rereads = steps.into_iter().map(|step| match step {
        Step::Wait(wait) => (wait.after, wait.rereads_map),
        other => panic!("{other:?}"),
    });
    let mut pause = MIN_RECONNECT_PAUSE;
    let expected = (0..10).map(|_| {
        let after = pause;
        pause = MAX_RECONNECT_PAUSE.min(pause * 2);
        (after, after * 2 >= MAX_RECONNECT_PAUSE)
    });
    let expected: Vec<_> = expected.collect();
    assert_eq!(rereads.collect::<Vec<_>>(), expected);
    let times = expected.iter().filter(|(_, rereads)| *rereads).count();
    assert!((1..10).contains(&times), "{times}");
}
