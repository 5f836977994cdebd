//! Unpacking of an archive: one thread reads headers, the others make files.

use crate::copy::data::Methods;
use crate::find::users::{group_number, user_number};
use crate::limits::PIECE_BYTES;
use crate::session::say;
use crate::tar::acl::{self, Who};
use crate::tar::byte_budget::ByteBudget;
use crate::tar::choice::Choice;
use crate::tar::header::{BLOCK, Kind, Member};
use crate::tar::last::Last;
use crate::tar::listing::Listing;
use crate::tar::parse::Parser;
use crate::tar::pending::{Key, Pending};
use crate::tar::resolve_beneath::{Own, Resolver};
use crate::tar::unpack::{Existing, Job, Keeping, Large, Shared, Trouble, write_at};
use crate::text::shown;
use anyhow::{Context, Result, ensure};
use pandofs_walk_fs::{FileType, Options, Stat};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, ftruncate, makedev, mkdirat, mknodat, symlinkat, unlinkat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};

/// Files with fewer bytes are handed over in memory, if the archive cannot be read anywhere.
const SMALL_BYTES: u64 = 1 << 20;
/// Jobs that wait for a thread.
const WAITING_JOBS: usize = 256;

/// Counts of what was unpacked.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Unpacked {
    pub members: u64,
    pub bytes: u64,
    /// Why the rest of the archive was not.
    pub failure: Option<String>,
}

/// An archive.
pub(crate) struct Source<'e> {
    pub input: &'e File,
    /// Once more, if it can be read anywhere.
    pub archive: Option<&'e File>,
    /// Number of this process, and of all. All read all headers, and each makes what falls to it,
    /// by its path: what an archive has twice is made by one.
    pub part: (u32, u32),
}

/// Options of unpacking.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    pub choice: Choice,
    pub existing: Existing,
    pub keeping: Keeping,
}

/// Unpacks an archive to a directory, until its end or until the meter is stopped. `meet` waits for
/// all processes.
///
/// # Errors
/// When the processes do not find together. Members that could not be made are reported, and
/// counted by the meter.
pub(crate) fn extract(
    from: &Source<'_>,
    root: OwnedFd,
    options: &Options,
    wanted: Wanted,
    listing: Listing,
    meet: impl FnOnce() -> Result<()>,
) -> Result<Unpacked> {
    let meter = &*options.meter;
    let root = Arc::new(root);
    let shared = Shared {
        root: &root,
        archive: from.archive,
        methods: Methods::default(),
        meter,
        existing: wanted.existing,
        keeping: wanted.keeping,
        own: (wanted.existing != Existing::Replace).then(Own::default),
        budget: ByteBudget::default(),
        pending: Pending::default(),
        not_made: AtomicU64::new(0),
    };
    let (jobs, waiting) = sync_channel(WAITING_JOBS);
    let waiting = Mutex::new(waiting);
    let mut reader = Reader {
        shared: &shared,
        part: from.part,
        parser: Parser::new(BufReader::with_capacity(1 << 20, from.input)),
        resolver: shared.resolver(),
        last: Last::new(&options.spill_directory),
        ids: HashMap::new(),
        unpacked: Unpacked::default(),
        choice: wanted.choice,
        listing,
    };
    let read = std::thread::scope(|scope| {
        for number in 0..options.workers * options.ranks {
            let (waiting, shared) = (&waiting, &shared);
            std::thread::Builder::new()
                .name(format!("untar-{number}"))
                .spawn_scoped(scope, move || shared.work(waiting))
                .context("cannot start a thread")?;
        }
        let read = reader.read(&jobs);
        drop(jobs);
        read
    });
    // Files that are there by now are finished also if the archive is damaged further on.
    meet()?;
    let mut unpacked = std::mem::take(&mut reader.unpacked);
    let is_first = reader.is_first();
    let finished = if is_first {
        reader.last.finish(&shared, reader.resolver)
    } else {
        Ok(())
    };
    let not_made = shared.not_made.load(Ordering::Relaxed);
    unpacked.members = unpacked.members.saturating_sub(not_made);
    if read.is_ok() && is_first && !meter.is_stopped() {
        for name in reader.choice.missing() {
            meter.add_problem();
            say("tar", name.as_bytes(), "not found in the archive");
        }
    }
    let failure = read.and(finished).err();
    unpacked.failure = failure.map(|error| format!("{error:#}"));
    Ok(unpacked)
}

