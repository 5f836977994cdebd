//! Table of every decoder of bytes that come from the network, from a disk or from the kernel.
//!
//! Property tests (`tests`) and the fuzz targets (`fuzz/` in the repository's root) go through it.
//!
//! Invariant: a decoder of the table gives a value or an error, never a panic, whatever the bytes; and it takes no
//! more memory than a multiple of what it was given.
//!
//! A [`Decoder`] also tries what a value promises: one that was understood can be said again, and is understood as the
//! same. Not in the table are what other libraries decode (the files of raft-engine and RocksDB, tested in the crates
//! that wrap them), and what crates keep to themselves: the letters and checkpoints of tree walks, and the small files
//! of a server's folder.

mod disk;
mod kernel;
mod network;
mod seeds;
mod text;

pub use seeds::samples;

/// One decoder.
pub struct Decoder {
    /// A word or several, as the name of its fuzz target.
    pub name: &'static str,
    /// Decodes, and gives whether the bytes made sense.
    pub decode: fn(&[u8]) -> bool,
    /// Golden files with bytes for it, and with what their names begin.
    golden: &'static [(&'static str, &'static str)],
    /// More bytes that make sense to it.
    texts: &'static [&'static str],
}

const fn decoder(
    name: &'static str,
    decode: fn(&[u8]) -> bool,
    golden: &'static [(&'static str, &'static str)],
) -> Decoder {
    Decoder {
        name,
        decode,
        golden,
        texts: &[],
    }
}

const fn of_text(
    name: &'static str,
    decode: fn(&[u8]) -> bool,
    golden: &'static [(&'static str, &'static str)],
    texts: &'static [&'static str],
) -> Decoder {
    Decoder {
        name,
        decode,
        golden,
        texts,
    }
}

const INODES: &str = "core/namespace/tests/golden/inodes-1.txt";
const DIRECTORIES: &str = "core/namespace/tests/golden/directories-1.txt";
const SHARD: &str = "core/namespace/tests/golden/shard-1.txt";
const KEYS: &str = "core/namespace/tests/golden/keys-1.txt";
const REQUESTS: &str = "engines/wire/tests/golden/requests-1.txt";
const ANSWERS: &str = "engines/wire/tests/golden/answers-1.txt";
const PEERS: &str = "engines/wire/tests/golden/peers-1.txt";
const HELLO: &str = "engines/wire/tests/golden/hello-1.txt";
const LOG: &str = "core/shard/tests/golden/log-1.txt";
const COORDINATED: &str = "core/shard/tests/golden/coordinated-1.txt";
const PARTICIPATION: &str = "core/shard/tests/golden/participation-1.txt";
const KERNEL: &str = "engines/fuse-kernel/tests/golden/requests.txt";
const CLUSTER: &str = "core/placement/tests/golden/cluster-map-1.json";

/// All of them.
#[rustfmt::skip]
pub const ALL: &[Decoder] = &[
    decoder("frames", network::frames, &[("engines/wire/tests/golden/frame-1.txt", "")]),
    decoder("request_stream", network::request_stream, &[("engines/wire/tests/golden/frame-1.txt", "")]),
    decoder("answer_stream", network::answer_stream, &[]),
    decoder("hello", network::hello, &[(HELLO, "Hello")]),
    decoder("hello_answer", network::hello_answer, &[(HELLO, "Welcome"), (HELLO, "Refused")]),
    decoder("request", network::request, &[(REQUESTS, "")]),
    decoder("answer", network::answer, &[(ANSWERS, "Done"), (ANSWERS, "Shard"), (ANSWERS, "Data"),
        (ANSWERS, "Admin"), (ANSWERS, "Leased"), (ANSWERS, "Recalls")]),
    decoder("peer_frame", network::peer_frame, &[(PEERS, "PeerFrame")]),
    decoder("commit_message", network::commit_message, &[(PEERS, "CommitMessage")]),
    decoder("step", network::step, &[(PEERS, "Step")]),
    decoder("log_record", disk::log_record, &[(LOG, "")]),
    decoder("key", disk::key, &[(KEYS, "")]),
    decoder("meta", disk::meta, &[(SHARD, "Meta")]),
    decoder("inode", disk::inode, &[(INODES, "InodeRecord")]),
    decoder("entry", disk::entry, &[(INODES, "EntryRecord")]),
    decoder("forwarding", disk::forwarding, &[(INODES, "forwarding")]),
    decoder("parts", disk::parts, &[(DIRECTORIES, "PartsRecord")]),
    decoder("path", disk::path, &[(DIRECTORIES, "PathRecord")]),
    decoder("split", disk::split, &[(DIRECTORIES, "SplitRecord")]),
    decoder("staging", disk::staging, &[(DIRECTORIES, "StagingRecord")]),
    decoder("staged", disk::staged, &[(DIRECTORIES, "staged")]),
    decoder("reclaim", disk::reclaim, &[(SHARD, "ReclaimRecord")]),
    decoder("slot", disk::slot, &[(SHARD, "SlotRecord")]),
    decoder("coordinated", disk::coordinated, &[(COORDINATED, "")]),
    decoder("participation", disk::participation, &[(PARTICIPATION, "")]),
    decoder("dump", disk::dump, &[]),
    decoder("cluster_map", network::cluster_map, &[]),
    decoder("dir_map", network::dir_map, &[]),
    of_text("cluster_file", text::cluster_file, &[(CLUSTER, "")], &[]),
    of_text("trace", text::trace, &[], &[text::TRACE]),
    of_text("recording", text::recording, &[], &[text::RECORDING]),
    of_text("strace", text::strace, &[], &[text::STRACE]),
    of_text("nfsdump", text::nfsdump, &[], &[text::NFSDUMP]),
    of_text("address", text::address, &[], &["tcp:127.0.0.1:7000", "tcp:[::1]:7000", "unix:/run/pandofs/0.sock"]),
    of_text("layout", text::layout, &[], &["unit=1M count=4", "unit=64K count=1 first=2", "count=2"]),
    of_text("name", text::name, &[], &["leaf", ".gitignore", "a name with spaces"]),
    decoder("acl", text::acl, &[]),
    decoder("kernel_request", kernel::request, &[(KERNEL, "")]),
];

fn golden_of(name: &str) -> Vec<Vec<u8>> {
    samples(find(name))
}

/// One of them.
///
/// # Panics
/// When there is none of this name.
pub fn find(name: &str) -> &'static Decoder {
    ALL.iter()
        .find(|decoder| decoder.name == name)
        .unwrap_or_else(|| panic!("there is no decoder {name}"))
}
