//! The cluster of the trial, and the machine of the one server that loses its power.

use anyhow::{Context, Result, bail, ensure};
use pandofs_client::{Client, Options};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time after which anything is taken to hang.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// The time in which a server that serves answers.
const ANSWER: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(20);
/// The server that loses its power.
pub(super) const VICTIM: u16 = 1;
/// Message of a server that does not start.
const REFUSAL: &str = "cannot start server";
const SERVERS: &str = "3";
const STRIPE_UNIT: &str = "65536";

pub(super) struct Cluster {
    folder: PathBuf,
    pandofs: PathBuf,
    up: Option<Child>,
    lossy: Child,
    /// The numbers of the connections to the kernel: the disk's, and the mount's while there is one.
    disk: u32,
    mounted: Option<u32>,
}

/// Calls until it says yes.
///
/// # Errors
/// Fails if it does not for too long.
fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !is_so()? {
        ensure!(
            begun.elapsed() < PATIENCE,
            "waited for {what} for {PATIENCE:?}"
        );
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?} ended with {}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Also of one that was not waited for yet.
fn has_ended(pid: Pid) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status"));
    status.map_or(true, |status| {
        status.contains("\nState:\tZ") || status.contains("\nState:\tX")
    })
}

impl Cluster {
    /// Makes a cluster, and moves what one server has to a disk that forgets.
    ///
    /// # Errors
    /// The step that cannot be done.
    pub(super) fn start(
        folder: &Path,
        pandofs: &Path,
        lossy: &Path,
        seed: u64,
        lie: bool,
    ) -> Result<Cluster> {
        fs::create_dir_all(folder)?;
        ensure!(
            fs::read_dir(folder)?.next().is_none(),
            "{} is not empty",
            folder.display()
        );
        let folder = folder.canonicalize()?;
        run(Command::new(pandofs)
            .args([
                "up",
                "--no-mount",
                "--servers",
                SERVERS,
                "--stripe-unit",
                STRIPE_UNIT,
                "--data",
            ])
            .arg(folder.join("data"))
            .args(["--", "true"]))?;
        let disk = folder.join(format!("data/server-{VICTIM}/data"));
        let before = folder.join("before");
        fs::rename(&disk, &before)?;
        fs::create_dir(&disk)?;
        let control = folder.join("control");
        let child = Command::new(lossy)
            .arg("--control")
            .arg(&control)
            .args(["--seed", &seed.to_string()])
            .args(lie.then_some("--lie"))
            .arg(&disk)
            .spawn()
            .with_context(|| format!("cannot run {}", lossy.display()))?;
        let mut cluster = Cluster {
            folder,
            pandofs: pandofs.to_owned(),
            up: None,
            lossy: child,
            disk: 0,
            mounted: None,
        };
        wait_until("the disk", || is_mounted(&disk))?;
        cluster.disk = connection(&disk)?;
        run(Command::new("cp")
            .arg("-a")
            .arg(before.join("."))
            .arg(&disk))?;
        cluster.tell_disk("sync")?;
        fs::remove_dir_all(before)?;
        Ok(cluster)
    }

    pub(super) fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    pub(super) fn mount(&self) -> PathBuf {
        self.folder.join("mnt")
    }

    fn tell_disk(&self, what: &str) -> Result<String> {
        let mut connection = UnixStream::connect(self.folder.join("control"))?;
        writeln!(connection, "{what}")?;
        let mut answer = String::new();
        BufReader::new(connection).read_line(&mut answer)?;
        Ok(answer.trim_end().to_owned())
    }

    /// Starts servers and mount.
    ///
    /// # Errors
    /// Fails if they do not serve.
    pub(super) fn up(&mut self) -> Result<()> {
        let said = self.folder.join("up.txt");
        let up = Command::new(&self.pandofs)
            .arg("up")
            .arg("--data")
            .arg(self.data())
            .arg("--mount")
            .arg(self.mount())
            .stdout(Stdio::null())
            .stderr(File::create(&said)?)
            .spawn()?;
        let up = self.up.insert(up);
        wait_until("the cluster to be up", || {
            ensure!(up.try_wait()?.is_none(), "'pandofs up' ended");
            Ok(fs::read_to_string(&said)?.contains(" are up\n"))
        })?;
        self.mounted = Some(connection(&self.mount())?);
        Ok(())
    }

    fn signal_up(&self, signal: Signal) -> Result<()> {
        let up = self.up.as_ref().context("it is not up")?;
        Ok(kill_process(Pid::from_child(up), signal)?)
    }

    /// The victim dies, its disk loses what was not synced, and it starts as after a start of its machine. `lost` is set
    /// at the moment. Returns what the disk says of it.
    ///
    /// # Errors
    /// The step that cannot be done.
    pub(super) fn cut(&self, lost: &AtomicBool) -> Result<String> {
        let server = self.data().join(format!("server-{VICTIM}"));
        let pid: i32 = fs::read_to_string(server.join("pid"))?.trim().parse()?;
        let pid = Pid::from_raw(pid).context("there is no process 0")?;
        // It starts nothing meanwhile.
        self.signal_up(Signal::STOP)?;
        lost.store(true, Ordering::SeqCst);
        kill_process(pid, Signal::KILL)?;
        wait_until("the end of the server", || Ok(has_ended(pid)))?;
        let met = self.tell_disk("cut")?;
        let renamed = rename_boot(&server.join("data/data/generations.json"));
        self.signal_up(Signal::CONT)?;
        renamed.map(|()| met)
    }

