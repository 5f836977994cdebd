//! Requests by path, and changes above whose messages come in any order.

mod random;

use crate::support::{Cluster, Node, create_file, name};
use pandofs_api::op::PathOperation;
use pandofs_api::{NewNode, PathName, PathReply, Refusal, Reply, Request, op};
use pandofs_placement::{DirPolicy, Settings};
use pandofs_shard::{Input, Output};
use pandofs_testkit::rng::Rng;
use pandofs_types::limits::RESEND_INTERVAL;
use pandofs_types::{Credentials, FsError, Ino, NewMode, SetAttr};
use std::collections::HashMap;

const SHARDS: u16 = 4;

/// A cluster whose messages and answers wait until the test hands them on.
struct Net {
    cluster: Cluster,
    under_way: Vec<(u16, Input)>,
    answers: HashMap<u64, Result<Reply, Refusal>>,
}

impl Net {
    fn new() -> Net {
        Net {
            cluster: Cluster::new(SHARDS, DirPolicy::CrushPath, Settings::default()),
            under_way: Vec::new(),
            answers: HashMap::new(),
        }
    }

    fn give(&mut self, shard: u16, input: Input) {
        self.give_all(shard, vec![input]);
    }

    /// Gives inputs at once: each is looked at before the records of any are applied.
    fn give_all(&mut self, shard: u16, inputs: Vec<Input>) {
        for output in self.cluster.batch(shard, inputs).outputs {
            match output {
                Output::Answer { ticket, result, .. } => {
                    self.answers.insert(ticket.0, result);
                }
                Output::Send { to, message, .. } => {
                    self.under_way.push((to.0, Input::Peer(message)));
                }
                Output::WhenDurable { shard, input } => self.under_way.push((shard.0, input)),
                Output::Watch { .. } | Output::Replaced { .. } | Output::Recall(_) => {}
                other => panic!("unexpected {other:?}"),
            }
        }
    }

    /// Sends a request; the number by which its answer is known.
    fn ask(&mut self, session: u64, caller: &Credentials, shard: u16, request: Request) -> u64 {
        let (ticket, input) = self.request(session, caller, shard, request);
        self.give(shard, input);
        ticket
    }

    /// The same, of a request that comes when it is handed on.
    fn post(&mut self, session: u64, caller: &Credentials, shard: u16, request: Request) -> u64 {
        let (ticket, input) = self.request(session, caller, shard, request);
        self.under_way.push((shard, input));
        ticket
    }

    fn request(
        &mut self,
        session: u64,
        caller: &Credentials,
        shard: u16,
        request: Request,
    ) -> (u64, Input) {
        let mut input = self.cluster.request_by(session, shard, request);
        let Input::Request { ticket, request } = &mut input else {
            panic!("a request is none");
        };
        request.caller = caller.clone();
        let ticket = ticket.0;
        (ticket, input)
    }

    /// Hands on something, or lets time pass.
    fn advance(&mut self, rng: &mut Rng) {
        if self.under_way.is_empty() || rng.chance(1, 20) {
            self.cluster.now += 2 * RESEND_INTERVAL.as_nanos() as i64;
            for shard in 0..SHARDS {
                self.give(shard, Input::Tick);
            }
            return;
        }
        let at = rng.below(self.under_way.len() as u64) as usize;
        let (shard, input) = self.under_way.swap_remove(at);
        let mut inputs = vec![input];
        // A few come at once.
        while rng.chance(1, 2)
            && let Some(other) = self.under_way.iter().position(|(to, _)| *to == shard)
        {
            inputs.push(self.under_way.swap_remove(other).1);
        }
        self.give_all(shard, inputs);
    }

    fn finish(&mut self, rng: &mut Rng, ticket: u64) -> Result<Reply, Refusal> {
        for _ in 0..100_000 {
            if let Some(answer) = self.answers.remove(&ticket) {
                return answer;
            }
            self.advance(rng);
        }
        panic!("request {ticket} is not answered");
    }
}

