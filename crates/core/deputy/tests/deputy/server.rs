//! Server of one shard for these tests: requests and batches executed at once on a store in memory.

use pandofs_api::op::Batch;
use pandofs_api::{BatchReply, GrantTerms, Granted, Refusal, Reply, Request, op};
use pandofs_deputy::{Deputy, Lost, Offer, Opened, Recalled, Taken};
use pandofs_namespace::ops::{self, Mutation, here};
use pandofs_namespace::records::decode;
use pandofs_namespace::{Choices, Context, Locks, Meta, Stop, Txn, View, keys};
use pandofs_placement::{ClusterMap, DirPolicy, FilePolicy, ServerInfo, Settings};
use pandofs_session::Boottime;
use pandofs_shard::{Shard, ShardConfig};
use pandofs_store::{KvRead, MemoryStore, Overlay, Store};
use pandofs_types::{Credentials, FsId, HashKey, Ino, Name, ServerId, SessionId, ShardId, Time};
use serde_bytes::ByteBuf;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const SESSION: SessionId = SessionId(9);
pub(crate) const SHARD: ShardId = ShardId(0);
const INCARNATION: u64 = 77;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub(crate) fn at(millis: u64) -> Boottime {
    Boottime::after_start(Duration::from_secs(1_000) + Duration::from_millis(millis))
}

pub(crate) struct Server {
    pub map: Arc<ClusterMap>,
    pub store: MemoryStore,
    meta: Meta,
    pub time: i64,
    next_number: u64,
}

impl Server {
    pub(crate) fn new() -> Server {
        let server = ServerInfo {
            id: ServerId(0),
            addresses: vec![],
            weight: ServerInfo::WEIGHT_ONE,
            domain: "here".to_string(),
        };
        let settings = Settings {
            file_policy: FilePolicy::WithEntry,
            ..Settings::default()
        };
        let map = ClusterMap::create(
            FsId(7),
            "test".to_string(),
            HashKey(1, 2),
            1,
            vec![server],
            DirPolicy::Subtree,
            settings,
        );
        let map = Arc::new(map.unwrap());
        let config = ShardConfig {
            shard: SHARD,
            map: Arc::clone(&map),
            sync_every_batch: false,
            grace: Duration::ZERO,
        };
        let store = MemoryStore::new();
        let mut overlay = Overlay::new(&store);
        Shard::create(&config, &mut overlay, Time(1), &Credentials::ROOT).unwrap();
        let batch = overlay.take_batch();
        store.write(&batch).unwrap();
        let meta = store.get(&keys::meta(SHARD)).unwrap().unwrap();
        Server {
            map,
            store,
            meta: decode("meta", &meta).unwrap(),
            time: 1_000,
            // Beyond what the shard itself gives out.
            next_number: 1 << 20,
        }
    }

    /// Executes one request as a shard does that has it alone.
    pub(crate) fn execute(
        &mut self,
        caller: &Credentials,
        request: &Request,
        choices: &Choices,
    ) -> Result<Reply, Refusal> {
        let locks = Locks::default();
        let cx = Context {
            locks: &locks,
            session: SESSION,
            caller,
            choices,
        };
        let view = View {
            kv: &self.store,
            shard: SHARD,
            map: &self.map,
            cached_only: false,
        };
        let done = if request.is_mutation() {
            let mut overlay = Overlay::new(&self.store);
            let mut effects = Vec::new();
            let mut txn = Txn {
                overlay: &mut overlay,
                shard: SHARD,
                map: &self.map,
                meta: &mut self.meta,
                effects: &mut effects,
            };
            let done = ops::mutate(&mut txn, &cx, request).and_then(|mutation| match mutation {
                Mutation::Done(reply) => Ok(reply),
                Mutation::Plan(plan) => {
                    let reply = here::perform(&mut txn, &locks, plan, choices)?;
                    Ok(reply.expect("there is one shard"))
                }
            });
            if done.is_ok() {
                let batch = overlay.take_batch();
                self.store.write(&batch).unwrap();
            }
            done
        } else {
            ops::read(&view, &cx, request)
        };
        done.map_err(|stop| match stop {
            Stop::Refuse(refusal) => refusal,
            other => panic!("{other}"),
        })
    }

