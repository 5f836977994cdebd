//! Runs random operations on a subject and the model, compares, and makes a failing history small.

use crate::compare::Comparer;
use crate::generate::Generator;
use crate::model::{Expected, Model};
use crate::op::{Blob, HandleId, Op, Path, Step};
use crate::subject::Subject;
use pandofs_types::FileKind;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The handle that contents are compared through; the generator uses lower ones.
const COMPARING: HandleId = HandleId::MAX;
/// The superuser's place among the callers.
const SUPERUSER: usize = 0;
/// Comparisons of the trees from one look inside to the next.
const LOOK_EVERY: usize = 4;
/// Operations printed of a history that did not fail again.
const TAIL: usize = 40;
/// Seconds that a failing history is made smaller, unless told.
const SHRINK_SECONDS: u64 = 60;

/// Size of a run.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Of the operations that are drawn.
    pub seed: u64,
    /// Operations.
    pub ops: usize,
    /// Operations after which the whole trees are compared.
    pub compare_every: usize,
    /// Time for which a failing history is made smaller.
    pub shrink: Duration,
}

impl Config {
    /// As many operations as given from seed 1 on, unless `PANDOFS_SEED` and `PANDOFS_OPS` say
    /// otherwise; `PANDOFS_SHRINK` gives the seconds that a failing history is made smaller.
    pub fn from_environment(ops: usize) -> Config {
        let number = |name: &str| {
            let text = std::env::var(name).ok()?;
            Some(
                text.parse::<u64>()
                    .unwrap_or_else(|_| panic!("{name} is to be a number: {text:?}")),
            )
        };
        Config {
            seed: number("PANDOFS_SEED").unwrap_or(1),
            ops: number("PANDOFS_OPS").map_or(ops, |ops| ops as usize),
            compare_every: 200,
            shrink: Duration::from_secs(number("PANDOFS_SHRINK").unwrap_or(SHRINK_SECONDS)),
        }
    }

    /// The same with the seed moved on, for a test that runs several variants.
    pub fn variant(self, number: u64) -> Config {
        Config {
            seed: self.seed.wrapping_add(number << 32),
            ..self
        }
    }
}

/// Point at which subject and model parted.
#[derive(Debug)]
struct Mismatch {
    message: String,
    /// Kind of the difference, so that a history that is made smaller does not end in another.
    kind: String,
}

impl Mismatch {
    fn new(at: &str, text: &str) -> Mismatch {
        let letters = text
            .chars()
            .filter(|letter| letter.is_alphabetic() || *letter == ' ');
        Mismatch {
            message: format!("{at}\n    {text}"),
            kind: letters.take(40).collect(),
        }
    }
}

/// A subject and the model side by side.
struct Pair<S> {
    subject: S,
    model: Model,
    comparer: Comparer,
    /// Times the trees were compared.
    compared: usize,
}

impl<S: Subject> Pair<S> {
    fn new(make: &mut dyn FnMut() -> S) -> Pair<S> {
        let mut subject = make();
        let traits = subject.traits();
        let mut comparer = Comparer::new(traits.clone());
        // Operation 0 is the making of the root, a moment ago.
        let now = subject.now();
        comparer.ran(pandofs_types::Time(i64::MIN / 2), now);
        Pair {
            model: Model::new(traits),
            subject,
            comparer,
            compared: 0,
        }
    }

    /// Runs one operation on both; false if it is none to run.
    fn step(&mut self, step: &Step) -> Result<bool, Mismatch> {
        let step = match step
            .op
            .handle()
            .and_then(|handle| self.model.opener(handle))
        {
            Some(caller) => &Step {
                caller,
                op: step.op.clone(),
            },
            None => step,
        };
        let number = self.comparer.next_number();
        let expected = self.model.run(number, step);
        if expected == Expected::Unspecified {
            return Ok(false);
        }
        let ran = catch_unwind(AssertUnwindSafe(|| {
            let before = self.subject.now();
            let got = self.subject.run(step);
            (before, got, self.subject.now())
        }));
        let (before, got, after) =
            ran.map_err(|panic| mismatch(step, &format!("it panicked: {}", text_of(&*panic))))?;
        self.comparer.ran(before, after);
        self.comparer
            .compare(&expected, &got)
            .map_err(|text| mismatch(step, &text))?;
        Ok(true)
    }

    /// Compares all names, attributes and contents.
    fn compare_trees(&mut self) -> Result<(), Mismatch> {
        for (path, kind) in self.model.paths() {
            let as_root = |op| Step {
                caller: SUPERUSER,
                op,
            };
            let mut steps = vec![as_root(Op::Stat { path: path.clone() })];
            match kind {
                FileKind::Dir => steps.push(as_root(Op::ReadDir { path: path.clone() })),
                FileKind::Symlink => steps.push(as_root(Op::ReadLink { path: path.clone() })),
                FileKind::File => steps.extend(self.contents(&path).into_iter().map(as_root)),
                _ => {}
            }
            steps.push(as_root(Op::ListXattr { path: path.clone() }));
            for name in self.model.xattr_names(&path) {
                steps.push(as_root(Op::GetXattr {
                    path: path.clone(),
                    name: Blob(name),
                }));
            }
            for step in steps {
                self.step(&step).map_err(|found| Mismatch {
                    message: format!("comparing the trees: {}", found.message),
                    ..found
                })?;
            }
        }
        // Not each time: it brings what goes on in the background to rest.
        self.compared += 1;
        if self.compared.is_multiple_of(LOOK_EVERY) {
            self.look("looking inside:", |subject| subject.look_inside())?;
        }
        Ok(())
    }

