//! `flock`, record locks of processes (`fcntl`), and those of open file descriptions.

use crate::case::{Case, Outcome, same};
use crate::files::{create, dir, file, file_with};
use crate::process::{Peer, in_child, wait_until};
use crate::sys::*;

const NOW_OR_NOT: [E; 2] = [E::AGAIN, E::ACCESS];
/// The same numbers in the standard's order for `F_GETLK`.
const FREE: Option<(Record, i32)> = None;

/// A process that holds a lock until it gets a message.
fn holder(take: impl FnOnce() -> Outcome<OwnedFd>) -> Outcome<Peer> {
    let peer = Peer::start(|line| {
        let _held = take()?;
        line.tell()?;
        line.hear()
    })?;
    peer.hear()?;
    Ok(peer)
}

/// A process that waits for a lock, tells that it has it, and ends.
fn waiter(number: libc::c_long, take: impl FnOnce(&OwnedFd) -> Outcome) -> Outcome<Peer> {
    let peer = Peer::start(|line| {
        let fd = open("a", O::RDWR, 0).ok()?;
        take(&fd)?;
        line.tell()
    })?;
    peer.is_held_in(number)?;
    Ok(peer)
}

fn taken(waiter: Peer) -> Outcome {
    waiter.hear()?;
    waiter.join()
}

fn rw() -> Outcome<OwnedFd> {
    open("a", O::RDWR, 0).ok()
}

