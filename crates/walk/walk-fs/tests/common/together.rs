//! Several processes, which are threads here, with queues between them.

use pandofs_walk_fs::{Link, Processes};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Mail = VecDeque<(u32, Vec<u8>, Option<Arc<AtomicU64>>)>;

/// Queues between ranks that are threads.
pub(crate) struct Post {
    boxes: Vec<Mutex<Mail>>,
    /// Messages of each rank to all, in its order.
    sent: Vec<Mutex<Vec<Vec<u8>>>>,
    /// A rank has panicked: the others do not wait for it, so that the test fails instead of
    /// standing still.
    failed: AtomicBool,
}

impl Post {
    pub(crate) fn new(ranks: u32) -> Arc<Post> {
        Arc::new(Post {
            boxes: (0..ranks).map(|_| Mutex::default()).collect(),
            sent: (0..ranks).map(|_| Mutex::default()).collect(),
            failed: AtomicBool::new(false),
        })
    }

    /// The most bytes that one has sent to all at once.
    #[allow(dead_code, reason = "each test file uses its part")]
    pub(crate) fn most_sent(&self) -> usize {
        let ranks = self.sent.iter();
        let lengths = ranks.map(|it| it.lock().unwrap().iter().map(Vec::len).max());
        lengths.max().flatten().unwrap_or(0)
    }

    fn check(&self) {
        assert!(!self.failed.load(Ordering::Relaxed), "another rank failed");
    }
}

/// One rank's side of them.
pub(crate) struct Mailbox {
    me: u32,
    post: Arc<Post>,
    unreceived: Arc<AtomicU64>,
    /// Number of broadcasts.
    rounds: usize,
}

impl Mailbox {
    pub(crate) fn new(me: u32, post: &Arc<Post>) -> Mailbox {
        Mailbox {
            me,
            post: Arc::clone(post),
            unreceived: Arc::default(),
            rounds: 0,
        }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.post.failed.store(true, Ordering::Relaxed);
        }
    }
}

impl Link for Mailbox {
    fn rank(&self) -> u32 {
        self.me
    }
    fn ranks(&self) -> u32 {
        self.post.boxes.len() as u32
    }
    fn all_gather(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut mine = self.post.sent[self.me as usize].lock().unwrap();
        mine.push(bytes.to_vec());
        drop(mine);
        let round = self.rounds;
        self.rounds += 1;
        let said_by = |rank: &Mutex<Vec<Vec<u8>>>| loop {
            self.post.check();
            if let Some(said) = rank.lock().unwrap().get(round) {
                return said.clone();
            }
            std::thread::sleep(Duration::from_micros(100));
        };
        self.post.sent.iter().map(said_by).collect()
    }
    fn send(&mut self, to: u32, bytes: Vec<u8>) {
        let mut mail = self.post.boxes[to as usize].lock().unwrap();
        mail.push_back((self.me, bytes, None));
    }
    fn send_counted(&mut self, to: u32, bytes: Vec<u8>) {
        self.unreceived.fetch_add(1, Ordering::Relaxed);
        let mut mail = self.post.boxes[to as usize].lock().unwrap();
        mail.push_back((self.me, bytes, Some(Arc::clone(&self.unreceived))));
    }
    fn unreceived(&mut self) -> usize {
        self.unreceived.load(Ordering::Relaxed) as usize
    }
    fn is_sent(&mut self) -> bool {
        true
    }
    fn receive(&mut self) -> Option<(u32, Vec<u8>)> {
        self.post.check();
        let mut mail = self.post.boxes[self.me as usize].lock().unwrap();
        let (from, bytes, counted) = mail.pop_front()?;
        if let Some(counted) = counted {
            counted.fetch_sub(1, Ordering::Relaxed);
        }
        Some((from, bytes))
    }
}

/// Runs the same on this many ranks; what each gave.
pub(crate) fn together<R: Send>(
    ranks: u32,
    run: impl Fn(&mut Processes<'_>) -> R + Sync,
) -> (Vec<R>, Vec<u8>) {
    let post = Post::new(ranks);
    let written = Mutex::new(Vec::new());
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|me| {
                let mut link = Mailbox::new(me, &post);
                let (run, written) = (&run, &written);
                scope.spawn(move || {
                    let host = format!("host{}", me / 2);
                    let sink = |piece: &[u8]| {
                        written.lock().unwrap().extend_from_slice(piece);
                        Ok(())
                    };
                    run(&mut Processes::new(&mut link, &host, "v1", sink).unwrap())
                })
            })
            .collect();
        threads.into_iter().map(|it| it.join().unwrap()).collect()
    });
    (results, written.into_inner().unwrap())
}

/// One root.
pub(crate) fn root_of(path: &Path) -> Vec<OsString> {
    vec![path.as_os_str().to_owned()]
}
