//! Test programs and the simulator, each run with one fault planted until something fails.

use super::patch::{Fault, Finder};
use crate::workspace::{PREFIX, Problem};
use serde::Deserialize;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Says to the copy of the sources which rule is skipped.
const VARIABLE: &str = "PANDOFS_PLANTED_FAULT";
/// Crates whose tests are run: those that keep the protocols, and those that look at them.
const PACKAGES: [&str; 10] = [
    "commit",
    "leases",
    "namespace",
    "storage",
    "shard",
    "lane",
    "session",
    "deputy",
    "check",
    "sim",
];
/// Test programs that are left out: they plant other things, or are the simulator once more.
const LEFT_OUT: [&str; 2] = ["planted", "runs"];
/// Program of the simulator.
const SIMULATOR: &str = "pandofs-sim";
/// A test program or simulator that takes so many times as long as with nothing planted does not end.
const PATIENCE: u32 = 8;
/// But it has at least so long.
const LEAST_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether a program has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Result of the search for one fault.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Nothing, if it lives.
    pub by: Option<String>,
    pub took: Duration,
}

/// A test program.
#[derive(Debug)]
struct Program {
    /// Without `pandofs-`.
    package: String,
    /// `lib` for the tests beside the code.
    target: String,
    executable: PathBuf,
    dir: PathBuf,
    /// With nothing planted.
    takes: Duration,
}

/// Programs that were built with all faults in them.
#[derive(Debug)]
pub(crate) struct Runner {
    programs: Vec<Program>,
    simulator: PathBuf,
    seeds: u64,
    /// The time that all seeds take with nothing planted.
    seeds_take: Duration,
    output: PathBuf,
}

/// A line of what cargo tells of what it has built.
#[derive(Deserialize)]
struct Built {
    target: Target,
    manifest_path: PathBuf,
    executable: Option<PathBuf>,
    profile: Profile,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Passed,
    Failed,
    /// Not within its time.
    Never,
}