pub(super) const CASES: &[Case] = &[
    Case::new(
        "flock.shared_and_exclusive",
        "flock(2): LOCK_SH, LOCK_EX, [EWOULDBLOCK]",
        |_| {
            file("a")?;
            let (one, two, three) = (rw()?, rw()?, rw()?);
            flock(&one, Flock::NonBlockingLockShared).ok()?;
            flock(&two, Flock::NonBlockingLockShared).ok()?;
            flock(&three, Flock::NonBlockingLockExclusive).fails(E::AGAIN)?;
            flock(&one, Flock::Unlock).ok()?;
            flock(&three, Flock::NonBlockingLockExclusive).fails(E::AGAIN)?;
            flock(&two, Flock::NonBlockingUnlock).ok()?;
            flock(&three, Flock::NonBlockingLockExclusive).ok()?;
            flock(&one, Flock::NonBlockingLockShared).fails(E::AGAIN)?;
            in_child(|| {
                flock(&rw()?, Flock::NonBlockingLockShared).fails(E::AGAIN)?;
                // An inherited descriptor is of the same open file: the lock is its own.
                flock(&three, Flock::NonBlockingLockExclusive).ok()
            })
        },
    ),
    Case::new(
        "flock.any_descriptor_will_do",
        "flock(2): LOCK_EX however it is opened",
        |_| {
            file("a")?;
            dir("d")?;
            let reader = open("a", O::RDONLY, 0).ok()?;
            flock(&reader, Flock::NonBlockingLockExclusive).ok()?;
            flock(&rw()?, Flock::NonBlockingLockShared).fails(E::AGAIN)?;
            let (one, two) = (opendir("d").ok()?, opendir("d").ok()?);
            flock(&one, Flock::NonBlockingLockExclusive).ok()?;
            flock(&two, Flock::NonBlockingLockExclusive).fails(E::AGAIN)
        },
    ),
    Case::new(
        "flock.is_of_the_open_file",
        "flock(2): duplicates, close",
        |_| {
            file("a")?;
            let (one, two) = (rw()?, rw()?);
            flock(&one, Flock::NonBlockingLockExclusive).ok()?;
            let copy = dup(&one).ok()?;
            drop(one);
            flock(&two, Flock::NonBlockingLockExclusive).fails(E::AGAIN)?;
            // Closing another open file of the same inode lets nothing go.
            drop(rw()?);
            flock(&two, Flock::NonBlockingLockExclusive).fails(E::AGAIN)?;
            drop(copy);
            flock(&two, Flock::NonBlockingLockExclusive).ok()?;
            let copy = dup(&two).ok()?;
            flock(&copy, Flock::Unlock).ok()?;
            flock(&rw()?, Flock::NonBlockingLockExclusive).ok()
        },
    ),
    Case::new(
        "flock.changes_its_kind",
        "flock(2): converting a lock",
        |_| {
            file("a")?;
            let (one, two) = (rw()?, rw()?);
            flock(&one, Flock::NonBlockingLockExclusive).ok()?;
            flock(&one, Flock::NonBlockingLockShared).ok()?;
            flock(&two, Flock::NonBlockingLockShared).ok()?;
            flock(&one, Flock::NonBlockingLockExclusive).fails(E::AGAIN)?;
            flock(&two, Flock::Unlock).ok()?;
            flock(&one, Flock::NonBlockingLockExclusive).ok()
        },
    ),
    Case::new(
        "flock.waits_and_wakes_up",
        "flock(2): blocks until it is unlocked",
        |_| {
            file("a")?;
            let fd = rw()?;
            flock(&fd, Flock::LockExclusive).ok()?;
            let waits = waiter(libc::SYS_flock, |fd| flock(fd, Flock::LockExclusive).ok())?;
            flock(&fd, Flock::Unlock).ok()?;
            taken(waits)?;
            // By a close, of a process that the waiting one did not inherit the descriptor from.
            drop(fd);
            let holds = holder(|| {
                let fd = rw()?;
                flock(&fd, Flock::LockExclusive).ok()?;
                Ok(fd)
            })?;
            let waits = waiter(libc::SYS_flock, |fd| flock(fd, Flock::LockShared).ok())?;
            holds.tell()?;
            holds.join()?;
            taken(waits)
        },
    ),
    Case::new(
        "flock.goes_with_its_process",
        "flock(2): all descriptors closed",
        |_| {
            file("a")?;
            let holds = holder(|| {
                let fd = rw()?;
                flock(&fd, Flock::LockExclusive).ok()?;
                Ok(fd)
            })?;
            let waits = waiter(libc::SYS_flock, |fd| flock(fd, Flock::LockExclusive).ok())?;
            holds.kill()?;
            taken(waits)
        },
    ),
    Case::new("flock.outlives_its_name", "flock(2); unlink()", |_| {
        file("a")?;
        let (one, two) = (rw()?, rw()?);
        flock(&one, Flock::LockExclusive).ok()?;
        rename("a", "b").ok()?;
        flock(
            &open("b", O::RDWR, 0).ok()?,
            Flock::NonBlockingLockExclusive,
        )
        .fails(E::AGAIN)?;
        unlink("b").ok()?;
        flock(&two, Flock::NonBlockingLockExclusive).fails(E::AGAIN)?;
        file("b")?;
        flock(
            &open("b", O::RDWR, 0).ok()?,
            Flock::NonBlockingLockExclusive,
        )
        .ok()
    }),
    Case::new(
        "fcntl_lock.ranges",
        "fcntl(): F_SETLK, [EAGAIN] or [EACCES]",
        |_| {
            file_with("a", &[1; 100])?;
            let fd = rw()?;
            lock(&fd, Record::write(10, 10)).ok()?;
            lock(&fd, Record::read(50, 10)).ok()?;
            in_child(|| {
                let fd = rw()?;
                for record in [
                    Record::write(10, 10),
                    Record::read(19, 1),
                    Record::write(0, 11),
                    Record::write(0, 0),
                    Record::write(59, 1),
                ] {
                    lock(&fd, record).fails_with_one_of(&NOW_OR_NOT)?;
                }
                for record in [
                    Record::read(55, 100),
                    Record::write(0, 10),
                    Record::write(20, 30),
                    Record::write(60, 0),
                ] {
                    lock(&fd, record).ok()?;
                }
                Ok(())
            })
        },
    ),
    Case::new("fcntl_lock.who_is_in_the_way", "fcntl(): F_GETLK", |_| {
        file_with("a", &[1; 100])?;
        let fd = rw()?;
        lock(&fd, Record::write(10, 10)).ok()?;
        lock(&fd, Record::read(50, 0)).ok()?;
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        lock_in_the_way(&fd, Record::write(0, 0)).gives(FREE)?;
        in_child(|| {
            let fd = rw()?;
            lock_in_the_way(&fd, Record::read(0, 100)).gives(Some((Record::write(10, 10), pid)))?;
            lock_in_the_way(&fd, Record::write(20, 100)).gives(Some((Record::read(50, 0), pid)))?;
            lock_in_the_way(&fd, Record::read(20, 100)).gives(FREE)?;
            lock_in_the_way(&fd, Record::write(0, 10)).gives(FREE)
        })
    }),
    Case::new(
        "fcntl_lock.one_process_is_never_in_its_own_way",
        "fcntl(): F_SETLK, replaced and split",
        |_| {
            file_with("a", &[1; 100])?;
            let (fd, other) = (rw()?, rw()?);
            lock(&fd, Record::write(0, 100)).ok()?;
            lock(&other, Record::read(0, 100)).ok()?;
            lock(&other, Record::write(40, 20)).ok()?;
            lock(&fd, Record::unlock(45, 10)).ok()?;
            in_child(|| {
                let fd = rw()?;
                let way = |record| {
                    lock_in_the_way(&fd, record)
                        .ok()
                        .map(|it| it.map(|it| it.0))
                };
                same(
                    "in the way of [0, 1)",
                    way(Record::write(0, 1))?,
                    Some(Record::read(0, 40)),
                )?;
                same(
                    "in the way of [40, 41)",
                    way(Record::write(40, 1))?,
                    Some(Record::write(40, 5)),
                )?;
                same("in the way of [45, 55)", way(Record::write(45, 10))?, None)?;
                same(
                    "in the way of [55, 56)",
                    way(Record::read(55, 1))?,
                    Some(Record::write(55, 5)),
                )?;
                same(
                    "in the way of [60, end)",
                    way(Record::write(60, 0))?,
                    Some(Record::read(60, 40)),
                )
            })
        },
    ),
    Case::new(
        "fcntl_lock.from_elsewhere",
        "fcntl(): l_whence, l_len",
        |_| {
            let fd = create("a")?;
            write(&fd, &[1; 100]).gives(100)?;
            lseek(&fd, SeekFrom::Start(30)).gives(30)?;
            lock_from(&fd, Record::write(5, 5), libc::SEEK_CUR).ok()?;
            lock_from(&fd, Record::write(-10, 5), libc::SEEK_END).ok()?;
            // A negative length is of what lies before.
            lock(&fd, Record::write(60, -10)).ok()?;
            in_child(|| {
                let fd = rw()?;
                let way = |at| {
                    lock_in_the_way(&fd, Record::write(at, 1))
                        .ok()
                        .map(|it| it.map(|it| it.0))
                };
                same("in the way at 37", way(37)?, Some(Record::write(35, 5)))?;
                same("in the way at 92", way(92)?, Some(Record::write(90, 5)))?;
                same("in the way at 52", way(52)?, Some(Record::write(50, 10)))?;
                same("in the way at 60", way(60)?, None)
            })?;
            lock(&fd, Record::write(5, -10)).fails(E::INVAL)?;
            lock_from(&fd, Record::write(-200, 5), libc::SEEK_END).fails(E::INVAL)?;
            lock(&fd, Record::write(i64::MAX, 10)).fails_with_one_of(&[E::OVERFLOW, E::INVAL])?;
            lock(&fd, Record::write(1 << 40, 10)).ok()
        },
    ),
    Case::new("fcntl_lock.access_mode", "fcntl(): [EBADF]", |_| {
        file("a")?;
        let reader = open("a", O::RDONLY, 0).ok()?;
        let writer = open("a", O::WRONLY, 0).ok()?;
        lock(&reader, Record::write(0, 0)).fails(E::BADF)?;
        lock(&writer, Record::read(0, 0)).fails(E::BADF)?;
        lock(&reader, Record::read(0, 0)).ok()?;
        lock(&writer, Record::write(0, 0)).ok()
    }),
    Case::new(
        "fcntl_lock.goes_when_any_descriptor_is_closed",
        "fcntl(): close releases the process's locks",
        |_| {
            file("a")?;
            let fd = rw()?;
            lock(&fd, Record::write(0, 0)).ok()?;
            in_child(|| lock(&rw()?, Record::write(0, 0)).fails_with_one_of(&NOW_OR_NOT))?;
            drop(open("a", O::RDONLY, 0).ok()?);
            in_child(|| lock(&rw()?, Record::write(0, 0)).ok())
        },
    ),
    Case::new(
        "fcntl_lock.is_not_inherited",
        "fork(): locks; fcntl()",
        |_| {
            file("a")?;
            let fd = rw()?;
            lock(&fd, Record::write(0, 10)).ok()?;
            in_child(|| {
                lock(&fd, Record::write(0, 10)).fails_with_one_of(&NOW_OR_NOT)?;
                lock(&fd, Record::unlock(0, 0)).ok()?;
                lock(&fd, Record::write(20, 10)).ok()
            })?;
            // The child took nothing away, and its own lock went with it.
            in_child(|| lock(&rw()?, Record::write(0, 10)).fails_with_one_of(&NOW_OR_NOT))?;
            lock_in_the_way(&fd, Record::write(20, 10)).gives(FREE)
        },
    ),
    Case::new("fcntl_lock.waits_and_wakes_up", "fcntl(): F_SETLKW", |_| {
        file("a")?;
        let fd = rw()?;
        lock(&fd, Record::write(0, 10)).ok()?;
        let waits = waiter(libc::SYS_fcntl, |fd| {
            lock_waiting(fd, Record::write(5, 10)).ok()
        })?;
        lock(&fd, Record::unlock(0, 5)).ok()?;
        waits.is_held_in(libc::SYS_fcntl)?;
        lock(&fd, Record::unlock(5, 5)).ok()?;
        taken(waits)?;
        lock(&fd, Record::write(0, 10)).ok()?;
        let waits = waiter(libc::SYS_fcntl, |fd| {
            lock_waiting(fd, Record::read(5, 10)).ok()
        })?;
        drop(fd);
        taken(waits)
    }),
    Case::new(
        "fcntl_lock.goes_with_its_process",
        "fcntl(): process termination",
        |_| {
            file("a")?;
            let holds = holder(|| {
                let fd = rw()?;
                lock(&fd, Record::write(0, 0)).ok()?;
                Ok(fd)
            })?;
            let waits = waiter(libc::SYS_fcntl, |fd| {
                lock_waiting(fd, Record::write(0, 0)).ok()
            })?;
            holds.kill()?;
            taken(waits)
        },
    ),
    Case::new(
        "fcntl_lock.a_waiter_that_is_killed_takes_nothing",
        "fcntl(): F_SETLKW",
        |_| {
            file("a")?;
            let fd = rw()?;
            lock(&fd, Record::write(0, 0)).ok()?;
            let waits = waiter(libc::SYS_fcntl, |fd| {
                lock_waiting(fd, Record::write(0, 0)).ok()
            })?;
            waits.kill()?;
            lock(&fd, Record::unlock(0, 0)).ok()?;
            in_child(|| {
                let fd = rw()?;
                wait_until("the killed process's lock to be free", || {
                    lock(&fd, Record::write(0, 0)).result().is_ok()
                })
            })
        },
    ),
    Case::new(
        "fcntl_lock.a_signal_interrupts",
        "fcntl(): F_SETLKW, [EINTR]",
        |_| {
            file("a")?;
            let fd = rw()?;
            lock(&fd, Record::write(0, 0)).ok()?;
            let waits = waiter(libc::SYS_fcntl, |fd| {
                heed(libc::SIGUSR1);
                lock_waiting(fd, Record::write(0, 0)).fails(E::INTR)
            })?;
            // SAFETY: takes numbers only; the process is a child that has not been waited for.
            let sent = unsafe { libc::kill(waits.pid(), libc::SIGUSR1) };
            same("kill()", sent, 0)?;
            taken(waits)
        },
    ),
    Case::new("fcntl_lock.deadlock", "fcntl(): [EDEADLK]", |_| {
        file("a")?;
        let fd = rw()?;
        lock(&fd, Record::write(0, 1)).ok()?;
        let other = Peer::start(|line| {
            let fd = rw()?;
            lock(&fd, Record::write(1, 1)).ok()?;
            line.tell()?;
            if lock_waiting(&fd, Record::write(0, 1)).may_fail(E::DEADLK)? {
                line.tell()?;
            }
            Ok(())
        })?;
        other.hear()?;
        other.is_held_in(libc::SYS_fcntl)?;
        // It has called first. Where locks are far away it need not have come there first.
        if lock_waiting(&fd, Record::write(1, 1)).may_fail(E::DEADLK)? {
            lock(&fd, Record::unlock(0, 0)).ok()?;
        } else {
            other.hear()?;
        }
        other.join()
    }),
    Case::new(
        "fcntl_lock.and_flock_do_not_meet",
        "flock(2): no interaction with fcntl() locks",
        |_| {
            file("a")?;
            let (one, two) = (rw()?, rw()?);
            flock(&one, Flock::LockExclusive).ok()?;
            in_child(|| lock(&rw()?, Record::write(0, 0)).ok())?;
            lock(&two, Record::write(0, 0)).ok()
        },
    ),
    Case::new(
        "ofd_lock.is_of_the_open_file",
        "fcntl(2): F_OFD_SETLK",
        |_| {
            file("a")?;
            let (one, two) = (rw()?, rw()?);
            ofd_lock(&one, Record::write(0, 10)).ok()?;
            ofd_lock(&two, Record::write(5, 1)).fails(E::AGAIN)?;
            ofd_lock(&two, Record::write(10, 10)).ok()?;
            // The same open file, in another process as well.
            in_child(|| ofd_lock(&one, Record::read(0, 10)).ok())?;
            ofd_lock(&two, Record::read(5, 1)).ok()?;
            ofd_lock(&two, Record::write(5, 1)).fails(E::AGAIN)
        },
    ),
    Case::new(
        "ofd_lock.goes_with_the_last_descriptor",
        "fcntl(2): Open file description locks",
        |_| {
            file("a")?;
            let (one, two) = (rw()?, rw()?);
            ofd_lock(&one, Record::write(0, 0)).ok()?;
            let copy = dup(&one).ok()?;
            // Closing any other descriptor of the file, or one of two copies, lets nothing go.
            drop(rw()?);
            drop(one);
            ofd_lock(&two, Record::write(0, 0)).fails(E::AGAIN)?;
            drop(copy);
            ofd_lock(&two, Record::write(0, 0)).ok()
        },
    ),
    Case::new(
        "ofd_lock.who_is_in_the_way",
        "fcntl(2): F_OFD_GETLK, l_pid -1",
        |_| {
            file("a")?;
            let (one, two) = (rw()?, rw()?);
            ofd_lock(&one, Record::write(3, 4)).ok()?;
            ofd_lock_in_the_way(&two, Record::read(0, 0)).gives(Some((Record::write(3, 4), -1)))?;
            ofd_lock_in_the_way(&one, Record::read(0, 0)).gives(FREE)?;
            // Of both kinds each is in the other's way.
            lock(&two, Record::write(3, 1)).fails_with_one_of(&NOW_OR_NOT)?;
            lock_in_the_way(&two, Record::write(0, 0)).gives(Some((Record::write(3, 4), -1)))?;
            lock(&two, Record::write(50, 10)).ok()?;
            ofd_lock(&one, Record::write(55, 1)).fails(E::AGAIN)
        },
    ),
    Case::new(
        "ofd_lock.waits_and_wakes_up",
        "fcntl(2): F_OFD_SETLKW",
        |_| {
            file("a")?;
            let fd = rw()?;
            ofd_lock(&fd, Record::write(0, 0)).ok()?;
            let waits = waiter(libc::SYS_fcntl, |fd| {
                ofd_lock_waiting(fd, Record::write(0, 0)).ok()
            })?;
            ofd_lock(&fd, Record::unlock(0, 0)).ok()?;
            taken(waits)
        },
    ),
];

/// Lets a signal interrupt calls and do nothing else.
fn heed(signal: i32) {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: all zeros is a valid `struct sigaction`; the handler does nothing, so it may run at
    // any time.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}
