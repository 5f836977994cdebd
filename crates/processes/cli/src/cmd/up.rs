//! `pandofs up`

use crate::datadir::DataDir;
use crate::exit::Outcome;
use crate::metrics::{self, MetricsOptions};
use crate::mount_options::MountOptions;
use crate::new_cluster::FsOptions;
use crate::server_options::ServerOptions;
use crate::source::read_cluster;
use crate::traces::TracesOptions;
use crate::unmount::clean_dead_mount;
use crate::up::{self, End, NewCluster, Plan, Recipe, Role, UpReport, Voice};
use crate::{mounts, processes, units};
use anyhow::{Context, Result, bail};
use clap::Args;
use pandofs_placement::{ClusterMap, ServerInfo};
use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// How long the mount of an `up` that was killed may take to end.
const OLD_MOUNT_TIMEOUT: Duration = Duration::from_secs(60);
const OLD_MOUNT_PAUSE: Duration = Duration::from_millis(50);

const EXAMPLES: &str = "\
Examples:
  pandofs up --servers 4 --data /var/tmp/pando --mount /mnt/pando
      four servers and a mount; on the first run the file system is made
  pandofs up --data /var/tmp/pando --mount /mnt/pando
      the same again: the number of servers is in the cluster map
  pandofs up --data /var/tmp/pando --no-mount --tcp=192.0.2.1:7400 --trust-network
      servers only, reached over TCP on the ports 7400, 7401, … by whoever reaches these ports
  pandofs up --data /tmp/w --mount /mnt/w --weights 1,1,2,4 --domains left,left,right,right
      a new cluster of four servers, of which the last is to have half of all new directories
  pandofs up --data /var/tmp/pando --mount /mnt/pando --metrics 9100
      with what they count at http://127.0.0.1:9100/metrics (the mount), :9101 (server 0), :9102, …
  pandofs up --data /tmp/p --no-mount --quiet --json | jq '.servers[] | {id, addresses, log}'
      for scripts: addresses, folders, logs and process ids, once all is up
  pandofs up --data /tmp/p --mount /mnt/p -- make -C /mnt/p/src
      run a command on it, then stop; ends with the command's exit code

Ctrl-C unmounts, stops the servers cleanly and ends with exit code 0. The data stays.";

/// Run a whole cluster on this machine: servers and a mount
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Up {
    /// Servers [default: those of the cluster in DIR, or of a new one as many as --weights or --domains has, or 4]
    #[arg(long, value_name = "N")]
    servers: Option<u16>,
    /// Where the cluster's data is or is to be [env: PANDOFS_DATA]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where to mount it; made when it is not there
    #[arg(long, value_name = "DIR", required_unless_present = "no_mount")]
    mount: Option<PathBuf>,
    /// Start the servers only
    #[arg(long, conflicts_with = "mount")]
    no_mount: bool,
    /// Let the servers of a new cluster listen on TCP, on this port and those after it, instead of
    /// Unix sockets
    #[arg(
        long,
        value_name = "ADDRESS:PORT",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "127.0.0.1:7400"
    )]
    tcp: Option<SocketAddr>,
    /// With --tcp: whoever can connect to these ports may do with the file system whatever root may
    #[arg(long, requires = "tcp")]
    trust_network: bool,
    /// Leave a server or mount that ended by itself as it is
    #[arg(long)]
    no_restart: bool,
    /// Once all of it is up, print what was started to standard output, as a JSON document on one line
    #[arg(long, conflicts_with = "command")]
    json: bool,
    /// Tell of problems only; DIR/up-log.txt has the rest
    #[arg(short, long)]
    quiet: bool,
    /// Bytes of memory that the mount's process takes at most [default: 1G]
    #[arg(long, value_name = "BYTES", value_parser = units::parse_bytes)]
    mount_memory: Option<u64>,
    #[command(flatten)]
    mount_options: MountOptions,
    #[command(flatten)]
    server_options: ServerOptions,
    #[command(flatten)]
    options: FsOptions,
    /// A command to run once everything serves
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// How mount and servers show what they do.
#[derive(Clone)]
struct Shown {
    /// The mount's.
    metrics: MetricsOptions,
    traces: TracesOptions,
}

