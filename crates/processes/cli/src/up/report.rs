//! Output of `pandofs up --json`.

use crate::datadir::DataDir;
use crate::metrics::{self, MetricsOptions};
use pandofs_placement::ClusterMap;
use pandofs_types::ServerId;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// Report of what `up` has started. Fields may be added; none goes or changes its meaning.
#[derive(Debug, Serialize)]
pub(crate) struct UpReport {
    name: String,
    file_system: String,
    /// Of `up` itself: SIGTERM stops all of it.
    pid: u32,
    data: PathBuf,
    cluster_map: PathBuf,
    log: PathBuf,
    servers: Vec<Started>,
    /// Missing without a mount.
    #[serde(skip_serializing_if = "Option::is_none")]
    mount: Option<StartedMount>,
}

#[derive(Debug, Serialize)]
struct Started {
    id: u16,
    addresses: Vec<String>,
    data: PathBuf,
    log: PathBuf,
    #[serde(flatten)]
    process: Process,
}

#[derive(Debug, Serialize)]
struct StartedMount {
    point: PathBuf,
    log: PathBuf,
    #[serde(flatten)]
    process: Process,
}

#[derive(Debug, Serialize)]
struct Process {
    /// Another one after it was started again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// Where its metrics are served, if they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<String>,
}

impl Process {
    fn new(pid_file: &Path, metrics: Option<MetricsOptions>) -> Process {
        let pid = fs::read_to_string(pid_file).ok();
        let address = metrics.and_then(|metrics| metrics.address);
        Process {
            pid: pid.and_then(|text| text.trim().parse().ok()),
            metrics: address.map(metrics::url),
        }
    }
}

impl UpReport {
    /// `metrics`: those of the mount.
    pub(crate) fn new(
        dir: &DataDir,
        map: &ClusterMap,
        mount_point: Option<&Path>,
        metrics: MetricsOptions,
    ) -> UpReport {
        let started = |id: ServerId, addresses: &[String]| Started {
            id: id.0,
            addresses: addresses.to_vec(),
            data: dir.server_data(id),
            log: dir.server_log(id),
            process: Process::new(&dir.server_pid(id), metrics.of_server(id.0)),
        };
        UpReport {
            name: map.name.clone(),
            file_system: map.fs.to_string(),
            pid: std::process::id(),
            data: dir.root().to_owned(),
            cluster_map: dir.cluster_map(),
            log: dir.up_log(),
            servers: map
                .servers
                .iter()
                .map(|server| started(server.id, &server.addresses))
                .collect(),
            mount: mount_point.map(|point| StartedMount {
                point: point.to_owned(),
                log: dir.mount_log(),
                process: Process::new(&dir.mount_pid(), Some(metrics)),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::new_cluster::tests::options;

    #[test]
    fn json_has_the_promised_fields() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = DataDir::new(scratch.path());
        let addresses = ["unix:/a", "unix:/b"].map(str::to_owned).to_vec();
        let map = options().create_map(addresses).unwrap();
        fs::create_dir_all(dir.server_pid(ServerId(1)).parent().unwrap()).unwrap();
        fs::write(dir.server_pid(ServerId(1)), "42\n").unwrap();
        let metrics = MetricsOptions {
            address: Some("9100".parse().unwrap()),
            for_network: false,
        };
        let report = UpReport::new(&dir, &map, Some(Path::new("/mnt")), metrics);
        let json = serde_json::to_value(report).unwrap();
        assert_eq!(json["servers"][1]["addresses"][0], "unix:/b");
        assert_eq!(json["servers"][1]["pid"], 42);
        assert!(json["servers"][0].get("pid").is_none());
        assert_eq!(
            json["servers"][1]["metrics"],
            "http://127.0.0.1:9102/metrics"
        );
        assert_eq!(json["mount"]["point"], "/mnt");
        assert_eq!(json["mount"]["metrics"], "http://127.0.0.1:9100/metrics");
        let without = UpReport::new(&dir, &map, None, MetricsOptions::default());
        let json = serde_json::to_value(without).unwrap();
        assert!(json.get("mount").is_none());
        assert!(json["servers"][1].get("metrics").is_none());
    }
}
