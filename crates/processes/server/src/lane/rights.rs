//! Rights of roles: the requests that each may send.
//!
//! Servers send messages of their own kind, which are decoded as such; `intake` checks a connection
//! that says it is a server's.

use crate::connection::Role;
use pandofs_api::{AdminReply, AdminRequest, DataReply, DataRequest, Refusal};
use pandofs_types::FsError;
use pandofs_wire::message::{AnswerBody, RequestBody};

/// Whether a connection of this role may ask this.
pub(super) fn may_ask(role: Role, body: &RequestBody) -> bool {
    let is_client = matches!(role, Role::Client { .. });
    let is_admin = role == Role::Admin;
    match body {
        // Of the session that said hello, which is looked at with the request.
        RequestBody::Shard(_)
        | RequestBody::Goodbye { .. }
        | RequestBody::AwaitRecalls { .. }
        | RequestBody::Trace(_) => is_client,
        RequestBody::Data(request) => is_client && !is_of_shards(request),
        RequestBody::Ping => is_client || is_admin,
        RequestBody::Admin(request) => match request {
            // Which servers there are, and how much room they have.
            AdminRequest::Map | AdminRequest::Status => is_client || is_admin,
            // The stored state of all clients, their sessions among it, and the server's fate.
            AdminRequest::Activity
            | AdminRequest::Dump { .. }
            | AdminRequest::Objects { .. }
            | AdminRequest::Flush
            | AdminRequest::Scrub(_)
            | AdminRequest::TakeMap(_) => is_admin,
        },
    }
}

/// Whether it takes away what a file has, or gives it what it has: an inode's shard decides when, and asks as a server.
fn is_of_shards(request: &DataRequest) -> bool {
    match request {
        DataRequest::Truncate { .. } | DataRequest::Remove { .. } | DataRequest::Fill { .. } => {
            true
        }
        DataRequest::Read { .. }
        | DataRequest::Write { .. }
        | DataRequest::Sync { .. }
        | DataRequest::Usage { .. }
        | DataRequest::Space
        | DataRequest::Allocate { .. }
        | DataRequest::Seek { .. } => false,
    }
}