impl Up {
    /// Runs until it is ordered to stop. `given`: the options on the command line, without
    /// defaults.
    ///
    /// # Errors
    /// When the cluster cannot be run, or did not stop cleanly.
    pub(crate) fn run(&self, given: Vec<String>) -> Result<Outcome> {
        let wanted = NewCluster {
            servers: self.servers,
            given,
            tcp: self.tcp,
            options: &self.options,
        };
        if let Some(address) = self.tcp.filter(|_| !self.trust_network) {
            bail!(
                "--tcp {address}: nothing is authenticated over TCP, so whoever can connect there, every user of this machine \
                 if it is a loopback address, may do with the file system whatever root may; add --trust-network if all of \
                 them may, or leave out --tcp: Unix sockets are for their owner alone"
            );
        }
        // First, so that nothing is made for a file system that cannot be.
        up::check_options(&wanted)?;
        self.server_options.check()?;
        let mount_options = MountOptions {
            memory: self.mount_memory,
            slow: Some(self.server_options.slow),
            ..self.mount_options.clone()
        };
        let MountOptions {
            metrics, traces, ..
        } = mount_options.resolved()?;
        check_ports(&metrics, self.servers.unwrap_or(1).saturating_sub(1))?;
        let dir = self.data_dir()?;
        up::check_directory(&dir)?;
        let _held = dir.hold()?;
        let mut voice = Voice::new(&dir.up_log(), self.quiet || !self.command.is_empty());
        // Nor for a mount that cannot be.
        let mount_point = self
            .mount
            .as_deref()
            .map(|point| prepare_mount_point(point, &dir, &mut voice))
            .transpose()?;
        let map = up::open_or_create(&dir, &wanted, &mut voice)?;
        let last = map.servers.iter().map(|server| server.id.0).max();
        check_ports(&metrics, last.unwrap_or_default())?;
        let shown = Shown { metrics, traces };
        let plan = self.plan(&dir, &map, mount_point.as_deref(), &mount_options, &shown);
        let servers: Vec<u16> = map.servers.iter().map(|server| server.id.0).collect();
        let named = units::plural(servers.len() as u64, "server", "servers");
        voice.note(&format!("starting {named}"));
        let end = up::supervise(plan, &mut voice, |voice| {
            voice.note(&usage(&dir, mount_point.as_deref(), &servers, &metrics));
            if self.json
                && let Err(error) = print_report(&dir, &map, mount_point.as_deref(), metrics)
            {
                voice.problem(&format!("cannot print JSON: {error:#}"));
            }
        })?;
        voice.note("stopped");
        Ok(match end {
            End::Signal => Outcome::Done,
            End::Command(code) => Outcome::Other(code),
        })
    }

    fn data_dir(&self) -> Result<DataDir> {
        let variable = std::env::var_os(crate::source::DATA_VARIABLE).map(PathBuf::from);
        let data = self.data.clone().or(variable).context(
            "where is its data to be? Give --data DIR, a directory that is there or is to be made",
        )?;
        fs::create_dir_all(&data)
            .with_context(|| format!("cannot make --data {}", data.display()))?;
        let data = fs::canonicalize(&data)
            .with_context(|| format!("cannot find --data {}", data.display()))?;
        Ok(DataDir::new(data))
    }

    /// All servers of the cluster, whenever its map has changed.
    fn joined(
        &self,
        dir: &DataDir,
        map: &ClusterMap,
        shown: &Shown,
    ) -> impl FnMut() -> Option<Vec<Recipe>> + use<> {
        let (options, dir, shown) = (self.server_options.clone(), dir.clone(), shown.clone());
        let mut last = map.epoch;
        let mut seen = modified(&dir);
        move || {
            let now = modified(&dir);
            if now == seen {
                return None;
            }
            // It is replaced as a whole; what cannot be read is looked at again when it has changed again.
            seen = now;
            let map = read_cluster(&dir.cluster_map(), None).ok()?.map;
            (map.epoch > std::mem::replace(&mut last, map.epoch))
                .then(|| servers(&options, &shown, &dir, &map))
        }
    }

