//! Caches of servers for one kind of record, inodes or entries.
//!
//! Each is an LRU cache in memory, and on disk blocks of records that were made one after the
//! other.

use crate::space::Object;

const NONE: u32 = u32::MAX;
/// In `next`: not in a cache.
const ABSENT: u32 = u32::MAX - 1;

/// The records of one kind on all servers. A record is on one server; one that moves is removed and
/// made again.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// Records in the cache of a server.
    capacity: u32,
    /// Records that one read of the disk brings, and one write writes.
    per_block: u32,
    prev: Vec<u32>,
    next: Vec<u32>,
    dirty: Vec<bool>,
    on_disk: Vec<bool>,
    /// Number of the record at its server.
    serial: Vec<u32>,
    servers: Vec<Server>,
}

#[derive(Clone, Debug)]
struct Server {
    /// The most recently used, and the least.
    head: u32,
    tail: u32,
    cached: u32,
    /// In the order in which they were made.
    order: Vec<Object>,
    /// Records that were written back and did not fill a block yet.
    unwritten: u32,
}

/// Work of the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Disk {
    pub block_reads: u32,
    pub block_writes: u32,
}

impl Disk {
    pub fn and(self, other: Disk) -> Disk {
        Disk {
            block_reads: self.block_reads + other.block_reads,
            block_writes: self.block_writes + other.block_writes,
        }
    }
}

impl Records {
    pub(crate) fn new(servers: usize, capacity: u32, per_block: u32) -> Records {
        assert!(capacity >= 2 && per_block > 0, "a cache of nothing");
        let server = Server {
            head: NONE,
            tail: NONE,
            cached: 0,
            order: Vec::new(),
            unwritten: 0,
        };
        Records {
            capacity,
            per_block,
            prev: Vec::new(),
            next: Vec::new(),
            dirty: Vec::new(),
            on_disk: Vec::new(),
            serial: Vec::new(),
            servers: vec![server; servers],
        }
    }

    /// Makes room for objects up to this number.
    pub(crate) fn reserve(&mut self, objects: usize) {
        self.prev.resize(objects, NONE);
        self.next.resize(objects, ABSENT);
        self.dirty.resize(objects, false);
        self.on_disk.resize(objects, false);
        self.serial.resize(objects, NONE);
    }

    /// A record is made.
    pub(crate) fn make(&mut self, server: usize, object: Object) -> Disk {
        let here = &mut self.servers[server];
        self.serial[object as usize] = here.order.len() as u32;
        here.order.push(object);
        self.dirty[object as usize] = true;
        let mut disk = Disk::default();
        self.take_in(server, object, &mut disk);
        disk
    }

    /// A record is looked at; with its whole block if it is not there.
    pub(crate) fn look(&mut self, server: usize, object: Object) -> Disk {
        let mut disk = Disk::default();
        if !self.is_there(object) {
            return disk;
        }
        if self.next[object as usize] != ABSENT {
            self.unlink(server, object);
            self.link(server, object);
            return disk;
        }
        disk.block_reads = 1;
        let first = self.serial[object as usize] / self.per_block * self.per_block;
        for serial in first..first + self.per_block {
            let Some(&neighbour) = self.servers[server].order.get(serial as usize) else {
                break;
            };
            if neighbour == NONE {
                continue;
            }
            let there = self.on_disk[neighbour as usize];
            if there && neighbour != object && self.next[neighbour as usize] == ABSENT {
                self.take_in(server, neighbour, &mut disk);
            }
        }
        // Last, so that it is still there.
        self.take_in(server, object, &mut disk);
        disk
    }

    /// A record changes.
    pub(crate) fn change(&mut self, server: usize, object: Object) -> Disk {
        let disk = self.look(server, object);
        self.dirty[object as usize] |= self.is_there(object);
        disk
    }

    /// A record is removed.
    pub(crate) fn remove(&mut self, server: usize, object: Object) -> Disk {
        let mut disk = self.look(server, object);
        self.unlink(server, object);
        let serial = std::mem::replace(&mut self.serial[object as usize], NONE);
        if let Some(place) = self.servers[server].order.get_mut(serial as usize) {
            // It may be made again on another server, and is no neighbour here.
            *place = NONE;
        }
        self.dirty[object as usize] = false;
        if std::mem::take(&mut self.on_disk[object as usize]) {
            self.write_back(server, &mut disk);
        }
        disk
    }

