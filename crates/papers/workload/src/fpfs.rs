//! Trace with all operations of the HP trace that FPFS was measured with, as far as that is known.
//!
//! A. Avilés-González, J. Piernas, P. González-Férez, "A Metadata Cluster Based on OSD+ Devices": table I counts the
//! operations of the busiest 21 hours of a time-sharing system that a workgroup used, and that is all that is known of it; the
//! trace itself is not to be had. [`Fpfs`] makes one up that has table I's counts exactly. The rest is assumed, in
//! the constants below, as a time-sharing system is:
//!
//! - **nested directories**: homes of users in groups, in each a tree of directories up to [`MAX_DEPTH`] deep, and the
//!   system's own;
//! - **hot spots**: a few files of the system are asked for by everybody, much more often than others (by Zipf's law), and
//!   everybody makes files in one directory for temporary ones;
//! - **locality**: a client stays with a directory for a while, looks up the names on the way to a file one by one, and then asks
//!   for the file.

use crate::op::{Kind, Op};
use crate::trace::{Linker, Record, Trace};
use pandofs_model::Rng;
use std::collections::VecDeque;

/// FPFS, table I: the operations of the HP trace.
pub const TABLE_1: [(Kind, u64); 9] = [
    (Kind::Lookup, 13_908_189),
    (Kind::Stat, 2_827_387),
    (Kind::Open, 2_572_124),
    (Kind::Unlink, 67_883),
    (Kind::Create, 41_755),
    (Kind::Rename, 7_683),
    (Kind::Mkdir, 7_389),
    (Kind::Rmdir, 6_973),
    (Kind::Renamedir, 5),
];

/// Directories above a file of a home, at most.
pub const MAX_DEPTH: usize = 9;
/// Users, of whom several clients may be one; each has a home.
const MOST_USERS: u64 = 64;
/// Operations for which there is a user more.
const OPERATIONS_OF_A_USER: u64 = 2_000;
/// Users of a group, whose homes are in one directory.
const USERS_OF_A_GROUP: u64 = 8;
/// Directories of a home, and files in each.
const HOME_DIRECTORIES: u64 = 16;
const FILES_OF_A_DIRECTORY: u64 = 5;
/// Of 100 new directories in a home, how many are in the one made before; the others are anywhere in it.
const DEEPER: u64 = 55;
/// Directories of the system, and the directory of temporary files.
const SYSTEM: [&str; 9] = [
    "etc",
    "usr",
    "usr/bin",
    "usr/lib",
    "usr/include",
    "usr/include/sys",
    "usr/local",
    "usr/local/lib",
    "tmp",
];
const TEMPORARY: usize = SYSTEM.len() - 1;
/// Files in each directory of the system.
const SYSTEM_FILES: u64 = 4;
/// Of 100 choices of a file: one of the system, by Zipf's law; one in another directory of the client's home; one of another
/// home. All others are in the directory where the client is.
const TO_SYSTEM: u64 = 50;
const TO_OWN_HOME: u64 = 12;
const TO_OTHER_HOME: u64 = 4;
/// Of 100 new files, how many are temporary.
const TEMPORARY_FILES: u64 = 40;
/// Times that a directory is drawn again if there is no file in it.
const DRAWS: usize = 8;

#[derive(Debug)]
struct Dir {
    name: String,
    above: Option<usize>,
    depth: usize,
    files: Vec<usize>,
}

#[derive(Debug)]
struct File {
    name: String,
    dir: usize,
    /// Its place among the files of its directory and among all; `None` when it is removed.
    place: Option<(usize, usize)>,
}

/// What a client is at.
#[derive(Debug)]
struct Client {
    home: usize,
    at: usize,
    file: usize,
    /// Names that it looks up before it asks for the file.
    on_the_way: VecDeque<usize>,
}

/// Operations of the trace, one after the other; with the client of each.
#[derive(Debug)]
pub struct Fpfs {
    rng: Rng,
    /// Kinds to come, by their place in [`TABLE_1`]; the next one last.
    order: Vec<u8>,
    dirs: Vec<Dir>,
    files: Vec<File>,
    /// Those that are there.
    live: Vec<usize>,
    /// Directories of each home.
    homes: Vec<Vec<usize>>,
    /// Files of the system, the hottest first.
    hot: Vec<usize>,
    /// Directories that nothing is in, and that may go.
    empty: Vec<usize>,
    clients: Vec<Client>,
    made: u64,
}