    fn plan(
        &self,
        dir: &DataDir,
        map: &ClusterMap,
        mount_point: Option<&Path>,
        mount_options: &MountOptions,
        shown: &Shown,
    ) -> Plan {
        let cluster = [OsString::from("--cluster"), dir.cluster_map().into()];
        let mount = mount_point.map(|point| {
            let mut arguments: Vec<OsString> = vec!["mount".into()];
            arguments.extend(cluster.iter().cloned());
            arguments.extend(mount_options.arguments());
            arguments.push(point.into());
            Recipe {
                role: Role::Mount,
                arguments,
                log: dir.mount_log(),
                pid_file: dir.mount_pid(),
            }
        });
        Plan {
            servers: servers(&self.server_options, shown, dir, map),
            joined: Box::new(self.joined(dir, map, shown)),
            mount,
            mount_point: mount_point.map(Path::to_owned),
            restart: !self.no_restart,
            command: self.command.clone(),
        }
    }
}

fn modified(dir: &DataDir) -> Option<SystemTime> {
    let file = fs::metadata(dir.cluster_map());
    file.and_then(|file| file.modified()).ok()
}

/// How to run each server of the map.
fn servers(options: &ServerOptions, shown: &Shown, dir: &DataDir, map: &ClusterMap) -> Vec<Recipe> {
    let recipe = |server: &ServerInfo| {
        let mut arguments: Vec<OsString> = vec!["serve".into()];
        arguments.extend(["--cluster".into(), dir.cluster_map().into()]);
        arguments.extend(["--id".into(), server.id.to_string().into()]);
        arguments.extend(["--data".into(), dir.server_data(server.id).into()]);
        arguments.extend(options.arguments());
        // One that joins and for which there is no port left serves all the same.
        let metrics = shown.metrics.of_server(server.id.0).unwrap_or_default();
        arguments.extend(metrics.arguments());
        arguments.extend(shown.traces.arguments());
        Recipe {
            role: Role::Server(server.id),
            arguments,
            log: dir.server_log(server.id),
            pid_file: dir.server_pid(server.id),
        }
    };
    map.servers.iter().map(recipe).collect()
}

/// Makes the mount point fit to be mounted on.
fn prepare_mount_point(point: &Path, dir: &DataDir, voice: &mut Voice) -> Result<PathBuf> {
    let point = mounts::absolute(point)
        .with_context(|| format!("cannot find --mount {}", point.display()))?;
    if clean_dead_mount(&point)? {
        voice.note(&format!(
            "unmounted what a killed mount had left on {}",
            point.display()
        ));
    }
    wait_for_old_mount(&point, dir, voice)?;
    if mounts::at(&mounts::all()?, &point).is_some_and(mounts::Mount::is_pandofs) {
        bail!(
            "a PandoFS is mounted on {} already: unmount it with 'pandofs umount {}', or choose \
             another --mount",
            point.display(),
            point.display()
        );
    }
    let found = match fs::read_dir(&point) {
        Ok(mut entries) => entries.next(),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::create_dir_all(&point)
                .with_context(|| format!("cannot make the mount point {}", point.display()))?;
            None
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot mount on {}", point.display()));
        }
    };
    if found.is_some() {
        bail!(
            "--mount {}: the directory is not empty, and a mount would hide what is in it; choose an \
             empty one",
            point.display()
        );
    }
    Ok(point)
}

/// The mount of an `up` that was killed ends by itself, when it has written what it still has.
fn wait_for_old_mount(point: &Path, dir: &DataDir, voice: &mut Voice) -> Result<()> {
    let map = dir.cluster_map();
    let map = map.canonicalize().unwrap_or(map);
    let deadline = Instant::now() + OLD_MOUNT_TIMEOUT;
    let mut is_told = false;
    while Instant::now() < deadline {
        let mounts = mounts::all()?;
        let mount = mounts::at(&mounts, point);
        if mount.and_then(mounts::Mount::cluster_map).as_ref() != Some(&map) {
            break;
        }
        let serving = processes::serving_mount(point);
        if !serving.into_iter().any(processes::is_orphan) {
            break;
        }
        if !is_told {
            voice.note("waiting for the mount of the last run to end");
            is_told = true;
        }
        std::thread::sleep(OLD_MOUNT_PAUSE);
    }
    Ok(())
}

