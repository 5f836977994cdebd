//! Work of a person on a mount: a source tree unpacked, searched, copied, removed and cloned, and many small files.

use crate::rounds::{Rounds, print};
use crate::target::{Kind, Setup, Target, succeed};
use anyhow::{Context, Result, ensure};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// The measurements, in this order.
const PHASES: [&str; 12] = [
    "untar", "ls -lR", "grep -r", "cp -a", "rm -rf", "clone", "status", "write", "read", "again",
    "append", "link",
];
/// Bytes of a small file.
const FILE_BYTES: usize = 16 << 10;
/// Bytes of an append.
const APPENDED: &[u8] = b"leaf";
/// Step from one file to the next that is read, so that it is not the order in which they were made. No multiple of any number
/// of files below it.
const STRIDE: u64 = 7_919;

/// A person's work on several mounts.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    setup: Setup,
    /// The in-memory file system to compare with.
    #[arg(long)]
    memfs: PathBuf,
    /// The source tree: it is copied into an archive and a repository first.
    #[arg(long, default_value = "/usr/include")]
    tree: PathBuf,
    /// Small files of one round, also appends and hard links.
    #[arg(long, default_value_t = 4_000, value_parser = clap::value_parser!(u64).range(1..STRIDE))]
    files: u64,
    /// Rounds that count; one more comes first to warm up.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Targets to measure; ratios are taken to the first.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = [Kind::Memfs, Kind::Mount, Kind::Bindfs, Kind::Ext4])]
    targets: Vec<Kind>,
    /// Also write every figure here, a JSON object a line.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// The tree in the forms in which it comes.
struct Sources {
    archive: PathBuf,
    repository: PathBuf,
}

/// # Errors
/// When a target does not start, or a command or call on it fails.
pub(crate) fn run(options: &Options) -> Result<()> {
    ensure!(
        !options.targets.contains(&Kind::Library),
        "there is nothing to work on with ordinary programs in the library"
    );
    let scratch = options.setup.scratch()?;
    let sources = prepare(&options.tree, scratch.path())?;
    let mut targets = Vec::new();
    for &kind in &options.targets {
        eprintln!("starting {kind}");
        let target = Target::start(kind, &options.setup, &options.memfs, scratch.path())?;
        targets.push(target);
    }
    let names: Vec<String> = options.targets.iter().map(Kind::to_string).collect();
    let mut rounds = Rounds::new(names.iter().map(String::as_str).collect(), &PHASES);
    for round in 0..=options.rounds {
        for turn in 0..targets.len() {
            // The order changes, so that none always runs after the same neighbour.
            let which = (turn + round as usize) % targets.len();
            let place = targets[which].root.join(format!("round-{round}"));
            let seconds = measure(&place, &sources, options.files)
                .with_context(|| format!("{} in round {round}", names[which]))?;
            if round > 0 {
                rounds.add(which, seconds);
            }
        }
        eprintln!("round {round} of {} done", options.rounds);
    }
    for target in targets {
        target.stop()?;
    }
    report(options, &rounds)
}

fn report(options: &Options, rounds: &Rounds<'_>) -> Result<()> {
    let mut figure = rounds.figure("work", "A person's work on a mount", "seconds");
    figure.note(format!(
        "tree {}; {} files of {} KiB written and read twice, {} appends of {} bytes, as many hard links; {} servers",
        options.tree.display(),
        options.files,
        FILE_BYTES >> 10,
        options.files,
        APPENDED.len(),
        options.setup.servers,
    ));
    let ratios = rounds.ratios("work-ratios", "The same, compared");
    print(
        &options.setup.commit,
        options.json.as_deref(),
        &[figure, ratios],
    )
}