/// A directory below others, with its inode and what is above it.
fn deep(net: &mut Net, rng: &mut Rng, depth: u64) -> (PathName, Vec<Ino>) {
    let mut at = Ino::ROOT;
    let (mut path, mut all) = (PathName::ROOT, vec![at]);
    for level in 0..depth {
        let new = name(&format!("level-{level}-{}", rng.below(100)));
        path = path.join(&new).unwrap();
        let mkdir = op::Mkdir {
            dir: at,
            name: new,
            mode: 0o755,
            umask: 0,
        };
        let ticket = net.ask(
            5,
            &Credentials::ROOT,
            at.birth_shard().0,
            Request::Mkdir(mkdir),
        );
        let Ok(Reply::Entry(made)) = net.finish(rng, ticket) else {
            panic!("level {level} is not made");
        };
        assert_eq!(
            Some(made.ino.birth_shard()),
            net.cluster.map.path_shard(path.as_bytes())
        );
        at = made.ino;
        all.push(at);
    }
    let file = create_file(at, name("f"));
    let ticket = net.ask(5, &Credentials::ROOT, at.birth_shard().0, file);
    assert!(net.finish(rng, ticket).is_ok());
    (path, all)
}

fn by_path(path: &PathName, operation: PathOperation) -> Request {
    Request::ByPath(op::ByPath {
        path: path.clone(),
        new_path: None,
        operation,
    })
}

fn lookup(net: &mut Net, caller: &Credentials, path: &PathName) -> u64 {
    let shard = net.cluster.map.path_shard(path.as_bytes()).unwrap();
    let lookup = PathOperation::Lookup(op::Lookup {
        dir: op::ByPath::UNKNOWN,
        name: name("f"),
    });
    net.ask(6, caller, shard.0, by_path(path, lookup))
}

#[test]
fn who_asks_by_path_asks_one_shard_at_any_depth() {
    let (mut net, mut rng) = (Net::new(), Rng::new(1));
    let (path, _) = deep(&mut net, &mut rng, 10);
    let caller = Credentials::user(7, 7, vec![]);
    let ticket = lookup(&mut net, &caller, &path);
    let answer = net.answers.remove(&ticket);
    assert!(
        matches!(&answer, Some(Ok(Reply::Entry(entry))) if entry.inode.is_some()),
        "{answer:?}"
    );
    let counts = |shard: &Node| {
        let status = shard.shard.status();
        [
            status.paths_answered,
            status.paths_led_on,
            status.paths_unknown,
        ]
    };
    let counted = net.cluster.nodes.iter().map(counts);
    let counted = counted.reduce(|a, b| [a[0] + b[0], a[1] + b[1], a[2] + b[2]]);
    assert_eq!(counted, Some([1, 0, 0]));
}