impl Fpfs {
    /// The trace, `scale` times as long; each kind at least once.
    ///
    /// # Panics
    /// Without clients.
    pub fn new(scale: f64, clients: u32, seed: u64) -> Fpfs {
        assert!(clients > 0, "there are no clients");
        let mut rng = Rng::new(seed, 0xf9f5);
        let counts = TABLE_1.map(|(_, count)| ((count as f64 * scale).round() as u64).max(1));
        let mut order: Vec<u8> = Vec::new();
        for (which, &count) in (0..).zip(&counts) {
            order.extend(std::iter::repeat_n(which, count as usize));
        }
        for at in (1..order.len()).rev() {
            order.swap(at, rng.below(at as u64 + 1) as usize);
        }
        let users = (order.len() as u64 / OPERATIONS_OF_A_USER).clamp(3, MOST_USERS);
        let mut fpfs = Fpfs {
            rng,
            dirs: Vec::new(),
            files: Vec::new(),
            live: Vec::new(),
            homes: Vec::new(),
            hot: Vec::new(),
            empty: Vec::new(),
            clients: Vec::new(),
            made: 0,
            order,
        };
        fpfs.make_system();
        fpfs.make_homes(users);
        // Enough to remove, in this order.
        let spare_files = fpfs.missing(Kind::Unlink, Kind::Create);
        for _ in 0..spare_files {
            let dir = fpfs.any_home_directory();
            fpfs.add_file(dir, 's');
        }
        let spare_dirs = fpfs.missing(Kind::Rmdir, Kind::Mkdir);
        for _ in 0..spare_dirs {
            let above = fpfs.any_home_directory();
            let dir = fpfs.add_dir(above, 'e');
            fpfs.empty.push(dir);
        }
        for client in 0..clients as usize {
            let home = client % fpfs.homes.len();
            let at = fpfs.homes[home][0];
            let file = fpfs.dirs[at].files[0];
            fpfs.clients.push(Client {
                home,
                at,
                file,
                on_the_way: VecDeque::new(),
            });
        }
        fpfs
    }

    /// Makes what is there when the trace begins. To be asked for before the first operation.
    pub fn prepare(&self) -> Vec<Op> {
        let dirs = (0..self.dirs.len()).map(|dir| Op::new(Kind::Mkdir, self.dir_path(dir)));
        let files = (0..self.files.len()).map(|file| Op::new(Kind::Create, self.file_path(file)));
        dirs.chain(files).collect()
    }

    fn make_system(&mut self) {
        for path in SYSTEM {
            let (above, name) = crate::op::split(path);
            let above = SYSTEM.iter().position(|other| *other == above);
            self.dirs.push(Dir {
                name: name.to_owned(),
                above,
                depth: path.split('/').count(),
                files: Vec::new(),
            });
        }
        for number in 0..SYSTEM_FILES {
            for (dir, path) in SYSTEM.iter().enumerate() {
                let file = self.new_file(dir, format!("{}{number}", path.replace('/', "-")));
                self.hot.push(file);
            }
        }
    }

    fn make_homes(&mut self, users: u64) {
        let homes = self.dirs.len();
        self.dirs.push(Dir {
            name: "home".to_owned(),
            above: None,
            depth: 1,
            files: Vec::new(),
        });
        let groups = users.div_ceil(USERS_OF_A_GROUP);
        let groups: Vec<usize> = (0..groups).map(|_| self.add_dir(homes, 'g')).collect();
        for user in 0..users {
            let home = self.add_dir(groups[(user / USERS_OF_A_GROUP) as usize], 'u');
            let mut own = vec![home];
            for _ in 1..HOME_DIRECTORIES {
                let last = own[own.len() - 1];
                let any = own[self.rng.below(own.len() as u64) as usize];
                let above = if self.rng.below(100) < DEEPER {
                    last
                } else {
                    any
                };
                let above = if self.dirs[above].depth < MAX_DEPTH {
                    above
                } else {
                    home
                };
                own.push(self.add_dir(above, 'd'));
            }
            for &dir in &own {
                for _ in 0..FILES_OF_A_DIRECTORY {
                    self.add_file(dir, 'f');
                }
            }
            self.homes.push(own);
        }
    }

    /// How many of one kind come before there are as many of the other, at most.
    fn missing(&self, takes: Kind, makes: Kind) -> u64 {
        let (mut missing, mut most) = (0_i64, 0);
        for &which in self.order.iter().rev() {
            let kind = TABLE_1[which as usize].0;
            missing += i64::from(kind == takes) - i64::from(kind == makes);
            most = most.max(missing);
        }
        most.unsigned_abs()
    }