    /// Has the subject look at itself.
    fn look<T>(
        &mut self,
        when: &str,
        look: impl FnOnce(&mut S) -> Result<T, String>,
    ) -> Result<T, Mismatch> {
        let looked = catch_unwind(AssertUnwindSafe(|| look(&mut self.subject)))
            .unwrap_or_else(|panic| Err(format!("it panicked: {}", text_of(&*panic))));
        looked.map_err(|text| Mismatch::new(when, &text))
    }

    fn contents(&self, path: &Path) -> Vec<Op> {
        let bytes = self.model.bytes(path).expect("the path is a file's");
        let reads = bytes.probes().into_iter().map(|(offset, length)| Op::Read {
            handle: COMPARING,
            offset,
            length: length as u32,
        });
        let open = Op::Open {
            path: path.clone(),
            handle: COMPARING,
            read: true,
            write: false,
            truncate: false,
        };
        [open]
            .into_iter()
            .chain(reads)
            .chain([Op::Close { handle: COMPARING }])
            .collect()
    }

    fn finish(mut self) -> Result<(), Mismatch> {
        for handle in self.model.open_handles() {
            self.step(&Step {
                caller: SUPERUSER,
                op: Op::Close { handle },
            })?;
        }
        self.compare_trees()?;
        let Some(counted) = self.look("at the end:", |subject| subject.settle())? else {
            return Ok(());
        };
        let expected = self.model.census();
        if counted != expected {
            let text = format!("there are {counted:?}, expected {expected:?}");
            return Err(Mismatch::new("at the end:", &text));
        }
        Ok(())
    }
}

fn mismatch(step: &Step, text: &str) -> Mismatch {
    Mismatch::new(&format!("{step:?}"), text)
}

fn text_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| text.to_string()))
        .unwrap_or_default()
}

/// Runs random operations on subjects that `make` makes, each of which is new and empty; one, unless
/// something is found.
///
/// # Panics
/// Panics if an answer, or the tree, is not what the model says; with the seed, the last operations and a
/// small history that fails.
pub fn check<S: Subject>(config: Config, mut make: impl FnMut() -> S) {
    let mut ran = Vec::new();
    let Err(found) = generated(config, &mut make, &mut ran) else {
        return;
    };
    let mut report = format!(
        "subject and model differ (PANDOFS_SEED={} PANDOFS_OPS={}, operation {}):\n    {}\n",
        config.seed,
        config.ops,
        ran.len(),
        found.message
    );
    match replay(config, &mut make, &ran) {
        Ok(()) => {
            report += "It did not happen again with the same operations. The last ones:\n";
            for step in &ran[ran.len().saturating_sub(TAIL)..] {
                report += &format!("    {step:?}\n");
            }
        }
        Err(again) => {
            let (small, found) = shrink(config, &mut make, ran, again);
            report += &format!("{} operations are enough:\n", small.len());
            for step in &small {
                report += &format!("    {step:?}\n");
            }
            report += &format!("end in:\n    {}\n", found.message);
        }
    }
    panic!("{report}");
}

/// Runs generated operations, and keeps those that ran.
fn generated<S: Subject>(
    config: Config,
    make: &mut dyn FnMut() -> S,
    ran: &mut Vec<Step>,
) -> Result<(), Mismatch> {
    let mut pair = Pair::new(make);
    let mut generator = Generator::new(config.seed, pair.subject.traits());
    let mut since = 0;
    while ran.len() < config.ops {
        let step = generator.step(&pair.model);
        ran.push(step.clone());
        if !pair.step(&step)? {
            ran.pop();
            continue;
        }
        since += 1;
        if since == config.compare_every {
            since = 0;
            pair.compare_trees()?;
        }
    }
    pair.finish()
}

/// Runs operations again from the start.
fn replay<S: Subject>(
    config: Config,
    make: &mut dyn FnMut() -> S,
    steps: &[Step],
) -> Result<(), Mismatch> {
    let mut pair = Pair::new(make);
    for (number, step) in steps.iter().enumerate() {
        pair.step(step)?;
        if (number + 1) % config.compare_every == 0 {
            pair.compare_trees()?;
        }
    }
    pair.finish()
}

/// Leaves out operations as long as the rest still fails in the same way.
fn shrink<S: Subject>(
    config: Config,
    make: &mut dyn FnMut() -> S,
    mut steps: Vec<Step>,
    found: Mismatch,
) -> (Vec<Step>, Mismatch) {
    let deadline = Instant::now() + config.shrink;
    let mut last = found;
    let mut chunk = steps.len().div_ceil(2);
    loop {
        let mut at = 0;
        let mut shorter = false;
        while at < steps.len() && Instant::now() < deadline {
            let mut without = steps.clone();
            without.drain(at..(at + chunk).min(steps.len()));
            match replay(config, make, &without) {
                Err(found) if found.kind == last.kind => {
                    steps = without;
                    last = found;
                    shorter = true;
                }
                _ => at += chunk,
            }
        }
        if Instant::now() >= deadline || (chunk == 1 && !shorter) {
            return (steps, last);
        }
        if !shorter || chunk > 1 {
            chunk = (chunk / 2).max(1);
        }
    }
}

#[cfg(test)]
mod tests;