struct Reader<'e, R> {
    shared: &'e Shared<'e>,
    part: (u32, u32),
    parser: Parser<BufReader<R>>,
    resolver: Resolver,
    /// Of the first process.
    last: Last,
    ids: HashMap<(bool, String), Option<u32>>,
    unpacked: Unpacked,
    choice: Choice,
    listing: Listing,
}

/// End of the data of a file.
enum Poured {
    Whole,
    Stopped,
    Failed(Trouble),
}

impl<R: Read> Reader<'_, R> {
    fn read(&mut self, jobs: &SyncSender<Job>) -> Result<()> {
        while !self.shared.meter.is_stopped() {
            let Some(found) = self.parser.next()? else {
                break;
            };
            let mut member = found.member;
            let is_wanted = self.choice.takes(&mut member);
            let is_mine = is_wanted && self.is_mine(&member);
            if is_wanted {
                self.make_way(&member)?;
            }
            if !is_wanted || !is_mine && !matches!(member.kind, Kind::Directory | Kind::HardLink) {
                self.pass_over(found.stored.next_multiple_of(BLOCK as u64))?;
                continue;
            }
            member.uid = self.id(false, &member.user, member.uid);
            member.gid = self.id(true, &member.group, member.gid);
            self.unpacked.members += u64::from(is_mine);
            if is_mine {
                self.listing.show(&member);
            }
            self.acls(&mut member, is_mine);
            match member.kind {
                Kind::File => {
                    self.unpacked.bytes += found.stored;
                    self.file(member, found.stored, jobs)?;
                    continue;
                }
                Kind::Directory => match self.directory(&member) {
                    Ok(true) if self.is_first() => self.last.add_directory(&member)?,
                    Ok(_) => {}
                    Err(trouble) => self.shared.failed(&member.path, &trouble),
                },
                Kind::HardLink if self.is_first() => self.last.add_link(&member)?,
                Kind::HardLink => {}
                _ => {
                    let made = self.other(&member);
                    if let Err(trouble) = made {
                        self.shared.failed(&member.path, &trouble);
                    }
                }
            }
            self.pass_over(found.stored.next_multiple_of(BLOCK as u64))?;
        }
        Ok(())
    }

    /// Returns whether this process makes it. Directories are made by all, and before all else that
    /// is in them; files' other names, and directories' attributes, by the first, at the end.
    fn is_mine(&self, member: &Member) -> bool {
        let (rank, ranks) = self.part;
        Key::of(&member.path).0 % u64::from(ranks) == u64::from(rank)
    }

    /// Sees to it that the last member of a path is what there is in the end: what came before at
    /// its path is done, and so are links that wait, if it is the path of one or what one leads to.
    /// A link is to what was there when it came.
    ///
    /// # Errors
    /// When links that wait are in the way, and need files of other processes.
    fn make_way(&mut self, member: &Member) -> Result<()> {
        let key = Key::of(&member.path);
        if member.kind == Kind::HardLink {
            // The others come before it, in the order of the archive.
            if self.part.1 == 1 && self.last.has_enough_links() {
                self.make_links()?;
            }
            return Ok(());
        }
        if self.last.has_link(key) {
            ensure!(
                self.part.1 == 1,
                "'{}' is there again behind a link of it: one process has to unpack this archive",
                shown(&member.path)
            );
            self.make_links()?;
        }
        self.shared.pending.wait(key);
        Ok(())
    }

    /// Makes the links that wait.
    fn make_links(&mut self) -> Result<()> {
        self.shared.pending.wait_for_all();
        self.last.make_links(self.shared, &mut self.resolver)
    }

    /// Names count more than numbers, which are those of another machine.
    fn id(&mut self, is_group: bool, name: &str, id: u32) -> u32 {
        let keeping = &self.shared.keeping;
        if name.is_empty() || !keeping.owner || keeping.numeric {
            return id;
        }
        let known = self.ids.entry((is_group, name.to_owned()));
        let number = if is_group { group_number } else { user_number };
        known.or_insert_with(|| number(name)).unwrap_or(id)
    }

    /// Makes attributes of access control lists that are there as text alone, as by GNU tar's
    /// `--acls`.
    fn acls(&mut self, member: &mut Member, is_mine: bool) {
        let numeric = self.shared.keeping.numeric;
        let mut number = |who, name: &str, id: Option<u32>| {
            if let Some(id) = id.filter(|_| numeric) {
                return Some(id);
            }
            let is_group = who == Who::Group;
            let known = self.ids.entry((is_group, name.to_owned()));
            let look = if is_group { group_number } else { user_number };
            known.or_insert_with(|| look(name)).or(id)
        };
        let mut troubles = Vec::new();
        for (scope, text) in std::mem::take(&mut member.acls) {
            let Some(attribute) = acl::attribute_of(&scope) else {
                troubles.push(Trouble::AclKind(shown(&scope)));
                continue;
            };
            if member.extended.iter().any(|(name, _)| *name == attribute) {
                continue;
            }
            match acl::from_text(&text, &mut number) {
                Ok(value) => member.extended.push((attribute, value)),
                Err(error) => troubles.push(Trouble::Acl(error)),
            }
        }
        // The member is made all the same, by one of the processes.
        for trouble in troubles.iter().filter(|_| is_mine) {
            self.shared.report(&member.path, trouble);
        }
    }

    fn file(&mut self, member: Member, stored: u64, jobs: &SyncSender<Job>) -> Result<()> {
        let at = self.parser.at;
        let padded = stored.next_multiple_of(BLOCK as u64);
        if let Some(archive) = self.shared.archive {
            // Before anything is made of what a header claims.
            self.parser.is_there(stored, archive)?;
            if stored > 2 * PIECE_BYTES {
                self.pieces(member, at, jobs);
            } else {
                self.hand_over(Job::Stored(member, at), jobs);
            }
            return self.pass_over(padded);
        }
        if stored <= SMALL_BYTES {
            let mut data = vec![0; padded as usize];
            self.parser.read(&mut data)?;
            data.truncate(stored as usize);
            self.shared.budget.take(data.len());
            self.hand_over(Job::Small(member, data), jobs);
            return Ok(());
        }
        self.stream(&member, stored)
    }

    fn hand_over(&self, job: Job, jobs: &SyncSender<Job>) {
        if let Job::Small(member, _) | Job::Stored(member, _) = &job {
            self.shared.pending.begin(Key::of(&member.path));
        }
        // The threads end when there can be no more jobs, not before.
        assert!(jobs.send(job).is_ok(), "no thread takes jobs");
    }

    fn pieces(&mut self, member: Member, at: u64, jobs: &SyncSender<Job>) {
        let path = member.path.clone();
        let file = self
            .resolver
            .spot(&path)
            .map_err(Trouble::from)
            .and_then(|spot| {
                let file = self.shared.make_file(&spot, &member)?;
                ftruncate(&file, member.size)?;
                Ok(file)
            });
        let file = match file {
            Ok(file) => file,
            Err(trouble) => return self.shared.failed(&path, &trouble),
        };
        let whole = vec![(0, member.size)];
        let segments = member.sparse.clone().unwrap_or(whole);
        let left: u64 = segments
            .iter()
            .map(|(_, length)| length.div_ceil(PIECE_BYTES))
            .sum();
        self.shared.pending.begin(Key::of(&path));
        let large = Arc::new(Large {
            member,
            file,
            left: AtomicU64::new(left),
            is_broken: AtomicBool::new(false),
        });
        // Made as they are handed over: there may be as many as an archive with holes is long.
        let mut from = at;
        for (start, length) in segments {
            for offset in (0..length).step_by(PIECE_BYTES as usize) {
                let length = PIECE_BYTES.min(length - offset);
                let large = Arc::clone(&large);
                let to = start + offset;
                self.hand_over(
                    Job::Piece {
                        large,
                        from,
                        to,
                        length,
                    },
                    jobs,
                );
                from += length;
            }
        }
    }

    /// Writes a large file from what can be read but once.
    fn stream(&mut self, member: &Member, stored: u64) -> Result<()> {
        let made = self.resolver.spot(&member.path).map_err(Trouble::from);
        let made = made.and_then(|spot| self.shared.make_file(&spot, member));
        let poured = self.pour(made.as_ref().ok(), member);
        let is_whole = matches!(poured, Ok(Poured::Whole));
        // Of what this run has not made nothing goes.
        if made.is_ok() && !is_whole {
            self.shared.give_up(&mut self.resolver, member);
        }
        let done = match (made, poured?) {
            (Ok(file), Poured::Whole) => self.shared.attributes(file.as_fd(), member),
            (Err(trouble), _) => Err(trouble),
            (Ok(_), Poured::Stopped) => return Ok(()),
            (Ok(_), Poured::Failed(trouble)) => {
                self.shared.report(&member.path, &trouble);
                Ok(())
            }
        };
        if let Err(trouble) = done {
            self.shared.failed(&member.path, &trouble);
        }
        self.shared.meter.count_entries(1);
        self.pass_over(stored.next_multiple_of(BLOCK as u64) - stored)
    }

    /// Reads data, and writes them if there is a file for them.
    fn pour(&mut self, file: Option<&OwnedFd>, member: &Member) -> Result<Poured> {
        let mut done: Result<(), Trouble> = match file {
            Some(file) => ftruncate(file, member.size).map_err(Trouble::from),
            None => Ok(()),
        };
        let whole = [(0, member.size)];
        let mut buffer = vec![0; SMALL_BYTES as usize];
        for (start, length) in member.sparse.as_deref().unwrap_or(&whole) {
            let mut at = *start;
            while at < start + length {
                if self.shared.meter.is_stopped() {
                    return Ok(Poured::Stopped);
                }
                let most = (start + length - at).min(SMALL_BYTES) as usize;
                self.parser.read(&mut buffer[..most])?;
                if let Some(file) = file.filter(|_| done.is_ok()) {
                    done = write_at(file.as_fd(), &buffer[..most], at).map_err(Trouble::from);
                }
                at += most as u64;
            }
        }
        Ok(done.map_or_else(Poured::Failed, |()| Poured::Whole))
    }

    fn pass_over(&mut self, bytes: u64) -> Result<()> {
        self.parser.pass_over(bytes, self.shared.archive)
    }

    /// Makes a directory; whether it gets its attributes in the end.
    fn directory(&mut self, member: &Member) -> Result<bool, Trouble> {
        let spot = self.resolver.spot(&member.path)?;
        let own = self.shared.own.as_ref();
        if &*spot.name == c"." {
            return Ok(own.is_none());
        }
        // Its permissions come last. Another process, or a thread on its way to what is below, may
        // be making the same one.
        let make = || mkdirat(spot.dir(), &*spot.name, Mode::RWXU);
        let made = match own {
            Some(own) => own.make(&spot, make),
            None => make(),
        };
        match made {
            Err(Errno::EXIST) => {}
            done => return Ok(done.map(|()| true)?),
        }
        let stat = Stat::of(spot.dir(), &spot.name);
        if let Some(stat) = stat.ok().filter(|it| it.kind() == FileType::Directory) {
            return Ok(own.is_none_or(|own| own.has(&stat)));
        }
        match self.shared.existing {
            Existing::Replace => {}
            Existing::Refuse => return Err(Errno::EXIST.into()),
            Existing::Leave | Existing::LeaveNewer => return Err(Trouble::Left),
        }
        self.resolver.forget();
        match unlinkat(spot.dir(), &*spot.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT | Errno::ISDIR) => {}
            Err(error) => return Err(error.into()),
        }
        match make() {
            Ok(()) | Err(Errno::EXIST) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// Links and devices.
    fn other(&mut self, member: &Member) -> Result<(), Trouble> {
        let spot = self.resolver.spot(&member.path)?;
        let mode = Mode::from_raw_mode(member.mode);
        let device = makedev(member.device.0, member.device.1);
        let node = |kind, device| mknodat(spot.dir(), &*spot.name, kind, mode, device);
        let time = (member.seconds, member.nanoseconds);
        self.shared.in_place(&spot, time, || match member.kind {
            Kind::Symlink => symlinkat(&member.target[..], spot.dir(), &*spot.name),
            Kind::Fifo => node(FileType::Fifo, 0),
            Kind::CharacterDevice => node(FileType::CharacterDevice, device),
            _ => node(FileType::BlockDevice, device),
        })?;
        self.shared.meter.count_entries(1);
        self.shared.attributes_at(&spot, member)
    }

    /// Returns whether this process does what has to come last.
    fn is_first(&self) -> bool {
        self.part.0 == 0
    }
}
