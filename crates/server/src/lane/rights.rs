//! Who may say what: which requests each role may send. Servers send messages of their own kind, which are decoded as
//! such; what a connection may be that says it is a server is in `intake`.

use crate::connection::Role;
use pandofs_api::{AdminReply, AdminRequest, DataReply, Refusal};
use pandofs_types::FsError;
use pandofs_wire::message::{AnswerBody, RequestBody};

/// Whether a connection of this role may ask this.
pub(super) fn may_ask(role: Role, body: &RequestBody) -> bool {
    let is_client = matches!(role, Role::Client { .. });
    let is_admin = role == Role::Admin;
    match body {
        // Of the session that said hello, which is looked at with the request.
        RequestBody::Shard(_)
        | RequestBody::Data(_)
        | RequestBody::Goodbye { .. }
        | RequestBody::AwaitRecalls { .. } => is_client,
        RequestBody::Ping => is_client || is_admin,
        RequestBody::Admin(request) => match request {
            // Which servers there are, and how much room they have.
            AdminRequest::Map | AdminRequest::Status => is_client || is_admin,
            // What all clients have stored, their sessions among it, and what becomes of the server.
            AdminRequest::Dump { .. }
            | AdminRequest::Objects { .. }
            | AdminRequest::Flush
            | AdminRequest::Scrub(_)
            | AdminRequest::TakeMap(_) => is_admin,
        },
    }
}

/// What is answered to who may not ask this.
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
        | RequestBody::AwaitRecalls { .. } => {
            let why = "not the session that said hello".to_owned();
            AnswerBody::Shard(Err(Refusal::Malformed(why)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_api::{DataRequest, Request, RequestKey, ScrubOrder, ShardRequest};
    use pandofs_types::{Credentials, Epoch, Ino, ServerId, SessionId, ShardId, SlotId};

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
            request: Request::Sync,
        };
        let dump = AdminRequest::Dump {
            shard: ShardId(0),
            after: Vec::new(),
            max_bytes: 1,
        };
        let admin = RequestBody::Admin;
        vec![
            (RequestBody::Shard(shard), true, false),
            (
                RequestBody::Data(DataRequest::Sync { ino: Ino(5) }),
                true,
                false,
            ),
            (RequestBody::Ping, true, true),
            (RequestBody::Goodbye { session: SESSION }, true, false),
            (RequestBody::AwaitRecalls { done: None }, true, false),
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
        ]
    }

    /// Its place in the table; whoever adds a request finds that this does not compile.
    fn place(body: &RequestBody) -> usize {
        match body {
            RequestBody::Shard(_) => 0,
            RequestBody::Data(_) => 1,
            RequestBody::Ping => 2,
            RequestBody::Goodbye { .. } => 3,
            RequestBody::AwaitRecalls { .. } => 4,
            RequestBody::Admin(request) => match request {
                AdminRequest::Status => 5,
                AdminRequest::Map => 6,
                AdminRequest::Dump { .. } => 7,
                AdminRequest::Objects { .. } => 8,
                AdminRequest::Flush => 9,
                AdminRequest::Scrub(_) => 10,
                AdminRequest::TakeMap(_) => 11,
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
