//! Damage to data that servers know of, with the files that have it.

use crate::admin::AdminConnection;
use crate::dump::ServerAway;
use crate::units;
use pandofs_api::{ScrubOrder, ScrubReport};
use pandofs_check::{Places, Problem};
use pandofs_placement::ClusterMap;
use pandofs_types::limits::CHECKSUM_BLOCK_BYTES;
use pandofs_types::{Ino, ServerId};
use serde::Serialize;
use std::time::Duration;

const BLOCK: u64 = CHECKSUM_BLOCK_BYTES as u64;

/// One damaged block. Fields may be added; none goes or changes its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Damaged {
    pub server: u16,
    pub inode: u64,
    pub block: u64,
    /// Of its first byte in the data object, and in the file where that is known.
    pub object_offset: u64,
    pub file_offset: Option<u64>,
    /// The file's, as far as they are known.
    pub paths: Vec<String>,
}

impl Damaged {
    /// The file, and which of its bytes; or the data object, and which of that.
    pub(crate) fn place(&self) -> (String, String) {
        let (file, at) = match (&self.paths[..], self.file_offset) {
            ([path, ..], Some(at)) => (path.clone(), at),
            _ => (object_of(self.inode), self.object_offset),
        };
        let (first, last) = (units::count(at), units::count(at + BLOCK - 1));
        (file, format!("bytes {first} to {last}"))
    }
}

/// A data object with which the disk failed, or of whose checksums the header is damaged. As with [`Damaged`], fields
/// may be added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Failing {
    pub server: u16,
    pub inode: u64,
    /// The server's words.
    pub what: String,
    pub paths: Vec<String>,
}

impl Failing {
    /// The file, or the data object.
    pub(crate) fn file(&self) -> String {
        match self.paths.first() {
            Some(path) => path.clone(),
            None => object_of(self.inode),
        }
    }
}

fn object_of(inode: u64) -> String {
    format!("the data object of inode {}", Ino(inode))
}

/// Damage of data objects, of all servers.
#[derive(Debug, Default)]
pub(crate) struct Damage {
    pub blocks: Vec<Damaged>,
    pub objects: Vec<Failing>,
}

impl Damage {
    /// Collects the servers' reports; `places` is called if there is damage whose place is to be
    /// shown.
    pub(crate) fn of<'r>(
        reports: impl Iterator<Item = (ServerId, &'r ScrubReport)>,
        places: impl FnOnce() -> Places,
    ) -> Damage {
        let reports: Vec<_> = reports.collect();
        let is_sound =
            |report: &ScrubReport| report.damaged.is_empty() && report.failing.is_empty();
        if reports.iter().all(|(_, report)| is_sound(report)) {
            return Damage::default();
        }
        let places = places();
        let mut damage = Damage::default();
        for (server, report) in reports {
            let blocks = report.damaged.iter().map(|&(inode, block)| {
                let (ino, object_offset) = (Ino(inode), block.saturating_mul(BLOCK));
                Damaged {
                    server: server.0,
                    inode,
                    block,
                    object_offset,
                    file_offset: places.file_offset(ino, server, object_offset),
                    paths: places.paths(ino),
                }
            });
            damage.blocks.extend(blocks);
            let objects = report.failing.iter().map(|(inode, what)| Failing {
                server: server.0,
                inode: *inode,
                what: what.clone(),
                paths: places.paths(Ino(*inode)),
            });
            damage.objects.extend(objects);
        }
        damage
    }
}

/// Damage that all servers know of now, but for those that are away; nothing is read for it.
pub(crate) fn reports(map: &ClusterMap) -> (Vec<(ServerId, ScrubReport)>, Vec<ServerAway>) {
    let look = |server: &pandofs_placement::ServerInfo| {
        let report = AdminConnection::open(map.fs, server)
            .and_then(|mut connection| connection.scrub(ScrubOrder::Look))
            .map_err(|error| ServerAway {
                server: server.id,
                error,
            })?;
        Ok((server.id, report))
    };
    let (mut reports, mut away) = (Vec::new(), Vec::new());
    for server in &map.servers {
        match look(server) {
            Ok(report) => reports.push(report),
            Err(error) => away.push(error),
        }
    }
    (reports, away)
}

/// As a check tells it: it does not go away by itself.
pub(crate) fn problems(
    reports: &[(ServerId, ScrubReport)],
    places: impl FnOnce() -> Places,
) -> Vec<Problem> {
    let damage = Damage::of(reports.iter().map(|(id, report)| (*id, report)), places);
    let problem = |oracle, subject, text| Problem {
        oracle,
        subject,
        text,
        patience: Duration::ZERO,
    };
    let blocks = damage.blocks.iter().map(|block| {
        let (file, bytes) = block.place();
        let text = format!(
            "{bytes} are damaged (server {}, inode {}, block {} of its data object)",
            block.server,
            Ino(block.inode),
            block.block
        );
        problem("data", file, text)
    });
    let objects = damage.objects.iter().map(|object| {
        let (server, ino) = (object.server, Ino(object.inode));
        let text = format!("{} (server {server}, inode {ino})", object.what);
        problem("data", object.file(), text)
    });
    let faults = reports.iter().flat_map(|(server, report)| {
        let of_one = report.faults.iter();
        of_one.map(move |fault| {
            let text = format!("{fault} (found by its last scrub)");
            problem("scrub", format!("server {server}"), text)
        })
    });
    blocks.chain(objects).chain(faults).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_servers_know_of_is_a_problem_each() {
        let ino = 0x5_0000_0000_0007;
        let report = ScrubReport {
            damaged: vec![(ino, 2)],
            failing: vec![(ino, "cannot read /data/it: it broke".into())],
            faults: vec!["the store is damaged: somewhere".into()],
            ..ScrubReport::default()
        };
        let reports = [(ServerId(3), report), (ServerId(4), ScrubReport::default())];
        let lines: Vec<String> = problems(&reports, Places::default)
            .iter()
            .map(Problem::to_string)
            .collect();
        let number = Ino(ino);
        assert_eq!(
            lines,
            [
                format!(
                    "data: the data object of inode {number}: bytes 8,192 to 12,287 are damaged \
                     (server 3, inode {number}, block 2 of its data object)"
                ),
                format!(
                    "data: the data object of inode {number}: cannot read /data/it: it broke \
                     (server 3, inode {number})"
                ),
                "scrub: server 3: the store is damaged: somewhere (found by its last scrub)".into(),
            ]
        );
    }

    #[test]
    fn of_sound_servers_no_place_is_looked_for() {
        let reports = [(ServerId(3), ScrubReport::default())];
        assert_eq!(problems(&reports, || unreachable!()), []);
    }
}
