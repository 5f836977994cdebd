//! One pass over everything.

use super::object::Trouble;
use super::record::Record;
use super::{Cut, Shared, Subject, now};
use crate::data::{self, Job};
use crate::limits::SCRUB_CHUNK_BYTES;
use pandofs_storage::log::LogError;
use pandofs_storage::store::StoreError;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// How often it is noted how far a pass is. A file system may take its time to replace a file.
const KEEP_INTERVAL: Duration = Duration::from_secs(30);
/// Thousandths of a pass that the store and the log count for.
const SHARE_OF_METADATA: u16 = 100;

/// Thousandths of a pass that are done when the objects whose numbers end with this byte are next.
fn share_before(last_byte: u8) -> u16 {
    let of_objects = u32::from(1_000 - SHARE_OF_METADATA) * u32::from(last_byte) / 256;
    SHARE_OF_METADATA + of_objects as u16
}

impl Shared {
    /// From where the record says on, to the end.
    ///
    /// # Errors
    /// Why it was cut short.
    pub(super) fn pass(&self, subject: &Subject, record: &mut Record) -> Result<(), Cut> {
        let is_whole = record.next == 0;
        let pass = self.state().report.pass;
        tracing::info!("scrub {pass}: begun at directory {:02x}", record.next);
        self.store(subject)?;
        self.log(subject)?;
        let mut all_read = true;
        let mut kept = Instant::now();
        for last_byte in record.next..=u8::MAX {
            record.next = last_byte;
            if kept.elapsed() > KEEP_INTERVAL {
                self.keep(subject, record);
                kept = Instant::now();
            }
            self.state().report.share = share_before(last_byte);
            all_read &= self.directory(subject, last_byte)?;
        }
        // One that was removed while it was being read has failed after that.
        let is_there = |ino| {
            !matches!(
                data::path(&subject.holdings.root, ino).try_exists(),
                Ok(false)
            )
        };
        subject.holdings.health.keep_failing(is_there);
        if is_whole && all_read && subject.holdings.generations.any_lost() {
            self.forget_lost(subject);
        }
        record.next = 0;
        record.ended = now().as_secs();
        self.keep(subject, record);
        let mut state = self.state();
        // Another one may have been asked for at the last moment.
        if !state.is_to_begin {
            state.is_asked_for = false;
            state.report.share = 1_000;
            state.report.finished = pass;
        }
        state.is_running = false;
        state.report.ended = record.ended;
        tracing::info!(
            "scrub {pass}: ended; {} objects, {} bytes, {} faults, {} failing objects, {} damaged blocks known",
            state.report.objects,
            state.report.bytes,
            state.report.faults.len(),
            subject.holdings.health.failing_list().len(),
            subject.holdings.health.known()
        );
        Ok(())
    }

    fn keep(&self, subject: &Subject, record: &Record) {
        // Not to know how far it was costs another pass.
        if let Err(error) = record.write(&subject.holdings.root) {
            tracing::warn!("scrub: cannot save its progress: {error}");
        }
    }

    fn store(&self, subject: &Subject) -> Result<(), Cut> {
        let (mut cut, mut bytes) = (Ok(()), 0);
        let verified = subject.store.verify(&mut |more| {
            bytes += more;
            if bytes >= SCRUB_CHUNK_BYTES as u64 {
                cut = self.have_read(std::mem::take(&mut bytes));
            }
            if cut.is_ok() {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        match verified {
            Ok(()) => cut?,
            Err(StoreError::Corrupt { what }) => {
                self.fault(format!("the store is damaged: {what}"))
            }
            Err(error) => self.fault(format!("the store cannot be read: {error}")),
        }
        self.have_read(bytes)
    }

    fn log(&self, subject: &Subject) -> Result<(), Cut> {
        for &stream in &subject.streams {
            let Some((first, _)) = subject.log.span(stream) else {
                continue;
            };
            let (mut cut, mut bytes) = (Ok(()), 0);
            let read = subject.log.read(stream, first, &mut |index, payload| {
                bytes += payload.len() as u64;
                if bytes >= SCRUB_CHUNK_BYTES as u64 {
                    cut = self.have_read(std::mem::take(&mut bytes));
                }
                match cut {
                    Ok(()) => Ok(()),
                    // Only to end the reading.
                    Err(_) => Err(LogError::BadEntry {
                        stream,
                        index,
                        what: String::new(),
                    }),
                }
            });
            cut?;
            // Entries pruned while they are read are no damage.
            let is_there = subject
                .log
                .span(stream)
                .is_some_and(|(now, _)| now == first);
            if let Err(error) = read
                && is_there
            {
                self.fault(format!("the log is damaged: {error}"));
            }
            self.have_read(bytes)?;
        }
        Ok(())
    }

    /// All objects whose numbers end with this byte; whether all could be read.
    fn directory(&self, subject: &Subject, last_byte: u8) -> Result<bool, Cut> {
        let root = &subject.holdings.root;
        let names = match data::names(root, last_byte) {
            Ok(names) => names,
            Err(error) => {
                let directory = data::directory(root, last_byte);
                self.fault(format!("cannot list {}: {error}", directory.display()));
                return Ok(false);
            }
        };
        let mut all_read = true;
        for ino in names.objects {
            let wrong = match self.object(subject, ino) {
                Ok(wrong) => {
                    self.state().report.objects += 1;
                    wrong
                }
                Err(Trouble::Cut(cut)) => return Err(cut),
                Err(Trouble::Io(error)) => {
                    all_read = false;
                    let what = format!("cannot read {}: {error}", data::path(root, ino).display());
                    if !data::is_of_the_disk(&error) {
                        // Nothing was learnt of the file.
                        self.fault(what);
                        continue;
                    }
                    Some(what)
                }
            };
            match wrong {
                None => subject.holdings.health.is_well(ino),
                Some(what) => {
                    tracing::error!("scrub: {what} (inode {ino})");
                    subject.holdings.health.fails(ino, what);
                }
            }
        }
        for ino in names.sums_alone {
            // The thread that makes and removes the object looks whether there is none.
            let job = Job::SumsAlone { ino };
            subject.workers.order(ino, job).map_err(|_| Cut::Ends)?;
        }
        Ok(all_read)
    }

    /// No object is in doubt any more. That they say so was synced when each had been looked at.
    fn forget_lost(&self, subject: &Subject) {
        if let Err(error) = subject.holdings.generations.forget_lost() {
            self.fault(format!("cannot note that no object is in doubt: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_a_pass_that_is_done_grows_to_the_end() {
        let shares: Vec<u16> = (0..=u8::MAX).map(share_before).collect();
        assert!(shares.is_sorted(), "{shares:?}");
        assert_eq!((shares[0], shares[128], shares[255]), (100, 550, 996));
    }
}
