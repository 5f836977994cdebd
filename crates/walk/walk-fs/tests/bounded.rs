//! Open files are bounded, whatever the tree. By itself in its process, whose files it counts.

#![allow(clippy::unwrap_used)]

mod common;

use common::{make_chain, remove};
use pandofs_walk_fs::{Entry, Flow, Options, Visitor, walk};

struct Count(usize);

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

impl Visitor for Count {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        if entry.name() == c"link" {
            self.0 = self.0.max(open_files());
        }
        Flow::Descend([0, 0])
    }
}

#[test]
fn no_more_directories_are_open_than_allowed() {
    let dir = tempfile::tempdir().unwrap();
    make_chain(dir.path(), 500, "d");
    let before = open_files();
    for (limit, threads) in [(8, 1), (8, 3), (100, 2)] {
        let options = Options {
            workers: threads,
            open_directories: limit,
            ..Options::default()
        };
        let walked = walk(&[dir.path().into()], &options, |_| Count(0)).unwrap();
        assert_eq!(options.meter.entries(), 1 + 3 * 500);
        let most = walked.visitors.iter().map(|it| it.0).max().unwrap();
        // Each thread has one that it lists, and opens /proc/self/fd to count.
        let allowed = before + limit + 3 * threads as usize;
        assert!(most <= allowed, "{most} of {allowed}");
        assert!(most >= limit, "the limit is not what bounds it: {most}");
    }
    remove(dir.path());
}
