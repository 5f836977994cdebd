//! Metrics of servers and mounts: their options and figures.

mod mount;
mod options;
mod process;
mod server;
#[cfg(test)]
mod table;

pub(crate) use mount::MountSource;
pub(crate) use options::{MetricsOptions, serve, url};
pub(crate) use server::ServerSource;

use pandofs_metrics::{Family, Number, Sample, Values};

/// Version, role and file system of a process, as a family whose one figure is always 1.
fn build_info(role: &'static str, server: String, file_system: String) -> Family {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let labels = vec![
        ("role", role.to_owned()),
        ("server", server),
        ("file_system", file_system),
        ("version", version),
    ];
    let value = Number::Whole(1);
    Family {
        name: "pandofs_build_info",
        help: "Role of this process (server or mount), its number if it is a server, its file system, and its version; \
               always 1.",
        values: Values::Gauges(vec![Sample { labels, value }]),
    }
}