    fn any_home_directory(&mut self) -> usize {
        let home = self.rng.below(self.homes.len() as u64) as usize;
        self.home_directory(home)
    }

    fn home_directory(&mut self, home: usize) -> usize {
        let own = &self.homes[home];
        own[self.rng.below(own.len() as u64) as usize]
    }

    fn fresh(&mut self, letter: char) -> String {
        self.made += 1;
        format!("{letter}{:x}", self.made)
    }

    fn add_dir(&mut self, above: usize, letter: char) -> usize {
        let name = self.fresh(letter);
        self.dirs.push(Dir {
            name,
            above: Some(above),
            depth: self.dirs[above].depth + 1,
            files: Vec::new(),
        });
        self.dirs.len() - 1
    }

    fn add_file(&mut self, dir: usize, letter: char) -> usize {
        let name = self.fresh(letter);
        self.new_file(dir, name)
    }

    fn new_file(&mut self, dir: usize, name: String) -> usize {
        let number = self.files.len();
        self.files.push(File {
            name,
            dir,
            place: None,
        });
        self.put(number, dir);
        number
    }

    fn put(&mut self, file: usize, dir: usize) {
        let within = &mut self.dirs[dir].files;
        self.files[file].dir = dir;
        self.files[file].place = Some((within.len(), self.live.len()));
        within.push(file);
        self.live.push(file);
    }

    fn take(&mut self, file: usize) {
        let Some((within, among)) = self.files[file].place.take() else {
            return;
        };
        let siblings = &mut self.dirs[self.files[file].dir].files;
        siblings.swap_remove(within);
        if let Some(&moved) = siblings.get(within)
            && let Some(place) = &mut self.files[moved].place
        {
            place.0 = within;
        }
        self.live.swap_remove(among);
        if let Some(&moved) = self.live.get(among)
            && let Some(place) = &mut self.files[moved].place
        {
            place.1 = among;
        }
    }

    fn dir_path(&self, dir: usize) -> String {
        let mut names = vec![self.dirs[dir].name.as_str()];
        let mut at = dir;
        while let Some(above) = self.dirs[at].above {
            names.push(&self.dirs[above].name);
            at = above;
        }
        names.reverse();
        names.join("/")
    }

    fn file_path(&self, file: usize) -> String {
        let file = &self.files[file];
        format!("{}/{}", self.dir_path(file.dir), file.name)
    }

    /// The client turns to a file, perhaps in another directory.
    fn turn(&mut self, client: usize) {
        let drawn = self.rng.below(100);
        let home = self.clients[client].home;
        let file = if drawn < TO_SYSTEM {
            // Of n by Zipf's law the k-th with a probability of about 1 / (k ln n).
            let most = (self.hot.len() as f64 + 1.0).ln();
            let at = (self.rng.unit() * most).exp() as usize - 1;
            Some(self.hot[at.min(self.hot.len() - 1)])
        } else {
            if drawn < TO_SYSTEM + TO_OWN_HOME {
                self.clients[client].at = self.home_directory(home);
            } else if drawn < TO_SYSTEM + TO_OWN_HOME + TO_OTHER_HOME {
                self.clients[client].at = self.any_home_directory();
            }
            None
        };
        let file = file.unwrap_or_else(|| self.file_near(client));
        let mut way = VecDeque::new();
        let mut at = Some(self.files[file].dir);
        while let Some(dir) = at {
            way.push_front(dir);
            at = self.dirs[dir].above;
        }
        self.clients[client].file = file;
        self.clients[client].on_the_way = way;
    }

    /// A file in the client's directory, or near it.
    fn file_near(&mut self, client: usize) -> usize {
        for _ in 0..DRAWS {
            let files = &self.dirs[self.clients[client].at].files;
            if !files.is_empty() {
                return files[self.rng.below(files.len() as u64) as usize];
            }
            let home = self.clients[client].home;
            self.clients[client].at = self.home_directory(home);
        }
        self.live[self.rng.below(self.live.len() as u64) as usize]
    }

    /// A file that is there, for a client that is at it already if it can be.
    fn file_of(&mut self, client: usize) -> usize {
        if self.files[self.clients[client].file].place.is_none() {
            self.turn(client);
        }
        self.clients[client].file
    }

    /// The system's files were made first. They stay, and stay where they are.
    fn is_of_system(&self, file: usize) -> bool {
        file < self.hot.len()
    }

