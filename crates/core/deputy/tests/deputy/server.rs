//! Server of one shard, or of several, for these tests: requests and batches executed at once on a store in memory.

use pandofs_api::op::Batch;
use pandofs_api::{BatchReply, GrantTerms, Granted, Refusal, Reply, Request, op};
use pandofs_deputy::{Deputy, Lost, Offer, Opened, Recalled, Taken, ToSend};
use pandofs_namespace::ops::{self, Mutation, here};
use pandofs_namespace::records::decode;
use pandofs_namespace::{Choices, Context, Locks, Meta, Stop, Txn, View, keys};
use pandofs_placement::{ClusterMap, DirPolicy, FilePolicy, ServerInfo, Settings};
use pandofs_session::Boottime;
use pandofs_shard::{Shard, ShardConfig};
use pandofs_storage::store::{KvRead, MemoryStore, Overlay, Store};
use pandofs_types::{Credentials, FsId, HashKey, Ino, Name, ServerId, SessionId, ShardId, Time};
use serde_bytes::ByteBuf;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const SESSION: SessionId = SessionId(9);
pub(crate) const SHARD: ShardId = ShardId(0);
pub(crate) const SERVER: ServerId = ServerId(0);
pub(crate) const INCARNATION: u64 = 77;

pub(crate) fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

pub(crate) fn at(millis: u64) -> Boottime {
    Boottime::after_start(Duration::from_secs(1_000) + Duration::from_millis(millis))
}

pub(crate) struct Server {
    pub map: Arc<ClusterMap>,
    pub store: MemoryStore,
    metas: BTreeMap<ShardId, Meta>,
    pub time: i64,
}

impl Server {
    pub(crate) fn new(shards: u16, policy: DirPolicy) -> Server {
        let server = ServerInfo {
            id: SERVER,
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
            shards,
            vec![server],
            policy,
            settings,
        );
        let map = Arc::new(map.unwrap());
        let store = MemoryStore::new();
        let mut metas = BTreeMap::new();
        for shard in (0..shards).map(ShardId) {
            let config = ShardConfig {
                shard,
                map: Arc::clone(&map),
                sync_every_batch: false,
                grace: Duration::ZERO,
            };
            let mut overlay = Overlay::new(&store);
            Shard::create(&config, &mut overlay, Time(1), &Credentials::ROOT).unwrap();
            let batch = overlay.take_batch();
            store.write(&batch).unwrap();
            let meta = store.get(&keys::meta(shard)).unwrap().unwrap();
            metas.insert(shard, decode("meta", &meta).unwrap());
        }
        Server {
            map,
            store,
            metas,
            time: 1_000,
        }
    }

    /// Executes one request as shards do that have it alone, which is sent to this one.
    pub(crate) fn execute(
        &mut self,
        shard: ShardId,
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
            shard,
            map: &self.map,
            cached_only: false,
        };
        let done = if request.is_mutation() {
            let mut others: Vec<ShardId> = self.metas.keys().copied().collect();
            others.sort_by_key(|other| *other != shard);
            let mut overlays: Vec<_> = others.iter().map(|_| Overlay::new(&self.store)).collect();
            let mut metas: Vec<Meta> = others.iter().map(|at| self.metas[at].clone()).collect();
            let mut effects: Vec<_> = others.iter().map(|_| Vec::new()).collect();
            let states = overlays.iter_mut().zip(metas.iter_mut().zip(&mut effects));
            let mut txns: Vec<Txn<'_, '_>> = others
                .iter()
                .zip(states)
                .map(|(&shard, (overlay, (meta, effects)))| Txn {
                    overlay,
                    shard,
                    map: &self.map,
                    meta,
                    effects,
                })
                .collect();
            let done =
                ops::mutate(&mut txns[0], &cx, request).and_then(|mutation| match mutation {
                    Mutation::Done(reply) => Ok(reply),
                    Mutation::Plan(plan) => {
                        let reply = here::perform(&mut txns, &locks, plan, choices)?;
                        Ok(reply.expect("all shards are here"))
                    }
                });
            drop(txns);
            if done.is_ok() {
                for mut overlay in overlays {
                    let batch = overlay.take_batch();
                    self.store.write(&batch).unwrap();
                }
                self.metas = others.into_iter().zip(metas).collect();
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
            random: self.time as u64,
            ..Choices::default()
        };
        self.execute(shard_of(request), caller, request, &choices)
    }