    /// As it is asked by the session itself.
    pub(crate) fn ask(
        &mut self,
        caller: &Credentials,
        request: &Request,
    ) -> Result<Reply, Refusal> {
        self.time += 1;
        let choices = Choices {
            time: Time(self.time),
            ..Choices::default()
        };
        self.execute(caller, request, &choices)
    }

    pub(crate) fn batch(&mut self, batch: Batch) -> BatchReply {
        let mut done = 0;
        let mut refused = None;
        for early in batch.early {
            let choices = Choices {
                time: early.time,
                random: early.random,
                ino: early.ino,
                placing: batch.placing,
                ..Choices::default()
            };
            let caller = &batch.callers[usize::from(early.caller)];
            if let Err(refusal) = self.execute(caller, &early.operation.into(), &choices) {
                refused = Some(refusal);
                break;
            }
            done += 1;
        }
        BatchReply {
            done,
            refused,
            incarnation: Some(INCARNATION),
            terms: self.terms(),
        }
    }

    fn terms(&self) -> GrantTerms {
        GrantTerms {
            time: Time(self.time),
            placing: None,
            is_low: false,
        }
    }

    fn scan(&self, prefix: Vec<u8>, pairs: &mut Vec<(ByteBuf, ByteBuf)>) {
        self.store
            .scan(&prefix, &keys::after(&prefix), &mut |key, value| {
                pairs.push((ByteBuf::from(key), ByteBuf::from(value)));
                ControlFlow::Continue(())
            })
            .unwrap();
    }

    /// What a grant of the directory brings.
    pub(crate) fn grant(&self, dir: Ino) -> Granted {
        let mut pairs = Vec::new();
        let mut entry = keys::inode(SHARD, dir);
        entry[0] = keys::Kind::Entry as u8;
        self.scan(entry, &mut pairs);
        let children: Vec<Ino> = pairs
            .iter()
            .map(|(_, value)| {
                let entry: pandofs_namespace::records::EntryRecord =
                    decode("entry", value).unwrap();
                entry.ino
            })
            .collect();
        for ino in children.into_iter().chain([dir]) {
            self.scan(keys::inode(SHARD, ino), &mut pairs);
            self.scan(keys::parts(SHARD, ino), &mut pairs);
            self.scan(keys::xattrs(SHARD, ino), &mut pairs);
        }
        Granted {
            incarnation: INCARNATION,
            terms: self.terms(),
            pairs,
        }
    }

    pub(crate) fn numbers(&mut self) -> (Ino, u32) {
        let first = Ino::new(SHARD, self.next_number);
        self.next_number += 100;
        (first, 100)
    }
}

/// A session: its deputy and the server, driven as the client does, with nothing between them.
pub(crate) struct Session {
    pub deputy: Deputy,
    pub server: Server,
    pub now: u64,
    random: u64,
    pub open: Vec<Ino>,
    pub lost: Vec<Lost>,
    /// Requests that were answered without a server.
    pub early: u64,
}

impl Session {
    pub(crate) fn new() -> Session {
        let server = Server::new();
        let mut deputy = Deputy::new(SESSION, Arc::clone(&server.map));
        deputy.begin();
        Session {
            deputy,
            server,
            now: 0,
            random: 0,
            open: Vec::new(),
            lost: Vec::new(),
            early: 0,
        }
    }

    /// What the deputy wants to be done with a request.
    pub(crate) fn offer(&mut self, request: &Request) -> Taken {
        self.now += 1;
        self.random += 1;
        let open = &self.open;
        self.deputy.offer(Offer {
            caller: &Credentials::ROOT,
            request,
            now: at(self.now),
            random: self.random,
            opened: &|ino| match open.contains(&ino) {
                true => Opened::Told,
                false => Opened::No,
            },
        })
    }

    /// Sends one batch, if there is something to send.
    pub(crate) fn send(&mut self) -> bool {
        let Some(batch) = self.deputy.next_batch(SHARD) else {
            return false;
        };
        let sent = at(self.now);
        let reply = self.server.batch(batch);
        let lost = self.deputy.batch_answered(SHARD, sent, Some(reply));
        self.lost.extend(lost);
        true
    }

