//! Requests about servers rather than names.

use crate::Client;
use crate::call::Call;
use crate::data::not_about_data;
use crate::error::{ClientError, Result};
use hashbrown::HashSet;
use pandofs_api::{AdminReply, AdminRequest, DataReply, DataRequest, ServerStatus};
use pandofs_types::ServerId;
use pandofs_wire::message::AnswerBody;
use std::time::Duration;

/// Room in the file system, summed over its servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes.
    pub total: u64,
    /// Bytes.
    pub free: u64,
    /// Bytes that users other than the superuser may take.
    pub available: u64,
    /// Inodes in use.
    pub inodes: u64,
}

impl Client {
    /// Room on all servers. A disk that several of them share counts once.
    ///
    /// # Errors
    /// `Unavailable` when one of them cannot be asked.
    pub fn statfs(&self) -> Result<Space> {
        let core = self.core();
        let servers: Vec<ServerId> = core
            .clusters
            .current()
            .map
            .servers
            .iter()
            .map(|server| server.id)
            .collect();
        let ask = |server| Call::data(server, DataRequest::Space);
        let mut calls: Vec<Call> = servers.into_iter().map(ask).collect();
        let mut sum = Space::default();
        let mut disks = HashSet::new();
        for answer in core.run_all(&mut calls) {
            match answer? {
                AnswerBody::Data(DataReply::Space {
                    total,
                    free,
                    available,
                    inodes,
                    disk,
                }) => {
                    sum.inodes = sum.inodes.saturating_add(inodes);
                    if disks.insert(disk) {
                        sum.total = sum.total.saturating_add(total);
                        sum.free = sum.free.saturating_add(free);
                        sum.available = sum.available.saturating_add(available);
                    }
                }
                other => return Err(not_about_data(&other)),
            }
        }
        Ok(sum)
    }

    /// Asks a server about itself. A server that does not answer at once is not waited for.
    ///
    /// # Errors
    /// `Unavailable` or `Unknown`; `Protocol` with the server's words when it could not do it.
    pub fn admin(&self, server: ServerId, request: AdminRequest) -> Result<AdminReply> {
        let mut call = Call::admin(server, request).within(Some(Duration::ZERO));
        match self.core().run(&mut call)? {
            AnswerBody::Admin(AdminReply::Failed(why)) => {
                Err(ClientError::Protocol(format!("server {server}: {why}")))
            }
            AnswerBody::Admin(reply) => Ok(reply),
            other => Err(ClientError::Protocol(format!(
                "server {server} answered {other:?}"
            ))),
        }
    }

    /// Every server's view of itself, or why it did not give it.
    pub fn status(&self) -> Vec<(ServerId, Result<ServerStatus>)> {
        let map = self.cluster_map();
        let ask = |server| match self.admin(server, AdminRequest::Status)? {
            AdminReply::Status(status) => Ok(*status),
            other => Err(ClientError::Protocol(format!(
                "server {server} answered {other:?}"
            ))),
        };
        map.servers
            .iter()
            .map(|server| (server.id, ask(server.id)))
            .collect()
    }
}
