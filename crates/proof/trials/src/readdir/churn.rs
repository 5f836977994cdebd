//! Threads that create, rename and remove names beside the standing ones.

use super::Signals;
use crate::cluster::{CALLER, name};
use crate::history::{Clock, History, Life, Span};
use anyhow::{Context, Result};
use pandofs_api::NewNode;
use pandofs_client::Client;
use pandofs_types::{Ino, Name};
use rand::Rng;
use rand::rngs::StdRng;
use std::sync::atomic::Ordering;

/// One client and its names, which no other client uses.
pub(super) struct Churner {
    client: Client,
    dir: Ino,
    clock: Clock,
    random: StdRng,
    number: u32,
    /// Numbers of names that are not there.
    free: Vec<u32>,
    there: Vec<(u32, Ino, Span)>,
    /// Lives that have ended.
    ended: Vec<(u32, Life)>,
    /// Creations, renames and removals.
    pub changes: usize,
}

impl Churner {
    pub(super) fn new(
        client: Client,
        dir: Ino,
        clock: Clock,
        random: StdRng,
        number: u32,
        names: u32,
    ) -> Churner {
        Churner {
            client,
            dir,
            clock,
            random,
            number,
            free: (0..names).collect(),
            there: Vec::new(),
            ended: Vec::new(),
            changes: 0,
        }
    }

    /// Works until it is ordered to stop.
    ///
    /// # Errors
    /// The file system's: none is expected.
    pub(super) fn run(mut self, signals: &Signals) -> Result<Churner> {
        while !signals.enough.load(Ordering::SeqCst) {
            let is_full = self.free.len() * 10 < self.there.len();
            match self.random.random_range(0..10) {
                _ if self.there.is_empty() => self.create()?,
                0 => self.rename()?,
                1..=6 if !is_full => self.create()?,
                _ => self.remove()?,
            }
            self.changes += 1;
        }
        Ok(self)
    }

    /// Adds all lives to the history; answers with the names that are still there.
    pub(super) fn finish(self, history: &mut History) -> Vec<Name> {
        let of = |number| name_of(self.number, number);
        let mut left = Vec::new();
        for (number, life) in self.ended {
            history.add(of(number), life);
        }
        for (number, ino, made) in self.there {
            left.push(of(number));
            let removed = None;
            history.add(of(number), Life { ino, made, removed });
        }
        left
    }

    fn create(&mut self) -> Result<()> {
        let number = self.draw_free();
        let name = name_of(self.number, number);
        let begun = self.clock.now();
        let node = self
            .client
            .mknod(&CALLER, self.dir, &name, NewNode::File, 0o644)
            .with_context(|| format!("cannot make {name}"))?;
        let ended = self.clock.now();
        self.there.push((number, node.ino, Span { begun, ended }));
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        let (number, ino, made) = self.draw_there();
        let name = name_of(self.number, number);
        let begun = self.clock.now();
        self.client
            .unlink(&CALLER, self.dir, &name)
            .with_context(|| format!("cannot remove {name}"))?;
        let ended = self.clock.now();
        let removed = Some(Span { begun, ended });
        self.ended.push((number, Life { ino, made, removed }));
        self.free.push(number);
        Ok(())
    }

    fn rename(&mut self) -> Result<()> {
        let (number, ino, made) = self.draw_there();
        let new_number = self.draw_free();
        let name = name_of(self.number, number);
        let new_name = name_of(self.number, new_number);
        let begun = self.clock.now();
        self.client
            .rename(&CALLER, self.dir, &name, self.dir, &new_name, true)
            .with_context(|| format!("cannot rename {name} to {new_name}"))?;
        let ended = self.clock.now();
        let moved = Span { begun, ended };
        let removed = Some(moved);
        self.ended.push((number, Life { ino, made, removed }));
        self.free.push(number);
        self.there.push((new_number, ino, moved));
        Ok(())
    }

    fn draw_free(&mut self) -> u32 {
        let at = self.random.random_range(0..self.free.len());
        self.free.swap_remove(at)
    }

    fn draw_there(&mut self) -> (u32, Ino, Span) {
        let at = self.random.random_range(0..self.there.len());
        self.there.swap_remove(at)
    }
}

fn name_of(churner: u32, number: u32) -> Name {
    let text = format!("churn-{churner}-{number:05}");
    name(&text).unwrap_or_else(|error| panic!("{error:#}"))
}
