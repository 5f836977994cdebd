use super::*;
use crate::op::{Answer, Failure, Outcome, Stat, callers, filling};
use crate::subject::{Census, Traits};
use pandofs_types::{FsError, Time};

/// The model itself as a subject, with a fault or without.
struct Mirror {
    model: Model,
    clock: i64,
    ran: usize,
    times: Vec<Time>,
    fault: Fault,
    renames: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The third rename of a directory says it is done and is not.
    LostRename,
    /// Removing a directory does not take it off its parent's link count.
    LinkCount,
    /// Bytes that were cut off come back when a file grows.
    StaleBytes,
}

fn traits() -> Traits {
    Traits {
        callers: callers().len(),
        dir_size_is_entries: true,
        protected_hardlinks: false,
        clock_slack: Duration::ZERO,
        max_file_size: 1 << 33,
        times_only_advance: false,
        allocates: true,
        makes_unnamed: true,
        makes_whiteouts: true,
        refused_whiteouts_touch: false,
        inos_are_reused: false,
    }
}

impl Mirror {
    fn new(fault: Fault) -> Mirror {
        Mirror {
            model: Model::new(traits()),
            clock: 1_000_000_000_000_000_000,
            ran: 0,
            times: vec![Time(1_000_000_000_000_000_000)],
            fault,
            renames: 0,
        }
    }

    fn time(&self, stamps: &crate::model::Stamps) -> Time {
        match *stamps.0.last().expect("a time has a stamp") {
            crate::model::Stamp::At(time) => time,
            crate::model::Stamp::During(number) | crate::model::Stamp::Since(number) => {
                self.times[number]
            }
        }
    }
}

impl Subject for Mirror {
    fn run(&mut self, step: &Step) -> Outcome {
        self.clock += 1_000;
        self.ran += 1;
        self.times.push(Time(self.clock));
        if let (Fault::LostRename, Op::Rename { from, .. }) = (self.fault, &step.op)
            && self.model.bytes(from).is_none()
        {
            self.renames += 1;
            let mut tried = self.model.clone();
            if self.renames >= 3 && tried.run(self.ran, step) == Expected::Done {
                return Ok(Answer::Done);
            }
        }
        let expected = self.model.run(self.ran, step);
        self.clock += 1_000;
        Ok(match expected {
            Expected::Done | Expected::NothingOr(_) => Answer::Done,
            Expected::Error(errors) => {
                let first = errors.first().expect("there is an error");
                return Err(Failure::Fs(*first));
            }
            Expected::Stat(stat) => {
                let wrong = u32::from(
                    self.fault == Fault::LinkCount && stat.kind == FileKind::Dir && stat.nlink > 4,
                );
                Answer::Stat(Box::new(Stat {
                    ino: stat.node.0,
                    kind: stat.kind,
                    mode: stat.mode,
                    nlink: stat.nlink + wrong,
                    uid: stat.uid,
                    gid: stat.gid,
                    rdev: stat.rdev,
                    size: stat.size.expect("the model knows sizes of directories"),
                    atime: self.time(&stat.atime),
                    mtime: self.time(&stat.mtime),
                    ctime: self.time(&stat.ctime),
                }))
            }
            Expected::Entries(entries) => Answer::Entries(entries.into_iter().collect()),
            Expected::Link(link) => Answer::Link(link),
            Expected::Value(value) => Answer::Value(value),
            Expected::Names(names) => Answer::Names(names.into_iter().collect()),
            Expected::Data(mut data) => {
                // As if a byte of an earlier write showed through a hole.
                if self.fault == Fault::StaleBytes
                    && data.len() > 4_096
                    && let Some(hole) = data.iter_mut().find(|byte| **byte == 0)
                {
                    *hole = filling(3, 1)[0];
                }
                Answer::Data(data)
            }
            Expected::Found { by, or_none, .. } => Answer::Found(by.filter(|_| !or_none)),
            Expected::Unspecified => unreachable!("what is not specified is not run"),
        })
    }

    fn now(&mut self) -> Time {
        Time(self.clock)
    }

    fn traits(&self) -> Traits {
        traits()
    }

    fn settle(&mut self) -> Result<Option<Census>, String> {
        Ok(Some(self.model.census()))
    }
}

const CONFIG: Config = Config {
    seed: 7,
    ops: 4_000,
    compare_every: 300,
    shrink: Duration::from_secs(60),
};

#[test]
fn the_model_is_what_the_model_says() {
    check(CONFIG, || Mirror::new(Fault::None));
}

fn report_of(fault: Fault) -> String {
    let panic = catch_unwind(|| check(CONFIG, || Mirror::new(fault))).unwrap_err();
    text_of(&*panic)
}

#[test]
fn a_rename_that_does_nothing_is_found_and_made_small() {
    let report = report_of(Fault::LostRename);
    assert!(report.contains("PANDOFS_SEED=7"), "{report}");
    let small: usize = report
        .lines()
        .find_map(|line| line.strip_suffix(" operations are enough:"))
        .and_then(|number| number.parse().ok())
        .unwrap();
    assert!(small <= 12, "{report}");
    assert!(report.contains("Rename"), "{report}");
}

#[test]
fn a_wrong_link_count_is_found() {
    assert!(report_of(Fault::LinkCount).contains("nlink is"));
}

#[test]
fn bytes_that_show_through_a_hole_are_found() {
    assert!(report_of(Fault::StaleBytes).contains("what was read"));
}

#[test]
fn most_operations_succeed_and_every_kind_of_error_comes_up() {
    let mut model = Model::new(traits());
    let mut generator = Generator::new(3, traits());
    let (mut done, mut failed) = (0, 0);
    let mut errors = std::collections::BTreeSet::new();
    for number in 1..30_000 {
        match model.run(number, &generator.step(&model)) {
            Expected::Error(found) => {
                failed += 1;
                errors.extend(found);
            }
            Expected::Unspecified => {}
            _ => done += 1,
        }
    }
    assert!(done > failed, "{done} done, {failed} failed");
    let wanted = [
        FsError::NotFound,
        FsError::Exists,
        FsError::NotDir,
        FsError::IsDir,
        FsError::NotEmpty,
        FsError::Access,
        FsError::NotPermitted,
        FsError::Invalid,
        FsError::NameTooLong,
        FsError::NoAttribute,
    ];
    for error in wanted {
        assert!(errors.contains(&error), "{error:?} did not come up");
    }
}
