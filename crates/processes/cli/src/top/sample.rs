//! Samples: what all servers say of themselves at one moment.

use crate::admin::{AdminConnection, AdminError, unexpected};
use pandofs_api::{Activity, AdminReply, AdminRequest, ServerStatus};
use pandofs_placement::{ClusterMap, ServerInfo};
use pandofs_types::{FsId, ServerId};
use std::time::Duration;

/// Answer of one server.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub status: ServerStatus,
    pub activity: Activity,
}

/// One server at a moment, or why it did not answer.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub id: ServerId,
    pub told: Result<Told, String>,
}

/// Connections to all servers, which are kept from one sample to the next.
pub(crate) struct Sampler {
    map: ClusterMap,
    /// As many as servers.
    connections: Vec<Option<AdminConnection>>,
    /// How long a server may take for one answer.
    limit: Duration,
}

impl Sampler {
    pub(crate) fn new(map: ClusterMap, limit: Duration) -> Sampler {
        let connections = map.servers.iter().map(|_| None).collect();
        Sampler {
            map,
            connections,
            limit,
        }
    }

    /// Asks all servers at once.
    pub(crate) fn sample(&mut self) -> Vec<Sample> {
        let (fs, limit) = (self.map.fs, self.limit);
        let servers = self.map.servers.iter().zip(&mut self.connections);
        std::thread::scope(|scope| {
            let asked: Vec<_> = servers
                .map(|(info, connection)| {
                    let ask = move || ask(fs, info, connection, limit);
                    (info.id, scope.spawn(ask))
                })
                .collect();
            let answered = asked.into_iter().map(|(id, thread)| Sample {
                id,
                told: match thread.join() {
                    Ok(told) => told.map_err(|error| error.to_string()),
                    Err(_) => Err("the thread that asked it panicked".to_owned()),
                },
            });
            answered.collect()
        })
    }
}

/// On a connection of before, if there is one. After an error it is not used again.
fn ask(
    fs: FsId,
    info: &ServerInfo,
    kept: &mut Option<AdminConnection>,
    limit: Duration,
) -> Result<Told, AdminError> {
    let mut connection = match kept.take() {
        Some(connection) => connection,
        None => AdminConnection::open_within(fs, info, limit)?,
    };
    let status = connection.status()?;
    let activity = match connection.ask(AdminRequest::Activity)? {
        AdminReply::Activity(activity) => *activity,
        other => return Err(unexpected("Activity", &other)),
    };
    *kept = Some(connection);
    Ok(Told { status, activity })
}