fn prepare(tree: &Path, scratch: &Path) -> Result<Sources> {
    let above = tree.parent().context("the tree has no parent")?;
    let name = tree.file_name().context("the tree has no name")?;
    let archive = scratch.join("tree.tar");
    let mut tar = Command::new("tar");
    tar.arg("-cf").arg(&archive).arg("-C").arg(above);
    // So that its name is always the same.
    let mut transform = std::ffi::OsString::from("--transform=s,^");
    transform.push(name);
    transform.push(",tree,");
    succeed(tar.arg(transform).arg(name))?;
    let repository = scratch.join("repository");
    fs::create_dir(&repository)?;
    succeed(
        Command::new("tar")
            .arg("-xf")
            .arg(&archive)
            .arg("-C")
            .arg(&repository),
    )?;
    for words in [
        &["init", "--quiet"][..],
        &["add", "--all"],
        &["commit", "--quiet", "--message", "The tree"],
    ] {
        succeed(git(&repository).args(words))?;
    }
    Ok(Sources {
        archive,
        repository,
    })
}

fn git(within: &Path) -> Command {
    let mut git = Command::new("git");
    let who = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"];
    git.arg("-C").arg(within).args(who);
    // A commit would begin to pack the repository in the background, and take objects away that a clone copies.
    git.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]);
    git
}

/// Seconds of each phase, in a new directory that is gone afterwards.
fn measure(place: &Path, sources: &Sources, files: u64) -> Result<Vec<f64>> {
    fs::create_dir(place)?;
    fs::create_dir(place.join("small"))?;
    let seconds = PHASES.iter().map(|phase| {
        let begun = Instant::now();
        work(phase, place, sources, files).context(*phase)?;
        Ok(begun.elapsed().as_secs_f64())
    });
    let seconds = seconds.collect::<Result<Vec<f64>>>()?;
    fs::remove_dir_all(place)?;
    Ok(seconds)
}

fn work(phase: &str, place: &Path, sources: &Sources, files: u64) -> Result<()> {
    let (tree, copy, clone) = (place.join("tree"), place.join("copy"), place.join("clone"));
    let small = |number: u64| place.join(format!("small/file-{number:06}"));
    let quietly = |command: &mut Command| succeed(command.stdout(Stdio::null()));
    match phase {
        "untar" => succeed(
            Command::new("tar")
                .arg("-xf")
                .arg(&sources.archive)
                .arg("-C")
                .arg(place),
        ),
        "ls -lR" => quietly(Command::new("ls").arg("-lR").arg(&tree)),
        "grep -r" => {
            // Nothing is found, which grep tells by 1.
            let status = Command::new("grep")
                .args(["-r", "zzyyxxwwvv"])
                .arg(&tree)
                .status()?;
            ensure!(status.code() == Some(1), "grep ended with {status}");
            Ok(())
        }
        "cp -a" => succeed(Command::new("cp").arg("-a").arg(&tree).arg(&copy)),
        "rm -rf" => succeed(Command::new("rm").arg("-rf").arg(&copy)),
        "clone" => succeed(
            git(place)
                .args(["clone", "--quiet"])
                .arg(&sources.repository)
                .arg(&clone),
        ),
        "status" => {
            let told = git(&clone).args(["status", "--porcelain"]).output()?;
            ensure!(
                told.status.success() && told.stdout.is_empty(),
                "the clone differs: {told:?}"
            );
            Ok(())
        }
        "write" => {
            for number in 0..files {
                fs::write(small(number), [7; FILE_BYTES])?;
            }
            Ok(())
        }
        "read" | "again" => {
            let mut found = Vec::with_capacity(FILE_BYTES + 1);
            for turn in 0..files {
                let number = turn * STRIDE % files;
                found.clear();
                File::open(small(number))?.read_to_end(&mut found)?;
                ensure!(
                    found == [7; FILE_BYTES],
                    "file {number} has not what was written"
                );
            }
            Ok(())
        }
        "append" => {
            let mut how = OpenOptions::new();
            let mut log = how.create(true).append(true).open(place.join("log"))?;
            for _ in 0..files {
                log.write_all(APPENDED)?;
            }
            let length = log.metadata()?.len();
            ensure!(
                length == files * APPENDED.len() as u64,
                "it is {length} bytes long"
            );
            Ok(())
        }
        _ => {
            for number in 0..files {
                fs::hard_link(small(0), place.join(format!("small/link-{number:06}")))?;
            }
            Ok(())
        }
    }
}