/// Whether all servers up to this one have a port for their metrics.
///
/// # Errors
/// With what to do.
fn check_ports(metrics: &MetricsOptions, last: u16) -> Result<()> {
    let Some(address) = metrics.address else {
        return Ok(());
    };
    if address.0.port() == 0 {
        bail!(
            "--metrics {address}: which ports would the servers have? Give one; server N gets the one N + 1 further"
        );
    }
    if metrics.of_server(last).is_none() {
        bail!(
            "--metrics {address}: there is no port for server {last}, N + 1 further for server N; give a lower one"
        );
    }
    Ok(())
}

/// Prints what was started, on one line.
///
/// # Errors
/// When it cannot be written.
fn print_report(
    dir: &DataDir,
    map: &ClusterMap,
    mount_point: Option<&Path>,
    metrics: MetricsOptions,
) -> Result<()> {
    let report = UpReport::new(dir, map, mount_point, metrics);
    let json = serde_json::to_string(&report).context("cannot write JSON")?;
    crate::print(&format!("{json}\n"))
}

fn usage(
    dir: &DataDir,
    mount_point: Option<&Path>,
    servers: &[u16],
    metrics: &MetricsOptions,
) -> String {
    let data = dir.root().display();
    let named = units::plural(servers.len() as u64, "server", "servers");
    let serving = match mount_point {
        Some(point) => format!("{named} and the mount on {} are up", point.display()),
        None if servers.len() == 1 => format!("{named} is up"),
        None => format!("{named} are up"),
    };
    let mut text = format!(
        "{serving}\n\
         \n  see them at work:     pandofs top --data {data}\
         \n  see a directory:      pandofs dir --data {data} /\
         \n  check everything:     pandofs fsck --data {data}"
    );
    if mount_point.is_none() {
        text.push_str(&format!(
            "\n  mount it:             pandofs mount --data {data} MOUNTPOINT"
        ));
    }
    text.push_str(&metrics_usage(mount_point.is_some(), servers, metrics));
    text.push_str("\n  stop:                 Ctrl-C\n");
    text
}

/// Where each of them tells its metrics.
fn metrics_usage(has_mount: bool, servers: &[u16], options: &MetricsOptions) -> String {
    let of_mount = has_mount.then(|| ("the mount".to_owned(), Some(*options)));
    let of_servers = servers
        .iter()
        .map(|&id| (format!("server {id}"), options.of_server(id)));
    let mut text = String::new();
    for (who, options) in of_mount.into_iter().chain(of_servers) {
        if let Some(address) = options.and_then(|options| options.address) {
            let what = format!("metrics of {who}:");
            text.push_str(&format!("\n  {what:<22}{}", metrics::url(address)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(address: &str) -> MetricsOptions {
        MetricsOptions {
            address: Some(address.parse().unwrap()),
            for_network: false,
        }
    }

    #[test]
    fn each_port_is_told() {
        assert_eq!(
            metrics_usage(true, &[0, 11], &options("9100")),
            "\n  metrics of the mount: http://127.0.0.1:9100/metrics\
             \n  metrics of server 0:  http://127.0.0.1:9101/metrics\
             \n  metrics of server 11: http://127.0.0.1:9112/metrics"
        );
        assert_eq!(
            metrics_usage(false, &[0], &options("[::1]:9100")),
            "\n  metrics of server 0:  http://[::1]:9101/metrics"
        );
        assert_eq!(metrics_usage(true, &[0], &MetricsOptions::default()), "");
    }

    #[test]
    fn every_server_needs_a_port() {
        check_ports(&options("65531"), 3).unwrap();
        let error = check_ports(&options("65532"), 3).unwrap_err().to_string();
        assert!(error.contains("no port for server 3"), "{error}");
        let error = check_ports(&options("0"), 3).unwrap_err().to_string();
        assert!(error.contains("Give one"), "{error}");
    }
}
