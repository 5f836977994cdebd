//! Worker processes, and the clock over them.

use crate::target::{Kind, Target};
use anyhow::{Context, Result, bail};
use pandofs_client::{Client, OpenHow, Options};
use pandofs_types::{Credentials, Ino, Name};
use serde::Serialize;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

/// Operations a second of one round, all processes together.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    pub create: f64,
    pub stat: f64,
    pub remove: f64,
}

const PHASES: [&str; 3] = ["create", "stat", "remove"];

/// Waits for each phase's word on its input, does it, and says `done`.
#[derive(clap::Args)]
pub(crate) struct Worker {
    #[arg(long)]
    directory: PathBuf,
    #[arg(long)]
    cluster: Option<PathBuf>,
    #[arg(long)]
    rank: u32,
    #[arg(long)]
    files: u64,
}

impl Worker {
    pub(crate) fn run(&self) -> Result<()> {
        let mut work: Box<dyn Phases> = match &self.cluster {
            Some(cluster) => Box::new(ThroughLibrary::open(cluster, &self.directory)?),
            None => Box::new(ThroughKernel {
                directory: self.directory.clone(),
            }),
        };
        let names: Vec<String> = (0..self.files)
            .map(|file| format!("file.{}.{file}", self.rank))
            .collect();
        let mut lines = std::io::stdin().lines();
        println!("ready");
        std::io::stdout().flush()?;
        while let Some(phase) = lines.next().transpose()? {
            for name in &names {
                work.one(&phase, name)
                    .with_context(|| format!("{phase} {name}"))?;
            }
            println!("done");
            std::io::stdout().flush()?;
        }
        Ok(())
    }
}

trait Phases {
    fn one(&mut self, phase: &str, name: &str) -> Result<()>;
}

struct ThroughKernel {
    directory: PathBuf,
}

impl Phases for ThroughKernel {
    fn one(&mut self, phase: &str, name: &str) -> Result<()> {
        let path = self.directory.join(name);
        match phase {
            "create" => drop(std::fs::File::create_new(path)?),
            "stat" => {
                std::fs::metadata(path)?;
            }
            "remove" => std::fs::remove_file(path)?,
            other => bail!("there is no phase {other}"),
        }
        Ok(())
    }
}

struct ThroughLibrary {
    client: Client,
    directory: Ino,
    caller: Credentials,
}

impl ThroughLibrary {
    fn open(cluster: &Path, directory: &Path) -> Result<ThroughLibrary> {
        let client = Client::open(cluster, Options::default())?;
        let caller = Credentials::ROOT;
        let name = directory
            .file_name()
            .context("a directory below the root")?;
        let name = Name::new(name.as_encoded_bytes())?;
        let directory = client.lookup(&caller, Ino::ROOT, &name)?.ino;
        Ok(ThroughLibrary {
            client,
            directory,
            caller,
        })
    }
}

impl Phases for ThroughLibrary {
    fn one(&mut self, phase: &str, name: &str) -> Result<()> {
        let name = Name::new(name.as_bytes())?;
        match phase {
            "create" => {
                let how = OpenHow {
                    access: 2,
                    truncate: false,
                    exclusive: true,
                };
                let made = self
                    .client
                    .create(&self.caller, self.directory, &name, 0o644, how)?;
                self.client.release(made.node.ino)?;
            }
            "stat" => {
                self.client.lookup(&self.caller, self.directory, &name)?;
            }
            "remove" => {
                self.client.unlink(&self.caller, self.directory, &name)?;
            }
            other => bail!("there is no phase {other}"),
        }
        Ok(())
    }
}

struct Process {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn expect(&mut self, word: &str) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim_end() != word {
            bail!("a process said {line:?} where {word:?} was due");
        }
        Ok(())
    }
}

/// One round on a fresh directory.
pub(crate) fn measure(target: &Target, name: &str, processes: u32, files: u64) -> Result<Figures> {
    let directory = target.root.join(name);
    make_directory(target, &directory)?;
    let each = files / u64::from(processes);
    let mut crew = (0..processes)
        .map(|rank| start(target, &directory, rank, each))
        .collect::<Result<Vec<Process>>>()?;
    for process in &mut crew {
        process.expect("ready")?;
    }
    let mut rates = [0.0; 3];
    for (phase, rate) in PHASES.iter().zip(&mut rates) {
        let begun = Instant::now();
        for process in &mut crew {
            writeln!(process.input, "{phase}")?;
        }
        for process in &mut crew {
            process.expect("done")?;
        }
        *rate = (each * u64::from(processes)) as f64 / begun.elapsed().as_secs_f64();
    }
    for mut process in crew {
        drop(process.input);
        let status = process.child.wait()?;
        if !status.success() {
            bail!("a process ended with {status}");
        }
    }
    remove_directory(target, &directory)?;
    let [create, stat, remove] = rates;
    Ok(Figures {
        create,
        stat,
        remove,
    })
}

fn start(target: &Target, directory: &Path, rank: u32, files: u64) -> Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("worker").arg("--directory").arg(directory);
    command
        .arg("--rank")
        .arg(rank.to_string())
        .arg("--files")
        .arg(files.to_string());
    if target.kind == Kind::Library
        && let Some(cluster) = &target.cluster
    {
        command.arg("--cluster").arg(cluster);
    }
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let input = child.stdin.take().context("a pipe to the process")?;
    let output = BufReader::new(child.stdout.take().context("a pipe from the process")?);
    Ok(Process {
        child,
        input,
        output,
    })
}

fn with_library(target: &Target) -> Result<Client> {
    let cluster = target
        .cluster
        .as_deref()
        .context("the library's target has a map")?;
    Ok(Client::open(cluster, Options::default())?)
}

fn make_directory(target: &Target, directory: &Path) -> Result<()> {
    if target.kind != Kind::Library {
        return Ok(std::fs::create_dir(directory)?);
    }
    let name = directory
        .file_name()
        .context("a directory below the root")?;
    let name = Name::new(name.as_encoded_bytes())?;
    with_library(target)?.mkdir(&Credentials::ROOT, Ino::ROOT, &name, 0o755)?;
    Ok(())
}

fn remove_directory(target: &Target, directory: &Path) -> Result<()> {
    if target.kind != Kind::Library {
        return Ok(std::fs::remove_dir(directory)?);
    }
    let name = directory
        .file_name()
        .context("a directory below the root")?;
    let name = Name::new(name.as_encoded_bytes())?;
    with_library(target)?.rmdir(&Credentials::ROOT, Ino::ROOT, &name)?;
    Ok(())
}