impl Runner {
    /// Builds the programs of the sources in `tree`.
    pub(crate) fn build(tree: &Path, seeds: u64) -> Result<Runner, Problem> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let packages = PACKAGES
            .iter()
            .flat_map(|name| ["--package".to_owned(), format!("{PREFIX}{name}")]);
        let place = tree.parent().unwrap_or(tree);
        let output = Command::new(cargo)
            .args([
                "test",
                "--release",
                "--no-run",
                "--locked",
                "--message-format",
                "json-render-diagnostics",
            ])
            .args(packages)
            .current_dir(tree)
            .env("CARGO_TARGET_DIR", place.join("target"))
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| Problem::Faults(format!("cargo cannot be run: {error}")))?;
        if !output.status.success() {
            return Err(Problem::Faults(
                "the sources with the faults in them cannot be built".to_owned(),
            ));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let built = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Built>(line).ok());
        let (mut programs, mut simulator) = (Vec::new(), None);
        for built in built {
            let Some(executable) = built.executable else {
                continue;
            };
            let is_library = built.target.kind.iter().any(|kind| kind == "lib");
            let is_left_out = LEFT_OUT.contains(&built.target.name.as_str());
            if built.profile.test && !is_left_out {
                let dir = built.manifest_path.parent().unwrap_or(tree).to_owned();
                let package = dir
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                programs.push(Program {
                    package,
                    target: if is_library {
                        "lib".to_owned()
                    } else {
                        built.target.name
                    },
                    executable,
                    dir,
                    takes: Duration::ZERO,
                });
            } else if built.target.name == SIMULATOR {
                simulator = Some(executable);
            }
        }
        let simulator =
            simulator.ok_or_else(|| Problem::Faults("the simulator was not built".to_owned()))?;
        Ok(Runner {
            programs,
            simulator,
            seeds,
            seeds_take: LEAST_PATIENCE,
            output: place.join("output"),
        })
    }

    /// Runs everything with nothing planted, and notes how long each takes. Returns what fails.
    pub(crate) fn find_nothing(&mut self) -> Result<Option<String>, Problem> {
        for at in 0..self.programs.len() {
            let (end, took, text) = self.run_tests(at, None, &[], Duration::MAX)?;
            if end != End::Passed {
                return Ok(Some(self.tell(at, &end, &text)));
            }
            self.programs[at].takes = took;
        }
        self.programs.sort_by_key(|program| program.takes);
        let (found, took) = self.simulate(None, Duration::MAX)?;
        self.seeds_take = took;
        Ok(found.map(|(oracle, seed)| format!("{oracle} of seed {seed}")))
    }

    /// Looks for a fault with all that there is: tests of its crate first, then the others, and the simulator at last.
    pub(crate) fn find(&self, fault: &Fault) -> Result<Outcome, Problem> {
        let began = Instant::now();
        let mut order: Vec<usize> = (0..self.programs.len()).collect();
        order.sort_by_key(|&at| self.programs[at].package != fault.package);
        for at in order {
            let limit = patience(self.programs[at].takes);
            let (end, _, text) = self.run_tests(at, Some(fault), &[], limit)?;
            if end != End::Passed {
                let by = Some(self.tell(at, &end, &text));
                let took = began.elapsed();
                return Ok(Outcome { by, took });
            }
        }
        let (found, _) = self.simulate(Some(fault), patience(self.seeds_take))?;
        let by = found.map(|(oracle, seed)| format!("sim {oracle}, seed {seed}"));
        let took = began.elapsed();
        Ok(Outcome { by, took })
    }

    /// Looks for a fault with what its patch names alone.
    pub(crate) fn find_as_named(&self, fault: &Fault) -> Result<Outcome, Problem> {
        let began = Instant::now();
        let by = match &fault.found_by {
            Finder::Test {
                package,
                target,
                test,
            } => {
                let name = package.strip_prefix(PREFIX).unwrap_or(package);
                let is_it = |of: &Program| of.package == name && of.target == *target;
                let at = self.programs.iter().position(is_it);
                let at = at.ok_or_else(|| {
                    let text = format!("{}: {package} has no tests {target}", fault.name);
                    Problem::Faults(text)
                })?;
                let limit = patience(self.programs[at].takes);
                let only = ["--exact", test.as_str()];
                let (end, _, text) = self.run_tests(at, Some(fault), &only, limit)?;
                if end == End::Passed && !text.contains("1 passed") {
                    return Err(Problem::Faults(format!(
                        "{}: there is no test {test}",
                        fault.name
                    )));
                }
                (end != End::Passed).then(|| self.tell(at, &end, &text))
            }
            Finder::NothingYet => return self.find(fault),
            Finder::Sim { .. } => {
                let (found, _) = self.simulate(Some(fault), patience(self.seeds_take))?;
                found.map(|(oracle, seed)| format!("sim {oracle}, seed {seed}"))
            }
        };
        let took = began.elapsed();
        Ok(Outcome { by, took })
    }

    fn run_tests(
        &self,
        at: usize,
        fault: Option<&Fault>,
        arguments: &[&str],
        limit: Duration,
    ) -> Result<(End, Duration, String), Problem> {
        let program = &self.programs[at];
        let mut command = Command::new(&program.executable);
        command.args(arguments).current_dir(&program.dir);
        self.run(command, fault, limit)
    }

    /// Runs seeds until one fails; the oracle that found something, and the seed.
    fn simulate(
        &self,
        fault: Option<&Fault>,
        limit: Duration,
    ) -> Result<(Option<(String, String)>, Duration), Problem> {
        let mut command = Command::new(&self.simulator);
        command.args(["--first", "--seeds", &self.seeds.to_string()]);
        let (end, took, text) = self.run(command, fault, limit)?;
        let found = match end {
            End::Passed => None,
            End::Failed | End::Never => {
                Some(finding(&text).unwrap_or(("?".to_owned(), "?".to_owned())))
            }
        };
        Ok((found, took))
    }

    fn run(
        &self,
        mut command: Command,
        fault: Option<&Fault>,
        limit: Duration,
    ) -> Result<(End, Duration, String), Problem> {
        let problem = |error| Problem::Read(self.output.clone(), error);
        let file = File::create(&self.output).map_err(problem)?;
        let also = file.try_clone().map_err(problem)?;
        command.stdin(Stdio::null()).stdout(file).stderr(also);
        match fault {
            Some(fault) => command.env(VARIABLE, &fault.name),
            None => command.env_remove(VARIABLE),
        };
        let began = Instant::now();
        let program = command.get_program().to_owned();
        let cannot = |error| Problem::Faults(format!("{program:?} cannot be run: {error}"));
        let mut child = command.spawn().map_err(cannot)?;
        let end = loop {
            if let Some(status) = child.try_wait().map_err(problem)? {
                break if status.success() {
                    End::Passed
                } else {
                    End::Failed
                };
            }
            if began.elapsed() > limit {
                child.kill().map_err(problem)?;
                child.wait().map_err(problem)?;
                break End::Never;
            }
            std::thread::sleep(LOOK);
        };
        let text = std::fs::read(&self.output).map_err(problem)?;
        Ok((
            end,
            began.elapsed(),
            String::from_utf8_lossy(&text).into_owned(),
        ))
    }

    /// The first test that failed, as a patch's header names it.
    fn tell(&self, at: usize, end: &End, text: &str) -> String {
        let Program {
            package, target, ..
        } = &self.programs[at];
        let test = match end {
            End::Never => "one that does not end",
            _ => failed(text).unwrap_or("?"),
        };
        format!("test {PREFIX}{package} {target} {test}")
    }
}

fn patience(takes: Duration) -> Duration {
    takes.saturating_mul(PATIENCE).max(LEAST_PATIENCE)
}

/// The first test that failed, by the output of a test program.
fn failed(text: &str) -> Option<&str> {
    let mut lines = text.lines();
    lines.find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"))
}

/// Oracle and seed of what the simulator has found.
fn finding(text: &str) -> Option<(String, String)> {
    let line = text.lines().find(|line| line.starts_with("seed "))?;
    let (seed, what) = line.strip_prefix("seed ")?.split_once(" failed: ")?;
    let (oracle, _) = what.split_once(':')?;
    Some((oracle.to_owned(), seed.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_read_from_the_output() {
        let text =
            "running 3 tests\ntest a::b ... ok\ntest a::c ... FAILED\ntest a::d ... FAILED\n";
        assert_eq!(failed(text), Some("a::c"));
        assert_eq!(failed("test a::b ... ok\n"), None);
        let text = "seed 17 failed: owners: at 5, shards 1 and 2\n16 seeds passed\n";
        assert_eq!(finding(text), Some(("owners".to_owned(), "17".to_owned())));
        assert_eq!(finding("16 seeds passed\n"), None);
    }

    #[test]
    fn a_program_that_is_slow_is_waited_for() {
        assert_eq!(patience(Duration::ZERO), LEAST_PATIENCE);
        assert_eq!(patience(Duration::from_secs(100)), Duration::from_secs(800));
        assert_eq!(patience(Duration::MAX), Duration::MAX);
    }
}