    /// Waits until all servers answer; or until the victim, if it `may_refuse`, has said why it does not start.
    ///
    /// # Errors
    /// Fails if they do neither.
    pub(super) fn wait(&self, may_refuse: bool) -> Result<Option<String>> {
        let log = self.data().join(format!("server-{VICTIM}/log.txt"));
        let mut refusal = None;
        wait_until("all servers to answer", || {
            let log = fs::read(&log)?;
            let log = String::from_utf8_lossy(&log);
            let said = log.lines().find(|line| line.contains(REFUSAL));
            refusal = said.filter(|_| may_refuse).map(str::to_owned);
            Ok(refusal.is_some() || self.all_answer())
        })?;
        Ok(refusal)
    }

    /// Asks from here: a process that is started closes the workers' files, which waits for the victim, and that may never
    /// be back.
    fn all_answer(&self) -> bool {
        let soft = Options {
            soft: Some(ANSWER),
            ..Options::default()
        };
        let client = Client::open(&self.data().join("cluster.json"), soft);
        client.is_ok_and(|client| client.status().iter().all(|(_, status)| status.is_ok()))
    }

    /// Has `pandofs` look at the cluster's data.
    ///
    /// # Errors
    /// The problems that it finds.
    pub(super) fn check(&self, how: &[&str]) -> Result<()> {
        run(Command::new(&self.pandofs)
            .args(how)
            .arg("--data")
            .arg(self.data()))
    }

    /// Panics in the logs of the servers' processes.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn panics(&self) -> Result<Vec<String>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(self.data())? {
            let path = entry?.path();
            for path in [path.join("log.txt"), path] {
                if path.is_file() {
                    let log = fs::read(&path)?;
                    let log = String::from_utf8_lossy(&log);
                    let lines = log.lines().filter(|line| line.contains("panicked at"));
                    found.extend(lines.map(str::to_owned));
                }
            }
        }
        Ok(found)
    }

    /// # Errors
    /// Fails if it does not end well.
    pub(super) fn stop(&mut self) -> Result<()> {
        self.signal_up(Signal::INT)?;
        let up = self.up.as_mut().context("it is not up")?;
        wait_until("'pandofs up' to end", || Ok(up.try_wait()?.is_some()))?;
        let ended = up.wait()?;
        self.up = None;
        ensure!(ended.success(), "'pandofs up' ended with {ended}");
        Ok(())
    }
}

impl Drop for Cluster {
    /// Leaves no mount and no process, whatever happened. A step that fails has ended already. No process is started:
    /// it would close the workers' files, which waits for the victim.
    fn drop(&mut self) {
        let detach = |path: &Path| {
            let _ = rustix::mount::unmount(path, UnmountFlags::DETACH);
        };
        if let Some(up) = &mut self.up {
            // The workers wait for it, and it for them.
            if let Err(error) = self.mounted.map_or(Ok(()), abort) {
                eprintln!("cannot end the mount: {error:#}");
            }
            detach(&self.folder.join("mnt"));
            let _ = up.kill();
            let _ = up.wait();
        }
        detach(&self.folder.join(format!("data/server-{VICTIM}/data")));
        let _ = self.lossy.kill();
        let ended = wait_until("the end of the disk", || {
            Ok(self.lossy.try_wait()?.is_some())
        });
        if let Err(error) = ended.or_else(|_| abort(self.disk)) {
            eprintln!("cannot end the disk: {error:#}");
        }
    }
}

/// Folder in which the kernel shows the connections of FUSE.
const CONNECTIONS: &str = "/sys/fs/fuse/connections";

/// Ends what waits for a mount whose process does not answer: else it stays, and so does a process
/// that looks at it in `/proc`.
fn abort(connection: u32) -> Result<()> {
    if !is_mounted(Path::new(CONNECTIONS))? {
        let flags = MountFlags::empty();
        rustix::mount::mount("none", CONNECTIONS, "fusectl", flags, None::<&CStr>)?;
    }
    let abort = Path::new(CONNECTIONS).join(connection.to_string());
    match fs::write(abort.join("abort"), "1") {
        // It is gone, as it is to be.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        written => Ok(written?),
    }
}

/// The number of a FUSE mount's connection to the kernel.
fn connection(mount: &Path) -> Result<u32> {
    Ok(rustix::fs::minor(fs::metadata(mount)?.dev()))
}

fn is_mounted(path: &Path) -> Result<bool> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let point = path.to_str().context("no UTF-8")?;
    Ok(mounts
        .lines()
        .any(|line| line.split(' ').nth(1) == Some(point)))
}

/// The record of which start of the machine it was gets another start's name, and the checksum that goes with it.
fn rename_boot(path: &Path) -> Result<()> {
    let text = match fs::read_to_string(path) {
        // A disk that lies may have lost it.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        text => text?,
    };
    let mut record: serde_json::Value = match serde_json::from_str(&text) {
        Ok(record) => record,
        // The server is to say what it thinks of it.
        Err(_) => return Ok(()),
    };
    let Some(generation) = record["generation"].as_u64() else {
        bail!("{} has no generation", path.display());
    };
    let lost = record["lost"].as_array().cloned().unwrap_or_default();
    let mut summed = format!("1 {generation} other ");
    for lost in lost {
        summed.push_str(&format!("{lost} "));
    }
    record["boot"] = "other".into();
    record["sum"] = crc32c::crc32c(summed.as_bytes()).into();
    let mut file = File::create(path)?;
    file.write_all(record.to_string().as_bytes())?;
    Ok(file.sync_all()?)
}