    /// A file that may be moved or removed; there is always one, see `missing`.
    fn any_of_users(&mut self) -> usize {
        loop {
            let file = self.live[self.rng.below(self.live.len() as u64) as usize];
            if !self.is_of_system(file) {
                return file;
            }
        }
    }

    fn operation(&mut self, kind: Kind, client: usize) -> Op {
        match kind {
            Kind::Lookup => match self.clients[client].on_the_way.pop_front() {
                Some(dir) => Op::new(kind, self.dir_path(dir)),
                None => {
                    let file = self.file_of(client);
                    let path = self.file_path(file);
                    self.turn(client);
                    Op::new(kind, path)
                }
            },
            Kind::Mkdir => {
                let above = self.home_directory(self.clients[client].home);
                let dir = self.add_dir(above, 'm');
                self.empty.push(dir);
                Op::new(kind, self.dir_path(dir))
            }
            Kind::Rmdir => {
                let which = self.rng.below(self.empty.len() as u64) as usize;
                let dir = self.empty.swap_remove(which);
                Op::new(kind, self.dir_path(dir))
            }
            Kind::Create => {
                let dir = match self.rng.below(100) < TEMPORARY_FILES {
                    true => TEMPORARY,
                    false => self.home_directory(self.clients[client].home),
                };
                let file = self.add_file(dir, 'c');
                Op::new(kind, self.file_path(file))
            }
            Kind::Unlink => {
                let of_temporary = self.rng.below(100) < TEMPORARY_FILES;
                let temporary = self.dirs[TEMPORARY].files.last().copied();
                let file = temporary.filter(|&file| of_temporary && !self.is_of_system(file));
                let file = file.unwrap_or_else(|| self.any_of_users());
                let path = self.file_path(file);
                self.take(file);
                Op::new(kind, path)
            }
            Kind::Renamedir => {
                let dir = self.any_home_directory();
                let from = self.dir_path(dir);
                self.dirs[dir].name = self.fresh('r');
                Op::with_two(kind, from, self.dir_path(dir))
            }
            Kind::Rename => {
                let file = Some(self.file_of(client)).filter(|&file| !self.is_of_system(file));
                let file = file.unwrap_or_else(|| self.any_of_users());
                let from = self.file_path(file);
                let dir = self.home_directory(self.clients[client].home);
                self.take(file);
                self.files[file].name = self.fresh('n');
                self.put(file, dir);
                Op::rename(from, self.file_path(file))
            }
            kind => {
                let file = self.file_of(client);
                Op::new(kind, self.file_path(file))
            }
        }
    }
}

impl Iterator for Fpfs {
    type Item = (u32, Op);

