//! Background thread of a client.
//!
//! It sends closes in batches, keeps the session alive at servers that hear nothing else from it,
//! finds servers that were restarted, reports writes that no request has reported for a while, and
//! looks for a newer cluster map.

use crate::core::Core;
use crate::grants;
use crate::limits::MAP_LOOK_INTERVAL;
use crate::opens::Work;
use crate::pool::Server;
use crate::recalls;
use pandofs_types::limits::{CLIENT_TICK, DEFAULT_FLUSH_INTERVAL, PING_INTERVAL};
use pandofs_wire::message::RequestBody;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Runs until [`crate::opens::Opens::stop`].
pub(crate) fn run(core: &Arc<Core>) {
    let mut tick = Instant::now() + CLIENT_TICK;
    let mut map_look = Instant::now() + MAP_LOOK_INTERVAL;
    loop {
        match core.opens.wait(tick) {
            Work::Releases => send_releases(core),
            Work::Tick => {
                keep_alive(core);
                if map_look <= Instant::now() {
                    look_for_map(core);
                    core.forget_unsynced();
                    map_look = Instant::now() + MAP_LOOK_INTERVAL;
                }
                report_writes(core);
                core.let_go_of_held(Instant::now());
                core.tell_accesses(Some(Duration::ZERO));
                if let Err(error) = recalls::listen(core).and_then(|()| grants::listen(core)) {
                    tracing::warn!("{error}");
                }
                core.renew_grants();
                tick = Instant::now() + CLIENT_TICK;
            }
            Work::Stop => return,
        }
    }
}

fn send_releases(core: &Core) {
    let cluster = core.clusters.current();
    let batches = core.opens.take_releases(|shard| {
        let leader = cluster.leader(shard);
        leader.map_or(0, |server| server.registrations.load(Ordering::SeqCst))
    });
    for batch in batches {
        core.send_releases(batch);
    }
}

fn keep_alive(core: &Core) {
    let cluster = core.clusters.current();
    let has_locks = core.locks.is_used();
    // A file may move to any server with the locks on it, and a server that hears nothing lets them
    // go. The same holds for an open file, which is registered again with a server that was
    // restarted.
    let has_state = has_locks || core.opens.any();
    let known = |server: &&Arc<Server>| server.was_reached() || has_state;
    for server in cluster.servers().filter(known) {
        server.trim_idle();
        // It was restarted, and gives no locks until all are registered again; or it has let go of
        // the session.
        let is_cut_off = has_state && server.is_cut_off();
        if server.silence() >= PING_INTERVAL || server.is_away() || is_cut_off {
            ping(core, server);
        }
    }
}

/// Looks for a newer cluster map. A client that asks something hears of one by that; one that asks
/// nothing has to look while it has something open: it may have moved to a server that joined,
/// which lets it go if it hears nothing of the client.
fn look_for_map(core: &Core) {
    if !core.locks.is_used() && !core.opens.any() || core.clusters.reread() {
        return;
    }
    let cluster = core.clusters.current();
    let mut reached = cluster
        .servers()
        .filter(|server| server.was_reached() && !server.is_away());
    if let Some(server) = reached.next() {
        core.fetch_cluster_map(server);
    }
}

fn ping(core: &Core, server: &Server) {
    // Its success shows in the server's silence.
    let _ = core.say(server, &RequestBody::Ping);
}

/// Reports sizes and times that other clients would not see before the file is closed.
fn report_writes(core: &Core) {
    let Some(since) = Instant::now().checked_sub(DEFAULT_FLUSH_INTERVAL) else {
        return;
    };
    for file in core.opens.unreported(since) {
        if let Err(error) = core.report(&file, Some(Duration::ZERO)) {
            tracing::debug!("writes to inode {} are reported later: {error}", file.ino);
        }
    }
}

/// Ends the session: servers let go of all that it has open.
pub(crate) fn say_goodbye(core: &Core) {
    let goodbye = RequestBody::Goodbye {
        session: core.who.session,
    };
    let cluster = core.clusters.current();
    for server in cluster.servers().filter(|server| server.was_reached()) {
        if !server.is_away() {
            core.say(server, &goodbye);
        }
    }
}
