//! Costs of operations.

use pandofs_types::limits::LOADS_INTERVAL;
use serde::{Deserialize, Serialize};

/// Costs in microseconds, and the sizes that decide how often they arise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Costs {
    /// A server's processor, for a client's request.
    pub request_us: f64,
    /// A server's processor, for a message from another server.
    pub message_us: f64,
    /// From one machine to another, one way.
    pub network_us: f64,
    /// A client between an answer and its next request.
    pub client_us: f64,
    /// The disk, for a forced write of log records.
    pub force_us: f64,
    /// The disk, for a log record that is not forced.
    pub log_us: f64,
    /// The disk, for a block that is read.
    pub block_read_us: f64,
    /// The disk, for a block that is written.
    pub block_write_us: f64,
    /// A client, for reading or writing a file's data, which takes no metadata server's time.
    pub data_us: f64,
    /// Both servers' processors, for each entry that moves when a partition splits.
    pub moved_us: f64,
    /// Whether records that wait for the disk are forced together.
    pub group_commit: bool,
    /// Between two times that servers tell each other what they have.
    pub loads_us: f64,
    /// Inodes, and besides entries, that a server keeps in memory.
    pub cached: u32,
    /// Inodes, or entries, in a block.
    pub per_block: u32,
}

impl Costs {
    /// The machines of Xiong et al., section 5.1.3: a Xeon E5335 at 2 GHz, Gigabit Ethernet, a
    /// Seagate ST3146707LC. By its data sheet that disk turns 10,000 times a minute, so a sector is
    /// 3 ms away, and seeks for 4.7 ms (reads) and 5.3 ms (writes). A record of the log follows the
    /// one before, so a forced write waits for the sector alone. 4 KiB hold 16 inodes of 256 bytes.
    /// The caches are the paper's. The processor's and the network's times are of the order usual
    /// for such machines, and so is that of an entry that moves: a scan, a hash and a copy.
    pub const PAPER: Costs = Costs {
        request_us: 60.0,
        message_us: 20.0,
        network_us: 60.0,
        client_us: 10.0,
        force_us: 3_000.0,
        log_us: 20.0,
        block_read_us: 7_700.0,
        block_write_us: 8_300.0,
        data_us: 1_000.0,
        moved_us: 2.0,
        group_commit: false,
        loads_us: LOADS_INTERVAL.as_micros() as f64,
        cached: 128 << 10,
        per_block: 16,
    };

    /// Measurements of `make bench` of PandoFS's own parts on two cores with the servers on one
    /// machine: a forced append 0.2 ms, a get and two puts 6 µs and as much again for decoding and
    /// encoding, a round trip on loopback 50 µs. A cold key is a read of 4 KiB from an SSD.
    pub const MEASURED: Costs = Costs {
        request_us: 15.0,
        message_us: 10.0,
        network_us: 20.0,
        client_us: 5.0,
        force_us: 200.0,
        log_us: 1.6,
        block_read_us: 100.0,
        block_write_us: 30.0,
        data_us: 100.0,
        moved_us: 2.0,
        group_commit: true,
        loads_us: LOADS_INTERVAL.as_micros() as f64,
        cached: 128 << 10,
        per_block: 16,
    };

    /// With caches that are smaller by this factor, as name spaces are, and servers that tell each
    /// other as often while one is made.
    pub fn scaled_down(self, divisor: u32) -> Costs {
        Costs {
            loads_us: self.loads_us / f64::from(divisor),
            cached: (self.cached / divisor).max(64),
            ..self
        }
    }
}

/// Microseconds as nanoseconds.
pub(crate) fn ns(us: f64) -> u64 {
    (us * 1_000.0).max(0.0) as u64
}