    pub(crate) fn batch(&mut self, shard: ShardId, batch: Batch) -> BatchReply {
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
            if let Err(refusal) = self.execute(shard, caller, &early.operation.into(), &choices) {
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

    /// Grants without a directory.
    pub(crate) fn begun(&self) -> Granted {
        Granted {
            incarnation: INCARNATION,
            terms: self.terms(),
            pairs: Vec::new(),
        }
    }

    /// A grant of the directory.
    pub(crate) fn grant(&self, dir: Ino) -> Granted {
        let mut pairs = Vec::new();
        let shard = dir.birth_shard();
        let mut entry = keys::inode(shard, dir);
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
            self.scan(keys::inode(shard, ino), &mut pairs);
            self.scan(keys::parts(shard, ino), &mut pairs);
            self.scan(keys::xattrs(shard, ino), &mut pairs);
        }
        Granted {
            incarnation: INCARNATION,
            terms: self.terms(),
            pairs,
        }
    }

    pub(crate) fn numbers(&mut self, shard: ShardId, unordered: bool) -> (Ino, u32, u32) {
        let (count, unordered) = if unordered { (0, 3) } else { (100, 0) };
        let request = Request::TakeNumbers(op::TakeNumbers { count, unordered });
        let choices = Choices::default();
        let taken = self.execute(shard, &Credentials::ROOT, &request, &choices);
        let Ok(Reply::Numbers {
            first,
            count,
            unordered,
        }) = taken
        else {
            panic!("{taken:?}");
        };
        (first, count, unordered)
    }
}

/// The shard that has what the request is about; nothing splits here.
fn shard_of(request: &Request) -> ShardId {
    let operation = request.operation();
    let ino = operation.dir().or(operation.inode());
    ino.or(operation.dirs()[0])
        .map_or(SHARD, |ino| ino.birth_shard())
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
    /// Operations that were sent by themselves.
    pub alone: u64,
}

impl Session {
    pub(crate) fn new() -> Session {
        Session::over(1, DirPolicy::Subtree)
    }

    pub(crate) fn over(shards: u16, policy: DirPolicy) -> Session {
        let server = Server::new(shards, policy);
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
            alone: 0,
        }
    }

    /// The deputy's decision on a request.
    pub(crate) fn offer(&mut self, request: &Request) -> Taken {
        self.now += 1;
        self.random += 1;
        let open = &self.open;
        self.deputy.offer(Offer {
            caller: &Credentials::ROOT,
            request,
            now: at(self.now),
            clock: Time(self.server.time),
            random: self.random,
            opened: &|ino| match open.contains(&ino) {
                true => Opened::Told,
                false => Opened::No,
            },
        })
    }

    /// Operations that were ever put into the queue of a shard.
    pub(crate) fn begun(&self, shard: ShardId) -> u64 {
        let all = self.deputy.all_queued().into_iter();
        let mut of_shard = all.filter(|(of, _)| *of == shard);
        of_shard.next().map_or(0, |(_, begun)| begun)
    }

    /// The first shard's next batch.
    pub(crate) fn next_batch(&mut self) -> Batch {
        match self.deputy.next_to_send(SHARD) {
            Some(ToSend::Batch(batch)) => batch,
            other => panic!("{other:?} is no batch"),
        }
    }

    /// Sends one request of the n-th shard that has something to send, if there is one.
    pub(crate) fn send_nth(&mut self, n: usize) -> bool {
        let ready = self.deputy.to_send();
        if ready.is_empty() {
            return false;
        }
        let shard = ready[n % ready.len()];
        let sent = at(self.now);
        let lost = match self.deputy.next_to_send(shard).expect("it is ready") {
            ToSend::Batch(batch) => {
                let reply = self.server.batch(shard, batch);
                self.deputy.batch_answered(shard, sent, Some(reply), sent)
            }
            ToSend::Alone { caller, request } => {
                self.alone += 1;
                assert_eq!(shard_of(&request), shard, "it is sent to its queue's shard");
                let choices = Choices::default();
                let done = self.server.execute(shard, &caller, &request, &choices);
                self.deputy.alone_answered(shard, Some(done.map(drop)))
            }
        };
        self.lost.extend(lost);
        true
    }

    /// Sends one request, if there is something to send.
    pub(crate) fn send(&mut self) -> bool {
        self.send_nth(0)
    }

    pub(crate) fn drain(&mut self) {
        while self.send() {}
    }

    /// The conversation in which these grants are recalled is lost, and another one begins.
    pub(crate) fn lose(&mut self, shard: ShardId) {
        self.deputy.lost(SERVER, [shard]);
        self.deputy.hears(SERVER);
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
                Taken::Drain { shard, until } => {
                    while !self.deputy.has_ended(shard, until) {
                        assert!(
                            self.send(),
                            "something is to end and there is nothing to send"
                        );
                    }
                }
                Taken::WantsOpens { ino } => panic!("{ino} was opened by the server"),
                Taken::Wait => panic!("nothing is under way"),
                Taken::WantsGrant { dir } => self.grant(dir),
                Taken::WantsBeginning { shard } => {
                    let begun = self.server.begun();
                    self.deputy
                        .begun(shard, at(self.now), Some(begun), at(self.now));
                }
                Taken::WantsNumbers { shard, unordered } => {
                    let taken = self.server.numbers(shard, unordered);
                    self.deputy.took_numbers(shard, Some(taken));
                }
            }
        }
        panic!("{request:?} comes to no end");
    }

    /// No answer tells which directory gave way to a rename, so its grant is recalled, whoever has it.
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

pub(crate) fn rmdir(dir: Ino, of: &str) -> Request {
    let name = name(of);
    Request::Rmdir(op::Rmdir { dir, name })
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
        new_shard: new_dir.birth_shard(),
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
