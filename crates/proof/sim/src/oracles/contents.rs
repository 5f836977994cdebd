//! Contents of files: what is read is what some order of the writes and truncations leaves, sector by sector. After a loss of
//! power it may be what was before, but for what somebody was told to be on disk.
//!
//! A read cannot find contents older than a write that was done, or seen, before it.

use super::Finding;
use crate::history::{Changed, Contents, FileLog, Read, Stamp};

/// A change of one sector, the first of them that there were zeros.
#[derive(Clone, Copy)]
struct Candidate {
    begun: u64,
    /// `None`: it may be done at any time.
    ended: Option<u64>,
}

struct Sector<'a> {
    log: &'a FileLog,
    losses: &'a [u64],
    number: usize,
    /// Whether a sync says something of what a loss of power has left.
    trusts_syncs: bool,
}

pub(super) fn check(contents: &Contents) -> Result<(), Finding> {
    for (ino, log) in contents.files() {
        for (oracle, trusts_syncs) in [("contents", false), ("synced-contents", true)] {
            for read in &log.reads {
                for (number, &stamp) in read.stamps.iter().enumerate() {
                    let sector = Sector {
                        log,
                        losses: contents.losses(),
                        number,
                        trusts_syncs,
                    };
                    if !sector.explains(read, stamp) {
                        let what = format!(
                            "sector {number} of {ino}: write {stamp} cannot be what is read from {} to {}, of {}",
                            read.begun,
                            read.ended,
                            sector.story()
                        );
                        return Err(Finding::new(oracle, what));
                    }
                }
            }
        }
    }
    Ok(())
}

