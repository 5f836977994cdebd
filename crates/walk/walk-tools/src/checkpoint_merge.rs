//! Merger of the checkpoints of several processes into one.
//!
//! When a part of a walk has ended, each process has items that it has written, and what it has
//! found. The others give the first one a line of JSON ([`Contribution`]) and these items, which
//! makes one of all (`pandofs_walk_fs::Merge`), and says how it goes on. All that they have handed
//! over for standard output is written before. So the checkpoint is one of this moment: no process
//! walks while it is made.

use crate::checkpoint::Checkpoint;
use crate::parts::{Done, longest};
use anyhow::{Context, Result};
use pandofs_walk_fs::{DirState, Merge, Options, Processes};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};

/// Findings of a tool, of which several processes have parts.
pub(crate) trait Joined: Serialize + DeserializeOwned {
    /// Takes up another one's part.
    fn join(&mut self, other: Self);
}

/// Contribution of a process to the checkpoint, besides items.
#[derive(Serialize, Deserialize)]
pub(crate) struct Contribution<T> {
    /// By Ctrl-C.
    pub interrupted: bool,
    pub done: Done<T>,
}

/// Decision of how to go on, at all processes.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Verdict {
    /// There is something to go on with.
    pub is_left: bool,
    /// Somebody was interrupted.
    pub interrupted: bool,
}

impl<T: Joined> Contribution<T> {
    fn join(&mut self, other: Contribution<T>) {
        self.interrupted |= other.interrupted;
        self.done.found.join(other.done.found);
        let counted = self.done.counted.iter_mut();
        for (count, more) in counted.zip(other.done.counted) {
            *count = count.saturating_add(more);
        }
        longest(&mut self.done.lengths, &other.done.lengths);
    }
}

/// Of the first process `mine` is what all have done then, and `items` become those of all, where
/// the checkpoint takes them from. `items` are at their beginning.
///
/// # Errors
/// When something cannot be read or written, or another process sent what makes no sense.
pub(crate) fn merge_checkpoints<D: DirState, T: Joined>(
    processes: &mut Processes<'_>,
    options: &Options,
    mine: &mut Contribution<T>,
    mut items: File,
    to: Option<&Checkpoint>,
) -> Result<Verdict> {
    let mut file = tempfile::tempfile_in(&options.spill_directory)?;
    let mut verdict = None;
    match to {
        None => {
            file.write_all((serde_json::to_string(mine)? + "\n").as_bytes())?;
            std::io::copy(&mut items, &mut file)?;
            file.rewind()?;
            processes.collect(file, &options.meter, |_, _| anyhow::Ok(()))?;
        }
        Some(checkpoint) => {
            let mut merge = Merge::<D>::new(checkpoint.begin()?);
            merge.add(&mut items).context("the checkpoint")?;
            processes.collect(file, &options.meter, |rank, file| {
                let mut from = BufReader::new(file);
                let mut line = String::new();
                from.read_line(&mut line)
                    .map_err(anyhow::Error::from)
                    .and_then(|_| Ok(serde_json::from_str(&line)?))
                    .map(|contribution| mine.join(contribution))
                    .and_then(|()| Ok(merge.add(&mut from)?))
                    .with_context(|| format!("rank {rank} sent an invalid checkpoint"))
            })?;
            let items = merge.finish().context("the checkpoint")?;
            verdict = Some(Verdict {
                // A process that stops sends that to all before it ends its part, and sends its
                // items after that.
                is_left: items > 0 && !options.meter.is_stopped(),
                interrupted: mine.interrupted,
            });
        }
    }
    let said = postcard::to_stdvec(&verdict)?;
    let said = processes.broadcast(&said, &options.meter)?;
    let verdict: Option<Verdict> = postcard::from_bytes(&said)?;
    verdict.context("the first process has no checkpoint")
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Joined for Vec<u8> {
        fn join(&mut self, other: Vec<u8>) {
            self.extend(other);
        }
    }

    fn contribution(interrupted: bool, found: u8, lengths: &[u64]) -> Contribution<Vec<u8>> {
        Contribution {
            interrupted,
            done: Done {
                found: vec![found],
                lengths: lengths.to_vec(),
                counted: [u64::from(found), 1, u64::MAX, 0],
                seconds: 2.0,
            },
        }
    }

    #[test]
    fn what_processes_tell_is_added_up() {
        let mut first = contribution(false, 1, &[5, 7]);
        first.join(contribution(true, 2, &[6]));
        first.join(contribution(false, 3, &[]));
        assert!(first.interrupted);
        assert_eq!(first.done.found, [1, 2, 3]);
        assert_eq!(first.done.lengths, [6, 7]);
        assert_eq!(first.done.counted, [6, 3, u64::MAX, 0]);
    }

    #[test]
    fn a_line_is_what_it_was() {
        let line = serde_json::to_string(&contribution(true, 4, &[9])).unwrap();
        let golden = "{\"interrupted\":true,\"done\":{\"found\":[4],\"lengths\":[9],\
                      \"counted\":[4,1,18446744073709551615,0],\"seconds\":2.0}}";
        assert_eq!(line, golden);
    }
}