    fn next(&mut self) -> Option<(u32, Op)> {
        let (kind, _) = TABLE_1[self.order.pop()? as usize];
        let client = self.rng.below(self.clients.len() as u64) as usize;
        Some((client as u32, self.operation(kind, client)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.order.len(), Some(self.order.len()))
    }
}

/// The records of the trace with what each depends on, in an order in which they can be done; and how many of them prepare.
pub fn synthetic_records(
    scale: f64,
    clients: u32,
    seed: u64,
) -> (u32, impl Iterator<Item = Record>) {
    let operations = Fpfs::new(scale, clients, seed);
    let prepare = operations.prepare();
    let count = prepare.len() as u32;
    let mut linker = Linker::default();
    let prepare = prepare.into_iter().map(|op| (0, op));
    let records = prepare.chain(operations).map(move |(client, op)| {
        let mut record = linker.link(client, op);
        // All that prepares is done before anything else begins.
        if record.id >= count {
            record.after.retain(|&before| before >= count);
        }
        record
    });
    (count, records)
}

/// The same in memory.
///
/// # Panics
/// Without clients.
pub fn synthetic(scale: f64, clients: u32, seed: u64) -> Trace {
    let (prepare, records) = synthetic_records(scale, clients, seed);
    Trace {
        clients,
        prepare,
        records: records.collect(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::target::{Kernel, Target};
    use crate::{replay, summarize};
    use std::collections::{BTreeMap, HashMap};

    /// The trace that is shipped, and its source.
    const SHIPPED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/traces/fpfs-table-1.trace");
    const SHIPPED_SCALE: f64 = 0.00014;
    const SHIPPED_CLIENTS: u32 = 8;
    const SHIPPED_SEED: u64 = 1;
    /// Bytes: it is in every copy of the repository.
    const SHIPPED_MOST: usize = 200 << 10;

    #[test]
    fn the_whole_trace_has_the_numbers_of_table_1() {
        let mut counts: BTreeMap<Kind, u64> = BTreeMap::new();
        let mut of_clients = vec![0_u64; 256];
        for (client, op) in Fpfs::new(1.0, 256, 1) {
            *counts.entry(op.op).or_default() += 1;
            of_clients[client as usize] += 1;
        }
        assert_eq!(counts, BTreeMap::from(TABLE_1));
        assert!(
            of_clients.iter().all(|&count| count > 60_000),
            "{of_clients:?}"
        );
    }

    #[test]
    fn a_part_of_it_has_its_part_of_table_1() {
        let summary = summarize(&synthetic(1e-3, 8, 1));
        let counts: Vec<u64> = TABLE_1.map(|(kind, _)| summary.operations[&kind]).into();
        assert_eq!(counts, [13_908, 2_827, 2_572, 68, 42, 8, 7, 7, 1]);
    }

    #[test]
    fn directories_are_nested_and_some_files_are_hot() {
        let mut uses: HashMap<String, u64> = HashMap::new();
        let mut depths = [0_u64; MAX_DEPTH + 3];
        let mut of_files = 0;
        for (_, op) in Fpfs::new(0.01, 32, 1) {
            if matches!(op.op, Kind::Stat | Kind::Open) {
                depths[op.path.matches('/').count()] += 1;
                *uses.entry(op.path).or_default() += 1;
                of_files += 1;
            }
        }
        let deep: u64 = depths[5..].iter().sum();
        assert!(
            deep * 3 > of_files,
            "{deep} of {of_files} below five directories"
        );
        assert!(
            depths[8..].iter().sum::<u64>() * 20 > of_files,
            "{depths:?}"
        );
        let mut uses: Vec<u64> = uses.into_values().collect();
        uses.sort_unstable_by(|one, other| other.cmp(one));
        let hottest: u64 = uses.iter().take(10).sum();
        assert!(uses.len() > 1_000, "{} files", uses.len());
        assert!(
            hottest * 7 > of_files,
            "{hottest} of {of_files} are of ten files"
        );
    }

    #[test]
    fn a_client_looks_up_the_way_to_a_file_before_it_asks_for_it() {
        let mut last: HashMap<u32, String> = HashMap::new();
        let (mut follows, mut all) = (0, 0);
        for (client, op) in Fpfs::new(0.002, 4, 1) {
            if op.op == Kind::Lookup {
                let before = last.insert(client, op.path.clone());
                all += 1;
                let above = crate::op::split(&op.path).0;
                follows += u64::from(before.is_some_and(|before| before == above));
            }
        }
        assert!(follows * 3 > all * 2, "{follows} of {all}");
    }

    #[test]
    fn it_can_be_replayed_by_256_clients() {
        for clients in [1, 8, 256] {
            let directory = tempfile::tempdir().unwrap();
            let trace = synthetic(2e-4, clients, 1);
            let of = |_| Box::new(Kernel::new(directory.path())) as Box<dyn Target>;
            let mut targets: Vec<_> = (0..clients).map(of).collect();
            let summary = replay(&trace, &mut targets).unwrap();
            assert!(summary.seconds > 0.0);
            assert_eq!(summary.dependent > 0, clients > 1);
            let top = std::fs::read_dir(directory.path()).unwrap().count();
            assert_eq!(top, 4, "etc, usr, tmp and home");
        }
    }

    #[test]
    fn the_shipped_trace_is_what_its_seed_makes_and_has_the_mix_of_table_1() {
        let made = synthetic(SHIPPED_SCALE, SHIPPED_CLIENTS, SHIPPED_SEED);
        let mut bytes = Vec::new();
        made.write(&mut bytes).unwrap();
        if std::env::var_os("PANDOFS_BLESS").is_some() {
            std::fs::write(SHIPPED, &bytes).unwrap();
        }
        let shipped = std::fs::read(SHIPPED).unwrap();
        assert!(shipped == bytes, "PANDOFS_BLESS=1 writes it anew");
        assert!(shipped.len() < SHIPPED_MOST, "{}", shipped.len());
        let summary = summarize(&Trace::read(&shipped[..]).unwrap());
        for (row, (kind, count)) in summary.table_1.iter().zip(TABLE_1) {
            assert_eq!(row.operation, kind);
            let wanted = ((count as f64 * SHIPPED_SCALE).round() as u64).max(1);
            assert_eq!(row.count, wanted, "{kind}");
            let off = (row.percent - row.percent_of_fpfs).abs();
            assert!(
                off < 0.1,
                "{kind}: {} and {}",
                row.percent,
                row.percent_of_fpfs
            );
        }
    }
}
