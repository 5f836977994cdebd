//! Executor of a walk: the threads of this process, or several processes together.

use anyhow::{Context, Result, bail};
use pandofs_walk_fs::{Entry, Flow, Meter, Options, Outputs, Processes, Rpc, Visitor};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::Write;

/// Elements of a list that the first process sends to the others at once.
const ELEMENTS_AT_ONCE: usize = 65_536;

/// Executor of a walk.
pub enum Executor<'c> {
    /// This process, with threads.
    Alone,
    /// Several processes, started together.
    Together(Box<Processes<'c>>),
}

impl Executor<'_> {
    /// Returns whether this process tells what all have found.
    pub fn is_first(&self) -> bool {
        match self {
            Executor::Alone => true,
            Executor::Together(processes) => processes.rank() == 0,
        }
    }

    /// Returns whether there are other processes.
    pub fn is_several(&self) -> bool {
        match self {
            Executor::Alone => false,
            Executor::Together(processes) => processes.ranks() > 1,
        }
    }

    /// Broadcasts what the first process has found out: the others may look when it has changed
    /// already. To be called by all, before a walk.
    ///
    /// # Errors
    /// When the other processes do not speak as they should.
    pub fn agree<T: Serialize + DeserializeOwned>(&mut self, found: T) -> Result<T> {
        match self {
            Executor::Alone => Ok(found),
            Executor::Together(processes) => {
                let bytes = postcard::to_stdvec(&found)?;
                Ok(postcard::from_bytes(&processes.agree(&bytes))?)
            }
        }
    }

    /// A list of any length that the first process has, at all of them. To be called by all, before
    /// a walk.
    ///
    /// # Errors
    /// When the other processes do not speak as they should.
    pub fn agree_all<T: Clone + Serialize + DeserializeOwned>(
        &mut self,
        list: Vec<T>,
    ) -> Result<Vec<T>> {
        if !self.is_several() {
            return Ok(list);
        }
        let mut all = Vec::new();
        for at in (0..self.agree(list.len())?).step_by(ELEMENTS_AT_ONCE) {
            // The others have none.
            let end = list.len().min(at + ELEMENTS_AT_ONCE);
            let some = list.get(at..end).unwrap_or_default().to_vec();
            all.extend(self.agree(some)?);
        }
        Ok(all)
    }

    /// Redirects the standard output of all to this, at the first process, which calls it.
    pub fn redirect(&mut self, to: impl Write + 'static) {
        if let Executor::Together(processes) = self {
            processes.redirect(to);
        }
    }

    /// Processes of the walk on this host.
    pub fn on_this_host(&self) -> usize {
        match self {
            Executor::Alone => 1,
            Executor::Together(processes) => processes.on_this_host(),
        }
    }

    /// Returns the queue of standard output, if it does not go to this process's.
    pub fn outputs(&self) -> Option<Outputs> {
        match self {
            Executor::Alone => None,
            Executor::Together(processes) => Some(processes.outputs()),
        }
    }

    /// Questions that the first process answers; nothing if there is but one, which can answer them
    /// itself. To be called by all, before a walk.
    pub fn rpc(&mut self, answerer: impl FnMut(&[u8]) -> Vec<u8> + Send + 'static) -> Option<Rpc> {
        match self {
            Executor::Together(processes) if processes.ranks() > 1 => Some(processes.rpc(answerer)),
            _ => None,
        }
    }

    /// Returns whether no other process waits for this one any more.
    pub fn is_over(&self) -> bool {
        match self {
            Executor::Alone => true,
            Executor::Together(processes) => processes.is_over(),
        }
    }

    /// Returns this process's part of something that all know, and the number of parts.
    pub fn part(&self) -> (u32, u32) {
        match self {
            Executor::Alone => (0, 1),
            Executor::Together(processes) => (processes.rank(), processes.ranks()),
        }
    }

    /// Waits until all processes call it. A walk of nothing: MPI's own way to wait takes a whole
    /// processor.
    ///
    /// # Errors
    /// When the other processes do not speak as they should.
    pub fn meet(&mut self, options: &Options) -> Result<()> {
        if let Executor::Together(processes) = self {
            let options = Options {
                workers: 1,
                ..options.clone()
            };
            processes.walk(&[], &options, |_| Idle)?;
        }
        Ok(())
    }

    /// For tools whose processes would have to know more of one another than they do.
    ///
    /// # Errors
    /// When there are several processes.
    pub fn alone(&self, tool: &str) -> Result<()> {
        if self.is_several() {
            bail!(
                "{tool} does not work over several processes; without mpirun it uses all processors of this machine"
            );
        }
        Ok(())
    }

    /// Returns what each process has found, at the first one; nothing at the others, which are
    /// done. The meter of the first has counted what all have. To be called once, after all walks,
    /// when all that was to be written was handed over.
    ///
    /// # Errors
    /// When the other processes do not speak as they should.
    pub fn gather<T: Serialize + DeserializeOwned>(
        &mut self,
        found: T,
        meter: &Meter,
    ) -> Result<Option<Vec<T>>> {
        let processes = match self {
            Executor::Alone => return Ok(Some(vec![found])),
            Executor::Together(processes) => processes,
        };
        let bytes = postcard::to_stdvec(&found)?;
        let Some(all) = processes.finish(&bytes, meter)? else {
            return Ok(None);
        };
        all.iter()
            .map(|bytes| postcard::from_bytes(bytes).context("another process sent invalid data"))
            .collect::<Result<Vec<T>>>()
            .map(Some)
    }
}

/// A visitor of nothing.
struct Idle;

impl Visitor for Idle {
    type Dir = ();

    fn entry(&mut self, _entry: &mut Entry<'_, ()>) -> Flow {
        Flow::Quit
    }
}