    /// Returns whether it was made and not removed. (A directory may be looked at for its first
    /// file before the other server has made its inode: then there is nothing to read.)
    fn is_there(&self, object: Object) -> bool {
        self.serial[object as usize] != NONE
    }

    fn take_in(&mut self, server: usize, object: Object, disk: &mut Disk) {
        if self.servers[server].cached == self.capacity {
            let least = self.servers[server].tail;
            self.unlink(server, least);
            if std::mem::take(&mut self.dirty[least as usize]) {
                self.on_disk[least as usize] = true;
                self.write_back(server, disk);
            }
        }
        self.link(server, object);
    }

    fn write_back(&mut self, server: usize, disk: &mut Disk) {
        let here = &mut self.servers[server];
        here.unwritten += 1;
        if here.unwritten == self.per_block {
            here.unwritten = 0;
            disk.block_writes += 1;
        }
    }

    fn link(&mut self, server: usize, object: Object) {
        let here = &mut self.servers[server];
        self.next[object as usize] = here.head;
        self.prev[object as usize] = NONE;
        if here.head == NONE {
            here.tail = object;
        } else {
            self.prev[here.head as usize] = object;
        }
        here.head = object;
        here.cached += 1;
    }

    fn unlink(&mut self, server: usize, object: Object) {
        let (prev, next) = (self.prev[object as usize], self.next[object as usize]);
        assert!(next != ABSENT, "record {object} is not cached");
        let here = &mut self.servers[server];
        if prev == NONE {
            here.head = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next == NONE {
            here.tail = prev;
        } else {
            self.prev[next as usize] = prev;
        }
        self.next[object as usize] = ABSENT;
        here.cached -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(capacity: u32, per_block: u32, made: u32) -> (Records, Disk) {
        let mut records = Records::new(2, capacity, per_block);
        records.reserve(made as usize);
        let disks = (0..made).map(|object| records.make(1, object));
        let disk = disks.fold(Disk::default(), Disk::and);
        (records, disk)
    }

    #[test]
    fn what_fits_never_touches_the_disk() {
        let (mut records, made) = records(10, 2, 10);
        assert_eq!(made, Disk::default());
        for object in 0..10 {
            assert_eq!(records.look(1, object), Disk::default());
        }
    }

    #[test]
    fn the_least_recently_used_goes_and_comes_with_its_block() {
        let (mut records, made) = records(4, 2, 8);
        let writes = |block_writes| Disk {
            block_reads: 0,
            block_writes,
        };
        assert_eq!(made, writes(2));
        // 0 and 1 come together; 4 and 5 go, which makes one block.
        let disk = records.look(1, 0);
        assert_eq!((disk.block_reads, disk.block_writes), (1, 1));
        assert_eq!(records.look(1, 1), Disk::default());
        assert_eq!(records.look(1, 7), Disk::default());
        assert_eq!(records.look(1, 6), Disk::default());
        assert_eq!(records.look(1, 4).block_reads, 1);
    }

    /// Its old neighbours are read without it: it is in another server's cache, or was.
    #[test]
    fn what_moved_to_another_server_is_no_neighbour() {
        let (mut records, _) = records(2, 4, 8);
        records.remove(1, 1);
        records.make(0, 1);
        for object in [2, 3, 4] {
            // Out of the other server's cache, and on its disk.
            records.remove(1, object);
            records.make(0, object);
        }
        assert_eq!(records.look(1, 0).block_reads, 1);
        assert_eq!(records.look(0, 1).block_reads, 1);
        assert_eq!(records.look(0, 4), Disk::default());
    }

    #[test]
    fn what_is_removed_leaves_its_place() {
        let (mut records, _) = records(4, 1, 4);
        assert_eq!(records.remove(1, 2), Disk::default());
        records.reserve(5);
        assert_eq!(records.make(1, 4), Disk::default());
        assert_eq!(records.look(1, 0), Disk::default());
    }
}