/// The second one is looked at before the record of the first is applied, and finds its file only then.
#[test]
fn two_that_make_a_file_of_one_name_at_once_have_it_open_both() {
    let (mut net, mut rng) = (Net::new(), Rng::new(1));
    let (path, _) = deep(&mut net, &mut rng, 3);
    let shard = net.cluster.map.path_shard(path.as_bytes()).unwrap().0;
    let root = Credentials::ROOT;
    let open = |net: &mut Net, session| {
        let open = PathOperation::OpenName(op::OpenName {
            dir: op::ByPath::UNKNOWN,
            name: name("new"),
            access: 6,
            create: Some(NewMode {
                mode: 0o644,
                umask: 0,
            }),
        });
        net.request(session, &root, shard, by_path(&path, open))
    };
    let (first, input) = open(&mut net, 6);
    let (second, other) = open(&mut net, 7);
    net.give_all(shard, vec![input, other]);
    let (third, input) = open(&mut net, 8);
    net.give(shard, input);
    let opened = |net: &mut Net, ticket| match net.answers.remove(&ticket) {
        Some(Ok(Reply::Entry(entry))) if entry.inode.is_some() => entry.ino,
        other => panic!("{other:?}"),
    };
    let ino = opened(&mut net, first);
    assert_eq!(opened(&mut net, second), ino);
    assert_eq!(opened(&mut net, third), ino);
    let unlink = PathOperation::Unlink(op::Unlink {
        dir: op::ByPath::UNKNOWN,
        name: name("new"),
    });
    let gone = net.ask(5, &root, shard, by_path(&path, unlink));
    assert!(net.answers.remove(&gone).is_some_and(|gone| gone.is_ok()));
    // It stays as long as any of them has it open.
    for session in [6, 7, 8] {
        let getattr = Request::GetAttr(op::GetAttr { ino });
        let asked = net.ask(5, &root, shard, getattr);
        let found = net.answers.remove(&asked).expect("it is answered");
        assert!(found.is_ok(), "before session {session} closes it");
        let inos = vec![ino];
        net.ask(
            session,
            &root,
            shard,
            Request::Release(op::Release { inos }),
        );
        net.cluster.now += 2 * RESEND_INTERVAL.as_nanos() as i64;
        net.give(shard, Input::Tick);
    }
    let asked = net.ask(5, &root, shard, Request::GetAttr(op::GetAttr { ino }));
    let found = net.answers.remove(&asked).expect("it is answered");
    assert_eq!(found, Err(Refusal::Fs(FsError::Stale)));
}

