//! Walks that are interrupted to go on later.

use pandofs_walk_fs::{Entry, Flow, Options, Saved, Visitor, go_on, walk};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::sync::Arc;

const FILES: usize = 20_000;

/// Remembers names, and interrupts the walk at one of them.
struct Interrupter {
    names: Vec<Vec<u8>>,
    at: usize,
    saved: Arc<Saved>,
}

impl Visitor for Interrupter {
    type Dir = ();

    fn entry(&mut self, entry: &mut Entry<'_, ()>) -> Flow {
        self.names.push(entry.name().to_bytes().to_vec());
        if self.names.len() == self.at {
            self.saved.ask();
        }
        Flow::Descend([0, 0])
    }
}

/// One thread, for which no other could take the rest of the directory.
#[test]
fn a_large_directory_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    for number in 0..FILES {
        File::create(dir.path().join(format!("file{number}"))).unwrap();
    }
    for slow_entries in [false, true] {
        let mut file = tempfile::tempfile().unwrap();
        let saved = Arc::new(Saved::new(file.try_clone().unwrap()));
        let options = Options {
            workers: 1,
            slow_entries,
            saved: Some(Arc::clone(&saved)),
            ..Options::default()
        };
        let make = |at| {
            let saved = Arc::clone(&saved);
            move |_| Interrupter {
                names: Vec::new(),
                at,
                saved: Arc::clone(&saved),
            }
        };
        let roots = [dir.path().as_os_str().to_owned()];
        let walked = walk(&roots, &options, make(1_000)).unwrap();
        let mut names = walked.visitors.into_iter().next().unwrap().names;
        // The names of one listing of getdents64, at most, and one of each other.
        assert!(
            names.len() < 4_000,
            "{} entries were visited after all",
            names.len()
        );
        assert!(saved.finish::<()>().unwrap() > 0);
        file.seek(SeekFrom::Start(0)).unwrap();
        let options = Options {
            saved: None,
            ..options.clone()
        };
        let rest = go_on(&mut file, &options, make(0)).unwrap();
        names.extend(rest.visitors.into_iter().flat_map(|it| it.names));
        assert_eq!(names.len(), FILES + 1);
        let different: HashSet<Vec<u8>> = names.into_iter().collect();
        assert_eq!(different.len(), FILES + 1);
    }
}
