//! Threads with turns at what the tests ask them for.

use super::*;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{JoinHandle, ThreadId};
use std::time::Duration;

/// So long that a test that waits for it has failed.
const PATIENCE: Duration = Duration::from_secs(60);

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::yield_now();
    }
}

/// Something for a thread to do with a request, which it is.
enum Asked {
    /// It is answered at once.
    Nothing,
    /// It says that it waits, and does until it hears of this.
    Wait(Receiver<()>),
    /// It does not say so.
    BeHeldUp(Receiver<()>),
    /// The thread ends of it.
    Panic,
}

/// Threads that take what the test asks.
struct Loop {
    readers: Arc<Readers>,
    ask: Sender<Asked>,
    asked: Arc<Mutex<Receiver<Asked>>>,
    handled_by: Arc<Mutex<Vec<ThreadId>>>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Loop {
    fn of(threads: usize, processors: usize) -> Loop {
        let (ask, asked) = channel();
        let mut begun = Loop {
            readers: Arc::new(Readers::new(threads, processors)),
            ask,
            asked: Arc::new(Mutex::new(asked)),
            handled_by: Arc::default(),
            threads: Vec::new(),
            stop: Arc::default(),
        };
        for _ in 0..threads {
            begun.start(false);
        }
        begun.until_idle(1);
        begun
    }

    /// Starts a thread as the session's, but that a request is taken with a lock and what reads is a channel.
    fn start(&mut self, is_spare: bool) {
        let (readers, asked) = (Arc::clone(&self.readers), Arc::clone(&self.asked));
        let (handled_by, stop) = (Arc::clone(&self.handled_by), Arc::clone(&self.stop));
        self.threads.push(thread::spawn(move || {
            let (own, _) = UnixDatagram::pair().unwrap();
            let device = Arc::new(Device::new(OwnedFd::from(own)));
            let mut reader = readers.join(device, is_spare);
            while reader.take_turn(|| is_spare && stop.load(SeqCst)) {
                let next = reader.read(|| Ok(asked.lock().unwrap().recv().ok()));
                let Some(next) = next.unwrap() else {
                    readers.end();
                    return;
                };
                reader.is_asked_by(1);
                handled_by.lock().unwrap().push(thread::current().id());
                match next {
                    Asked::Nothing => {}
                    Asked::Wait(end) => {
                        readers.give_away(&reader.seat);
                        end.recv_timeout(PATIENCE).unwrap();
                    }
                    Asked::BeHeldUp(end) => end.recv_timeout(PATIENCE).unwrap(),
                    Asked::Panic => panic!("as the test asked"),
                }
                reader.handled();
            }
        }));
        let all = self.threads.len();
        until("it is there", || self.readers.line().all.len() == all);
    }

    fn count(&self, state: u8) -> usize {
        let line = self.readers.line();
        let of_state = line
            .all
            .iter()
            .filter(|seat| seat.state.load(SeqCst) == state);
        of_state.count()
    }

    /// So many threads read, and all others are in line.
    fn until_idle(&self, reading: usize) {
        until("so many read", || {
            let all = self.readers.line().all.len();
            self.count(READS) == reading && self.count(IN_LINE) == all - reading
        });
        assert_eq!(self.readers.turns.load(SeqCst), reading);
    }

    fn ask(&self, asked: Asked) {
        self.ask.send(asked).unwrap();
    }

    /// Asks for so much, one after the other.
    fn ask_in_turn(&self, count: usize) {
        for _ in 0..count {
            let before = self.handled();
            self.ask(Asked::Nothing);
            until("it is handled", || {
                self.handled() > before && self.count(HANDLES) == 0
            });
        }
    }

    fn handled(&self) -> usize {
        self.handled_by.lock().unwrap().len()
    }

    fn wait(&self) -> Sender<()> {
        let (end, ended) = channel();
        self.ask(Asked::Wait(ended));
        end
    }

    fn end(self) {
        drop(self.ask);
        for thread in self.threads {
            thread.join().unwrap();
        }
    }
}

#[test]
fn one_thread_handles_what_comes_in_turn() {
    let threads = Loop::of(8, 1);
    threads.ask_in_turn(100);
    let by = threads.handled_by.lock().unwrap().clone();
    assert!(by.iter().all(|thread| *thread == by[0]));
    threads.until_idle(1);
    threads.end();
}

#[test]
fn the_last_turn_is_given_away_to_who_rested_last() {
    let threads = Loop::of(8, 1);
    let next = threads.readers.line().waiting.last().cloned().unwrap();
    let end = threads.wait();
    until("the next one reads", || next.state.load(SeqCst) == READS);
    threads.ask_in_turn(1);
    let by = threads.handled_by.lock().unwrap().clone();
    assert_eq!(by[1], next.thread.id());
    // The one that has waited is the next to be called.
    end.send(()).unwrap();
    threads.until_idle(1);
    let last = threads.readers.line().waiting.last().cloned();
    assert_eq!(last.map(|seat| seat.thread.id()), Some(by[0]));
    threads.end();
}

#[test]
fn more_threads_read_while_each_request_waits() {
    let threads = Loop::of(8, 1);
    let wait_in_turn = |times| {
        for _ in 0..times {
            let (before, end) = (threads.handled(), threads.wait());
            until("it waits and another one reads", || {
                threads.handled() > before && threads.count(READS) > 0
            });
            end.send(()).unwrap();
            until("it is done", || threads.count(WITHOUT_TURN) == 0);
        }
    };
    wait_in_turn(WAITS_IN_A_ROW - 1);
    threads.until_idle(1);
    threads.ask_in_turn(1);
    wait_in_turn(WAITS_IN_A_ROW - 1);
    threads.until_idle(1);
    wait_in_turn(1);
    threads.until_idle(2);
    // One reads while the other waits.
    wait_in_turn(2 * WAITS_IN_A_ROW);
    threads.until_idle(2);
    threads.end();
}

#[test]
fn there_are_fewer_turns_again_when_nothing_waits() {
    let threads = Loop::of(8, 1);
    let waiting = WAITS_IN_A_ROW as usize + 2;
    let ends: Vec<_> = (0..waiting).map(|_| threads.wait()).collect();
    until("a further one reads", || {
        threads.count(WITHOUT_TURN) == waiting && threads.count(READS) == 1
    });
    ends.iter().for_each(|end| end.send(()).unwrap());
    threads.until_idle(4);
    let mut asked = 0;
    while threads.count(READS) > 1 {
        assert!(asked < 100 * CALM_REQUESTS, "there are too many still");
        // No read finds anything at once.
        thread::sleep(QUEUED_READ);
        threads.ask_in_turn(1);
        asked += 1;
    }
    assert!(asked >= CALM_REQUESTS);
    threads.until_idle(1);
    threads.end();
}

#[test]
fn all_threads_may_wait() {
    let threads = Loop::of(3, 1);
    let ends: Vec<_> = (0..4).map(|_| threads.wait()).collect();
    until("all wait", || threads.count(WITHOUT_TURN) == 3);
    assert_eq!(threads.handled(), 3, "there is no thread for the fourth");
    for end in &ends {
        end.send(()).unwrap();
    }
    until("the fourth is handled", || threads.handled() == 4);
    until("they are done", || threads.count(WITHOUT_TURN) == 0);
    threads.ask_in_turn(1);
    threads.end();
}

#[test]
fn more_threads_help_while_requests_of_several_programs_are_there_at_once() {
    let reader_alone = |readers: &Readers, times: u32, programs: u32| {
        let mut reader = Reader {
            readers,
            seat: Arc::clone(&readers.line().all[0]),
            queued: 0,
            was_there: true,
            asked_by: 0,
            calm: 0,
        };
        for number in 0..times {
            reader.is_asked_by(1 + number % programs);
            // A request that no program waits for says nothing.
            reader.is_asked_by(0);
        }
        // It is no thread of theirs.
        std::mem::forget(reader);
    };
    let threads = Loop::of(8, 3);
    reader_alone(&threads.readers, QUEUED_READS - 1, 2);
    threads.until_idle(1);
    // One program alone is served no sooner.
    reader_alone(&threads.readers, 10 * QUEUED_READS, 1);
    threads.until_idle(1);
    reader_alone(&threads.readers, QUEUED_READS, 2);
    threads.until_idle(2);
    // No more than processors.
    reader_alone(&threads.readers, 10 * QUEUED_READS, 3);
    threads.until_idle(3);
    threads.end();
}

#[test]
fn the_watch_gives_away_turns_of_who_is_held_up() {
    let threads = Loop::of(3, 1);
    let watch = thread::spawn({
        let readers = Arc::clone(&threads.readers);
        move || readers.watch()
    });
    let mut ends = Vec::new();
    for round in 1..=2 {
        // It sleeps, and is woken by the request.
        until("the watch sleeps", || {
            threads.readers.is_watch_asleep.load(SeqCst)
        });
        let (end, ended) = channel();
        ends.push(end);
        threads.ask(Asked::BeHeldUp(ended));
        until("others read", || {
            threads.count(WITHOUT_TURN) == round && threads.count(READS) == 1
        });
    }
    threads.ask_in_turn(1);
    ends.iter().for_each(|end| end.send(()).unwrap());
    threads.until_idle(1);
    threads.end();
    watch.join().unwrap();
}

#[test]
fn a_thread_that_ends_leaves_its_turn() {
    let threads = Loop::of(3, 1);
    threads.ask(Asked::Panic);
    until("it is gone", || threads.readers.line().all.len() == 2);
    threads.until_idle(1);
    threads.ask_in_turn(1);
    let Loop {
        ask,
        threads: handles,
        ..
    } = threads;
    drop(ask);
    let ended = handles.into_iter().filter_map(|thread| thread.join().err());
    assert_eq!(ended.count(), 1);
}

#[test]
fn a_spare_thread_in_line_ends_when_it_is_called_to_look() {
    let mut threads = Loop::of(2, 1);
    threads.start(true);
    threads.until_idle(1);
    threads.readers.let_spare_look();
    threads.until_idle(1);
    assert_eq!(threads.readers.line().all.len(), 3, "it need not end");
    threads.stop.store(true, SeqCst);
    threads.readers.let_spare_look();
    until("it ends", || threads.readers.line().all.len() == 2);
    threads.until_idle(1);
    threads.end();
}