/// Between the first shard's hearing of a change and its answer nobody is told what was before it by one shard and what
/// is after it by another; and after its answer what was before it by none.
#[test]
fn a_path_waits_for_a_change_above_it_that_is_under_way() {
    let mut waited = 0;
    for seed in 0..40 {
        let (mut net, mut rng) = (Net::new(), Rng::new(seed));
        let (path, dirs) = deep(&mut net, &mut rng, 3);
        let set = SetAttr {
            mode: Some(0o700),
            ..SetAttr::default()
        };
        let above = dirs[1];
        let chmod = Request::SetAttr(op::SetAttr { ino: above, set });
        let chmod = net.ask(5, &Credentials::ROOT, above.birth_shard().0, chmod);
        for _ in 0..rng.below(12) {
            net.advance(&mut rng);
        }
        let caller = Credentials::user(7, 7, vec![]);
        let ticket = lookup(&mut net, &caller, &path);
        let is_done = net.answers.contains_key(&chmod);
        match net.answers.get(&ticket) {
            Some(Ok(Reply::Entry(_))) => assert!(!is_done, "seed {seed}: a right that is gone"),
            Some(Err(Refusal::ByPath(PathReply::Unknown { .. }))) => {}
            None => {
                waited += 1;
                let answer = net.finish(&mut rng, ticket);
                let is_known = matches!(answer, Ok(Reply::Entry(_)));
                assert!(
                    !is_known || !net.answers.contains_key(&chmod),
                    "seed {seed}"
                );
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(waited > 5, "{waited}");
}

/// A request is looked at when it comes, and its record is applied after those that were proposed before. One of these may
/// decide a change above.
#[test]
fn what_changes_above_before_a_record_is_applied_counts() {
    let caller = Credentials::user(7, 7, vec![]);
    let chmod = |net: &mut Net, ino: Ino, mode| {
        let set = SetAttr {
            mode: Some(mode),
            ..SetAttr::default()
        };
        let chmod = Request::SetAttr(op::SetAttr { ino, set });
        net.ask(5, &Credentials::ROOT, ino.birth_shard().0, chmod)
    };
    let mut met = 0;
    for seed in 0..200 {
        let (mut net, mut rng) = (Net::new(), Rng::new(seed));
        let (path, dirs) = deep(&mut net, &mut rng, 3);
        let opened = chmod(&mut net, dirs[3], 0o777);
        assert!(net.finish(&mut rng, opened).is_ok());
        while !net.under_way.is_empty() {
            net.advance(&mut rng);
        }
        chmod(&mut net, dirs[1], 0o700);
        for _ in 0..rng.below(10) {
            net.advance(&mut rng);
        }
        let shard = net.cluster.map.path_shard(path.as_bytes()).unwrap().0;
        let is_known = |net: &mut Net| {
            let ticket = lookup(net, &caller, &path);
            matches!(net.answers.remove(&ticket), Some(Ok(_)))
        };
        let was_known = is_known(&mut net);
        let create = PathOperation::Create(op::Create {
            dir: op::ByPath::UNKNOWN,
            name: name("new"),
            node: NewNode::File,
            mode: 0o644,
            umask: 0,
            open: false,
        });
        let (ticket, create) = net.request(6, &caller, shard, by_path(&path, create));
        let (here, elsewhere): (Vec<_>, Vec<_>) = std::mem::take(&mut net.under_way)
            .into_iter()
            .partition(|(to, _)| *to == shard);
        net.under_way = elsewhere;
        let mut inputs: Vec<Input> = here.into_iter().map(|(_, input)| input).collect();
        inputs.push(create);
        net.give_all(shard, inputs);
        let answer = net.answers.remove(&ticket);
        let ticket = lookup(&mut net, &caller, &path);
        let is_decided = matches!(
            net.answers.remove(&ticket),
            Some(Err(Refusal::ByPath(PathReply::Unknown { .. })))
        );
        if was_known && is_decided {
            met += 1;
            assert!(!matches!(answer, Some(Ok(_))), "seed {seed}: {answer:?}");
        }
    }
    assert!(met > 3, "{met}");
}

/// The shard of a new directory's name says what is above it. A change of an ancestor may pass by before the directory's
/// home hears of that.
#[test]
fn what_was_above_a_new_directory_is_not_believed_if_it_has_changed_on_the_way() {
    let (mut net, mut rng) = (Net::new(), Rng::new(5));
    let (path, dirs) = deep(&mut net, &mut rng, 3);
    let parent = dirs[3];
    let home = parent.birth_shard();
    let elsewhere = |net: &Net, number: u32| {
        let new = name(&format!("new-{number}"));
        let path = path.join(&new).unwrap();
        let is_elsewhere = net.cluster.map.path_shard(path.as_bytes()) != Some(home);
        is_elsewhere.then_some((new, path))
    };
    for changes in [false, true] {
        let numbers = (0..).map(|number| number * 2 + u32::from(changes));
        let (new, path) = numbers.filter_map(|n| elsewhere(&net, n)).next().unwrap();
        let mkdir = op::Mkdir {
            dir: parent,
            name: new,
            mode: 0o755,
            umask: 0,
        };
        let mkdir = net.ask(5, &Credentials::ROOT, home.0, Request::Mkdir(mkdir));
        let held_back = std::mem::take(&mut net.under_way);
        assert!(!held_back.is_empty());
        if changes {
            let set = SetAttr {
                mode: Some(0o700),
                ..SetAttr::default()
            };
            let chmod = Request::SetAttr(op::SetAttr { ino: dirs[1], set });
            let shard = dirs[1].birth_shard().0;
            let chmod = net.ask(6, &Credentials::ROOT, shard, chmod);
            assert!(net.finish(&mut rng, chmod).is_ok());
        }
        net.under_way.extend(held_back);
        let Ok(Reply::Entry(made)) = net.finish(&mut rng, mkdir) else {
            panic!("it is not made");
        };
        while !net.under_way.is_empty() {
            net.advance(&mut rng);
        }
        let file = create_file(made.ino, name("f"));
        let file = net.ask(5, &Credentials::ROOT, made.shard.0, file);
        assert!(net.finish(&mut rng, file).is_ok());
        let ticket = lookup(&mut net, &Credentials::user(7, 7, vec![]), &path);
        let answer = net.finish(&mut rng, ticket);
        let is_known = matches!(answer, Ok(Reply::Entry(_)));
        assert_eq!(is_known, !changes, "{answer:?}");
    }
}
