//! Visitor of `du`: a thread's part of the sums.

use super::{Du, Linked, Wanted};
use crate::du::below::Below;
use crate::du::html::{Area, Areas, LEVELS};
use crate::du::names::{Names, has_several};
use crate::du::tables::Tables;
use crate::du::times;
use crate::output::Part;
use crate::session::complain;
use crate::text::json_line;
use pandofs_walk_fs::{Entry, FileType, Flow, Leaving, Problem, Stat, Visitor};
use std::sync::atomic::Ordering;

pub(super) struct Summer<'s> {
    pub du: &'s Du,
    pub wanted: &'s Wanted,
    pub names: &'s Names,
    /// Of all roots that are directories.
    pub total: &'s Below,
    pub now: i64,
    pub tables: Tables,
    pub linked: Vec<Linked>,
    pub areas: Areas,
    pub out: Part,
}

impl Summer<'_> {
    fn line(&mut self, bytes: u64, moment: i64, path: &[u8]) {
        let threshold = self.du.threshold;
        let shown = threshold.is_none_or(|threshold| threshold.shows(bytes));
        if !shown {
            return;
        }
        if self.du.json {
            let line = self.du.json_of(path, bytes, moment);
            json_line(&line, self.out.bytes());
            self.out.end_record();
            return;
        }
        let size = self.wanted.unit.shown(bytes);
        let out = self.out.bytes();
        out.extend_from_slice(size.as_bytes());
        out.push(b'\t');
        if self.du.time.is_some() {
            out.extend_from_slice(times::shown(moment, &self.du.time_style).as_bytes());
            out.push(b'\t');
        }
        out.extend_from_slice(path);
        out.push(if self.du.null { 0 } else { b'\n' });
        self.out.end_record();
    }

    fn is_shown(&self, depth: u32) -> bool {
        self.du.by.is_none()
            && self.du.html.is_none()
            && if self.du.summarize {
                depth == 0
            } else {
                self.du.max_depth.is_none_or(|most| depth <= most)
            }
    }

    fn is_excluded(&self, entry: &mut Entry<'_, Below>) -> bool {
        self.wanted.excluded.iter().any(|(of_path, glob)| {
            if *of_path {
                glob.matches(entry.path())
            } else {
                glob.matches(entry.name().to_bytes())
            }
        })
    }

    /// Counts it in tables. Of files with several names other processes may do the same.
    fn count(&mut self, stat: &Stat, bytes: u64, is_claimed: bool) {
        let tables = &self.wanted.tables;
        if tables.is_empty() {
            return;
        }
        let groups: Vec<Option<u64>> = tables.iter().map(|by| by.group(stat, self.now)).collect();
        if is_claimed {
            let identity = stat.identity();
            self.linked.push(Linked {
                identity,
                groups,
                bytes,
            });
        } else {
            self.tables.count(tables, &groups, bytes);
        }
    }

    /// Counts a directory above it.
    fn sum_up(&mut self, leaving: &mut Leaving<'_, Below>, tells: bool) {
        let dir = leaving.dir();
        let (bytes, depth) = (dir.state().bytes.load(Ordering::Relaxed), dir.depth());
        let moment = dir.state().moment.load(Ordering::Relaxed);
        let parent = dir.parent();
        if parent.is_none() || self.du.separate_dirs {
            self.total.add_both(bytes, moment);
        }
        // With -S neither sizes nor times of directories count above them.
        if let Some(parent) = parent.filter(|_| !self.du.separate_dirs) {
            parent.state().add_both(bytes, moment);
        }
        if self.du.html.is_some() && depth <= LEVELS {
            let path = leaving.path().to_vec();
            self.areas.push(Area { bytes, path, depth });
        }
        if tells && self.is_shown(depth) {
            self.line(bytes, moment, leaving.path());
        }
    }
}

impl Visitor for Summer<'_> {
    type Dir = Below;

    // No return comes between two calls that look at entries: see
    // `pandofs_walk_fs::Visitor::entry`.
    #[inline(always)]
    fn entry(&mut self, entry: &mut Entry<'_, Below>) -> Flow {
        if self.du.one_file_system && entry.kind() == FileType::Directory && entry.is_elsewhere() {
            return Flow::Skip;
        }
        if !self.wanted.excluded.is_empty() && self.is_excluded(entry) {
            return Flow::Skip;
        }
        let Ok(stat) = entry.stat().copied() else {
            return Flow::Skip;
        };
        let (bytes, moment) = (self.du.measure(&stat), self.du.moment(&stat));
        let has_several = has_several(&stat) && !self.du.count_links;
        if has_several && !self.names.is_first(&stat) {
            return Flow::Skip;
        }
        let is_claimed = has_several && self.wanted.several;
        self.count(&stat, bytes, is_claimed);
        if self.du.by.is_some() {
            return Flow::Descend([0, 0]);
        }
        if stat.kind() == FileType::Directory {
            return Flow::Descend([bytes, moment as u64]);
        }
        if is_claimed {
            entry.holder().state().add_both(0, moment);
            entry.claim(stat.identity(), bytes);
        } else {
            // Of roots that are files as well: what all roots are in is added to the total at the
            // end.
            entry.holder().state().add_both(bytes, moment);
        }
        let depth = entry.depth();
        if (self.du.all || depth == 0) && self.is_shown(depth) {
            self.line(bytes, moment, entry.path());
        }
        Flow::Skip
    }

    fn leave(&mut self, leaving: &mut Leaving<'_, Below>) {
        self.sum_up(leaving, true);
    }

    /// Counts what is known of a directory above it, and reports it of a root.
    fn abandon(&mut self, leaving: &mut Leaving<'_, Below>) {
        let is_root = leaving.dir().parent().is_none();
        self.sum_up(leaving, is_root);
    }

    fn problem(&mut self, problem: Problem<'_>) {
        complain("du", problem);
    }
}