    pub(crate) fn drain(&mut self) {
        while self.send() {}
    }

    /// Asks for a grant and takes it.
    pub(crate) fn grant(&mut self, dir: Ino) {
        let granted = self.server.grant(dir);
        self.deputy
            .granted(dir, at(self.now), Some(granted), at(self.now));
    }

    /// The answer to a request, whoever gives it.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Reply, Refusal> {
        for _ in 0..10 {
            match self.offer(&request) {
                Taken::Answered(answer) => {
                    self.early += 1;
                    return answer;
                }
                Taken::Ask(asked) => {
                    self.recall_victim(&request);
                    let mut answer = self.server.ask(&Credentials::ROOT, &request);
                    self.deputy.was_asked(asked, answer.as_ref().ok());
                    if let Ok(reply) = &mut answer {
                        self.deputy.correct(reply, at(self.now));
                    }
                    return answer;
                }
                Taken::Drain { until, .. } => {
                    while !self.deputy.has_ended(SHARD, until) {
                        assert!(
                            self.send(),
                            "something is to end and there is nothing to send"
                        );
                    }
                }
                Taken::WantsOpens { ino } => panic!("{ino} was opened by the server"),
                Taken::Wait => panic!("nothing is under way"),
                Taken::WantsGrant { dir } => self.grant(dir),
                Taken::WantsNumbers { .. } => {
                    let taken = self.server.numbers();
                    self.deputy.took_numbers(SHARD, Some(taken));
                }
            }
        }
        panic!("{request:?} comes to no end");
    }

    /// What gives way to a rename no answer tells, and so its grant is recalled, whoever has it.
    fn recall_victim(&mut self, request: &Request) {
        if let Request::Rename(op::Rename {
            new_dir, new_name, ..
        }) = request
        {
            let (dir, name) = (*new_dir, new_name.clone());
            let asked = Request::Lookup(op::Lookup { dir, name });
            if let Ok(Reply::Entry(entry)) = self.server.ask(&Credentials::ROOT, &asked) {
                let recalled = self.deputy.recall(entry.ino, at(self.now));
                assert_eq!(recalled, Recalled::Over, "nothing is queued");
            }
        }
    }

    /// A directory in the root that is granted.
    pub(crate) fn granted_dir(&mut self, of: &str) -> Ino {
        let made = self.server.ask(&Credentials::ROOT, &mkdir(Ino::ROOT, of));
        let dir = ino_of(&made.unwrap());
        self.deputy.made_elsewhere(dir, at(self.now));
        let Taken::WantsGrant { dir: wanted } = self.offer(&create(dir, "first")) else {
            panic!("a new directory is asked for");
        };
        assert_eq!(wanted, dir);
        self.grant(dir);
        dir
    }
}

pub(crate) fn ino_of(reply: &Reply) -> Ino {
    match reply {
        Reply::Entry(entry) => entry.ino,
        other => panic!("{other:?} is no entry"),
    }
}

pub(crate) fn mkdir(dir: Ino, of: &str) -> Request {
    Request::Mkdir(op::Mkdir {
        dir,
        name: name(of),
        mode: 0o755,
        umask: 0,
    })
}

pub(crate) fn create(dir: Ino, of: &str) -> Request {
    Request::Create(op::Create {
        dir,
        name: name(of),
        node: pandofs_api::NewNode::File,
        mode: 0o644,
        umask: 0,
        open: false,
    })
}

pub(crate) fn unlink(dir: Ino, of: &str) -> Request {
    let name = name(of);
    Request::Unlink(op::Unlink { dir, name })
}

pub(crate) fn lookup(dir: Ino, of: &str) -> Request {
    let name = name(of);
    Request::Lookup(op::Lookup { dir, name })
}

pub(crate) fn rename(dir: Ino, of: &str, new_dir: Ino, to: &str) -> Request {
    Request::Rename(op::Rename {
        dir,
        name: name(of),
        new_dir,
        new_name: name(to),
        new_shard: SHARD,
        no_replace: false,
        whiteout: false,
    })
}

pub(crate) fn write(ino: Ino, offset: u64, data: &[u8]) -> Request {
    Request::WriteInline(op::WriteInline {
        ino,
        offset,
        data: data.to_vec(),
    })
}