/// Answer to a client that may not ask this.
pub(super) fn refusal(body: &RequestBody) -> AnswerBody {
    match body {
        RequestBody::Data(_) => AnswerBody::Data(DataReply::Failed(FsError::NotPermitted)),
        RequestBody::Admin(_) => AnswerBody::Admin(AdminReply::Failed(
            "only administrators may ask this".to_owned(),
        )),
        // Of no session at all.
        RequestBody::Shard(_)
        | RequestBody::Ping
        | RequestBody::Goodbye { .. }
        | RequestBody::AwaitRecalls { .. }
        | RequestBody::Trace(_) => {
            let why = "not the session that said hello".to_owned();
            AnswerBody::Shard(Err(Refusal::Malformed(why)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_api::op;
    use pandofs_api::{Allocation, Request, RequestKey, ScrubOrder, ShardRequest};
    use pandofs_types::{
        Credentials, Epoch, Ino, ServerId, SessionId, ShardId, SlotId, TraceContext,
    };

    const SESSION: SessionId = SessionId(7);

    /// Each request there is, and whether clients and administrators may send it.
    fn table() -> Vec<(RequestBody, bool, bool)> {
        let shard = ShardRequest {
            shard: ShardId(0),
            epoch: Epoch(1),
            key: RequestKey {
                session: SESSION,
                slot: SlotId(0),
                sequence: 1,
            },
            caller: Credentials::ROOT,
            request: Request::Sync(op::Sync),
        };
        let dump = AdminRequest::Dump {
            shard: ShardId(0),
            after: Vec::new(),
            max_bytes: 1,
        };
        let admin = RequestBody::Admin;
        let context = TraceContext {
            trace: [1; 16],
            span: [2; 8],
        };
        let mut table = vec![
            (RequestBody::Shard(shard), true, false),
            (RequestBody::Ping, true, true),
            (RequestBody::Goodbye { session: SESSION }, true, false),
            (RequestBody::AwaitRecalls { done: None }, true, false),
            (RequestBody::Trace(context), true, false),
            (admin(AdminRequest::Status), true, true),
            (admin(AdminRequest::Map), true, true),
            (admin(dump), false, true),
            (
                admin(AdminRequest::Objects { after: 0, max: 1 }),
                false,
                true,
            ),
            (admin(AdminRequest::Flush), false, true),
            (admin(AdminRequest::Scrub(ScrubOrder::Look)), false, true),
            (admin(AdminRequest::TakeMap(String::new())), false, true),
            (admin(AdminRequest::Activity), false, true),
        ];
        let data = |(request, client)| (RequestBody::Data(request), client, false);
        table.extend(objects_table().into_iter().map(data));
        table
    }

    /// Each request for an object, and whether clients may send it.
    fn objects_table() -> Vec<(DataRequest, bool)> {
        let (ino, truncations, offset, length) = (Ino(5), 1, 0, 1);
        let data = vec![1];
        let write = DataRequest::Write {
            ino,
            truncations,
            offset,
            data: data.clone(),
        };
        let allocate = DataRequest::Allocate {
            ino,
            truncations,
            offset,
            length,
            allocation: Allocation::Reserve { keep_size: true },
        };
        let read = DataRequest::Read {
            ino,
            offset,
            length: 1,
        };
        let seek = DataRequest::Seek {
            ino,
            offset,
            data: true,
        };
        vec![
            (read, true),
            (write, true),
            (DataRequest::Sync { ino }, true),
            (DataRequest::Usage { ino }, true),
            (DataRequest::Space, true),
            (allocate, true),
            (seek, true),
            (
                DataRequest::Truncate {
                    ino,
                    truncations,
                    length,
                },
                false,
            ),
            (DataRequest::Remove { ino }, false),
            (
                DataRequest::Fill {
                    ino,
                    truncations,
                    data,
                    from_reserve: false,
                },
                false,
            ),
        ]
    }

    /// Its place in the table; without a line for a new request this does not compile.
    fn place(body: &RequestBody) -> usize {
        match body {
            RequestBody::Shard(_) => 0,
            RequestBody::Ping => 1,
            RequestBody::Goodbye { .. } => 2,
            RequestBody::AwaitRecalls { .. } => 3,
            RequestBody::Trace(_) => 4,
            RequestBody::Admin(request) => match request {
                AdminRequest::Status => 5,
                AdminRequest::Map => 6,
                AdminRequest::Dump { .. } => 7,
                AdminRequest::Objects { .. } => 8,
                AdminRequest::Flush => 9,
                AdminRequest::Scrub(_) => 10,
                AdminRequest::TakeMap(_) => 11,
                AdminRequest::Activity => 12,
            },
            RequestBody::Data(request) => match request {
                DataRequest::Read { .. } => 13,
                DataRequest::Write { .. } => 14,
                DataRequest::Sync { .. } => 15,
                DataRequest::Usage { .. } => 16,
                DataRequest::Space => 17,
                DataRequest::Allocate { .. } => 18,
                DataRequest::Seek { .. } => 19,
                DataRequest::Truncate { .. } => 20,
                DataRequest::Remove { .. } => 21,
                DataRequest::Fill { .. } => 22,
            },
        }
    }

    #[test]
    fn each_role_may_send_its_requests_and_no_others() {
        let id = ServerId(1);
        let nobody = [
            Role::Unknown,
            Role::Server { id },
            Role::Link { server: id },
            Role::Refused,
        ];
        for (number, (body, client, admin)) in table().into_iter().enumerate() {
            assert_eq!(place(&body), number);
            let session = SESSION;
            assert_eq!(
                may_ask(
                    Role::Client {
                        session,
                        generation: 1
                    },
                    &body
                ),
                client,
                "{body:?}"
            );
            assert_eq!(may_ask(Role::Admin, &body), admin, "{body:?}");
            for role in nobody {
                assert!(!may_ask(role, &body), "{role:?}: {body:?}");
            }
        }
    }
}