impl Sector<'_> {
    fn changes(&self) -> impl Iterator<Item = &Changed> {
        let changes = self.log.changes.iter();
        changes.filter(|change| change.sectors.contains(&self.number))
    }

    fn explains(&self, read: &Read, stamp: Stamp) -> bool {
        let zeros = Candidate {
            begun: 0,
            ended: Some(0),
        };
        let first = (stamp == 0).then_some(zeros);
        let made = self.changes().filter(|change| change.stamp == stamp);
        let made = made.map(|change| Candidate {
            begun: change.begun,
            ended: change.ended,
        });
        let mut all = first.into_iter().chain(made);
        all.any(|candidate| candidate.begun < read.ended && !self.is_over(candidate, stamp, read))
    }

    /// Whether something has taken the candidate's place before the read.
    fn is_over(&self, candidate: Candidate, stamp: Stamp, read: &Read) -> bool {
        let Some(ended) = candidate.ended else {
            return false;
        };
        let is_between = |begun: u64, over: u64| ended < begun && over < read.begun;
        let changed = self.changes().any(|change| {
            let is_other = change.stamp != stamp;
            let over = change.ended.filter(|&over| is_between(change.begun, over));
            is_other && over.is_some_and(|over| !self.may_be_lost(change, over, read))
        });
        let seen = self.log.reads.iter().any(|seen| {
            let is_other = seen.stamps[self.number] != stamp;
            is_other
                && is_between(seen.begun, seen.ended)
                && !self.any_lost(candidate.begun, read.ended)
        });
        changed || seen
    }

    fn any_lost(&self, since: u64, until: u64) -> bool {
        let mut losses = self.losses.iter();
        losses.any(|&lost| (since..until).contains(&lost))
    }

    /// Whether a loss of power may have undone this before the read.
    fn may_be_lost(&self, change: &Changed, over: u64, read: &Read) -> bool {
        if !self.any_lost(change.begun, read.ended) {
            return false;
        }
        let of_session = |session| session == change.session;
        let syncs = self.log.syncs.iter();
        let mut syncs = syncs.filter(|sync| of_session(sync.session));
        let is_safe = syncs.any(|sync| {
            let covers = sync.is_ok && over < sync.begun && sync.ended < read.begun;
            // Losses are told once.
            let told = self.log.syncs.iter().any(|told| {
                let is_before = change.begun < told.ended && told.begun < sync.ended;
                !told.is_ok && of_session(told.session) && is_before
            });
            covers && !told
        });
        !(self.trusts_syncs && is_safe)
    }

    fn story(&self) -> String {
        let changes = self.changes().map(|change| {
            let Changed {
                session,
                stamp,
                begun,
                ended,
                ..
            } = change;
            (*begun, format!("{session} writes {stamp} until {ended:?}"))
        });
        let reads = self.log.reads.iter();
        let reads = reads.map(|read| {
            let stamp = read.stamps[self.number];
            (read.begun, format!("{stamp} is read until {}", read.ended))
        });
        let syncs = self.log.syncs.iter().map(|sync| {
            let (session, ended, is_ok) = (sync.session, sync.ended, sync.is_ok);
            (
                sync.begun,
                format!("{session} syncs until {ended}: {is_ok}"),
            )
        });
        let losses = self.losses.iter().map(|&lost| (lost, "a loss".to_owned()));
        let mut all: Vec<_> = changes.chain(reads).chain(syncs).chain(losses).collect();
        all.sort();
        let all = all.iter().map(|(at, what)| format!("{at}: {what}"));
        all.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::SECTORS;
    use pandofs_types::{Ino, SessionId};

    const FILE: Ino = Ino(5);
    const A: SessionId = SessionId(1);
    const B: SessionId = SessionId(2);

    fn write(contents: &mut Contents, session: SessionId, stamp: Stamp) {
        let place = contents.change(FILE, session, 0..SECTORS, stamp);
        contents.changed(FILE, place);
    }

    fn read(contents: &mut Contents, stamp: Stamp) {
        let begun = contents.tick();
        contents.read(FILE, begun, vec![stamp; SECTORS]);
    }

    fn sync(contents: &mut Contents, session: SessionId, is_ok: bool) {
        let begun = contents.tick();
        contents.synced(FILE, session, begun, is_ok);
    }

    fn found(contents: &Contents) -> Option<String> {
        check(contents).err().map(|finding| finding.oracle)
    }

    #[test]
    fn the_last_write_is_read_or_one_that_is_under_way() {
        let mut contents = Contents::default();
        read(&mut contents, 0);
        write(&mut contents, A, 1);
        contents.change(FILE, B, 0..SECTORS, 2);
        for stamp in [1, 2, 2] {
            read(&mut contents, stamp);
        }
        assert_eq!(found(&contents), None);
        // Bytes that were seen to be gone do not come back.
        read(&mut contents, 1);
        assert_eq!(found(&contents).as_deref(), Some("contents"));
    }

    #[test]
    fn nothing_of_another_file_is_read() {
        let mut contents = Contents::default();
        read(&mut contents, 7);
        assert_eq!(found(&contents).as_deref(), Some("contents"));
    }

    #[test]
    fn what_was_cut_off_does_not_come_back() {
        let mut contents = Contents::default();
        write(&mut contents, A, 1);
        write(&mut contents, B, 0);
        read(&mut contents, 0);
        assert_eq!(found(&contents), None);
        read(&mut contents, 1);
        assert_eq!(found(&contents).as_deref(), Some("contents"));
    }

    #[test]
    fn a_loss_takes_what_was_not_synced() {
        let mut contents = Contents::default();
        write(&mut contents, A, 1);
        sync(&mut contents, A, true);
        write(&mut contents, A, 2);
        // That of another session says nothing.
        sync(&mut contents, B, true);
        contents.lost();
        read(&mut contents, 1);
        assert_eq!(found(&contents), None);
        read(&mut contents, 0);
        assert_eq!(found(&contents).as_deref(), Some("synced-contents"));
    }

    #[test]
    fn a_loss_is_told_once() {
        let mut contents = Contents::default();
        write(&mut contents, A, 1);
        contents.lost();
        sync(&mut contents, A, false);
        sync(&mut contents, A, true);
        read(&mut contents, 0);
        assert_eq!(found(&contents), None);
        write(&mut contents, A, 2);
        contents.lost();
        sync(&mut contents, A, true);
        read(&mut contents, 1);
        assert_eq!(found(&contents).as_deref(), Some("synced-contents"));
    }
}
