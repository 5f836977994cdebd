//! Options of a mount: those of `pandofs mount` and `up`, and those of mount(8)'s `-o`.

use crate::exit::WrongLine;
use crate::io_uring::IoUring;
use crate::metrics::MetricsOptions;
use crate::mount_words::{self, Word, one_of};
use crate::traces::TracesOptions;
use crate::units::{self, Time};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use pandofs_fuse::{Cache, LocalLocks, Memory, Setting};
use pandofs_types::limits::{
    DEFAULT_CACHE_TIMEOUT, DEFAULT_MOUNT_MEMORY_BYTES, DEFAULT_MOUNT_THREADS, MAX_MOUNT_THREADS,
};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The least that a soft mount waits for a server: with less, programs get errors of servers that are well.
const LEAST_SOFT: Duration = Duration::from_secs(1);

/// Options of a mount.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Mount")]
pub(crate) struct MountOptions {
    /// How names and attributes are cached [default: leases, or timeouts if one
    /// is given]
    #[arg(long, value_name = "HOW", value_enum)]
    pub cache: Option<CacheWord>,
    /// How long the kernel may cache the inode that a name leads to [default with time-outs: 1s]
    #[arg(long, value_name = "TIME")]
    pub entry_timeout: Option<Time>,
    /// How long the kernel may cache attributes [default with time-outs: 1s]
    #[arg(long, value_name = "TIME")]
    pub attr_timeout: Option<Time>,
    /// How long the kernel may cache that there is no such name [default with time-outs: 1s]
    #[arg(long, value_name = "TIME")]
    pub negative_timeout: Option<Time>,
    /// Answer nothing before servers have it; without this, what is done in a directory that nobody else uses is answered at
    /// once and sent some milliseconds later, which a crash of this machine takes along, but for what fsync was asked for
    #[arg(long)]
    pub sync_names: bool,
    /// Threads that take requests from the kernel: programs that are served at once
    #[arg(long, value_name = "N", default_value_t = DEFAULT_MOUNT_THREADS, value_parser = parse_threads)]
    pub threads: usize,
    /// Give programs an error when a server has been away for this long [default: wait for it]
    #[arg(long, value_name = "TIME")]
    pub soft: Option<Time>,
    /// Let other users use the mount (the default for root)
    #[arg(long)]
    pub allow_other: bool,
    /// Let nothing be changed through it
    #[arg(long)]
    pub read_only: bool,
    /// The same as in mount(8): ro, rw, suid, nosuid, dev, nodev, exec, noexec, sync, async, dirsync, nosymfollow, relatime,
    /// strictatime, noatime, nodiratime, diratime, allow_other, cache=HOW, entry_timeout=T, attr_timeout=T, negative_timeout=T,
    /// sync_names, early_names, threads=N, memory=BYTES, soft=T, hard, slow=T, log=FILE,
    /// metrics=ADDRESS, metrics_for_network, otlp_endpoint=URL, otlp_ratio=PART, remount,
    /// local_lock=all|flock|posix|none, nolock, io_uring=auto|on|off,
    /// context=LABEL
    #[arg(short = 'o', value_name = "OPTION,…", value_delimiter = ',')]
    pub o: Vec<String>,
    /// Locks that hold within this mount alone, and cost no server anything: nfs(5)'s local_lock
    #[arg(long, value_name = "WHICH", value_enum, default_value_t)]
    pub local_lock: LocalLock,
    /// Take requests from the kernel over io_uring, from Linux 6.14 on where its administrator has it (enable_uring)
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub io_uring: IoUring,
    /// Record what programs do through it in this file, anew, for 'pandofs trace'
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    #[command(flatten)]
    pub flags: Flags,
    #[command(flatten)]
    pub metrics: MetricsOptions,
    #[command(flatten)]
    pub traces: TracesOptions,
    /// Bytes of memory (`memory`): of `mount` an option of its own, of `up` one of another name.
    #[arg(skip)]
    pub memory: Option<u64>,
    /// Requests that take longer are logged (`slow`): as `memory`.
    #[arg(skip)]
    pub slow: Option<Time>,
    /// Where a mount made by mount(8) logs (`log`).
    #[arg(skip)]
    pub log: Option<PathBuf>,
    /// Change what is mounted already (`remount`).
    #[arg(skip)]
    pub remount: bool,
    /// Labels of SELinux for the mount (`context=LABEL` and the like).
    #[arg(long = "label", value_name = "NAME=LABEL", hide = true)]
    pub labels: Vec<String>,
    /// Source of the mount as the system is to show it; it leads to the cluster map.
    #[arg(long, value_name = "SOURCE", hide = true)]
    pub shown_as: Option<String>,
}

/// Options that the kernel carries out by itself.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Flags {
    /// Set-user-id and set-group-id bits of programs have effect
    #[arg(long, hide = true)]
    pub suid: bool,
    /// Device files can be opened
    #[arg(long, hide = true)]
    pub dev: bool,
    /// No program can be run
    #[arg(long, hide = true)]
    pub noexec: bool,
    /// Each write is on disk before it is answered
    #[arg(long, hide = true)]
    pub sync: bool,
    /// Effect of reading on times of access
    #[arg(long, hide = true, value_enum, default_value_t)]
    pub atime: AtimeWord,
    /// Reading directories does not change their times of access
    #[arg(long, hide = true)]
    pub nodiratime: bool,
    /// Each change of names is on disk before it is answered
    #[arg(long, hide = true)]
    pub dirsync: bool,
    /// Symbolic links are not followed
    #[arg(long, hide = true)]
    pub nosymfollow: bool,
}

/// Ways to cache names and attributes.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheWord {
    /// Until servers recall it, which they do before it changes
    Leases,
    /// For a while
    Timeouts,
    /// Not at all
    None,
}

impl CacheWord {
    fn name(self) -> &'static str {
        match self {
            CacheWord::Leases => "leases",
            CacheWord::Timeouts => "timeouts",
            CacheWord::None => "none",
        }
    }
}

/// Caching of a mount: what is cached, and the time-outs of the kernel's cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caching {
    pub word: CacheWord,
    pub cache: Cache,
    pub entry: Duration,
    pub attr: Duration,
    pub negative: Duration,
}

/// Effect of reading on times of access, in mount(8)'s words.
#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AtimeWord {
    /// It changes those that are older than the last change, or than a day
    #[default]
    Relatime,
    Strictatime,
    Noatime,
}

impl AtimeWord {
    fn name(self) -> &'static str {
        match self {
            AtimeWord::Relatime => "relatime",
            AtimeWord::Strictatime => "strictatime",
            AtimeWord::Noatime => "noatime",
        }
    }
}

/// Which locks are not shared with other mounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LocalLock {
    /// All are shared
    #[default]
    None,
    /// Those of flock(2)
    Flock,
    /// Those of fcntl(2)
    Posix,
    /// Both
    All,
}

impl LocalLock {
    fn name(self) -> &'static str {
        match self {
            LocalLock::None => "none",
            LocalLock::Flock => "flock",
            LocalLock::Posix => "posix",
            LocalLock::All => "all",
        }
    }
}

impl From<LocalLock> for LocalLocks {
    fn from(local: LocalLock) -> LocalLocks {
        LocalLocks {
            flock: matches!(local, LocalLock::Flock | LocalLock::All),
            posix: matches!(local, LocalLock::Posix | LocalLock::All),
        }
    }
}

impl MountOptions {
    /// As options of a child's command line.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = Vec::new();
        let mut option = |name: &str, value: String| {
            arguments.push(name.into());
            arguments.push(value.into());
        };
        if let Some(cache) = self.cache {
            option("--cache", cache.name().to_owned());
        }
        for (name, timeout) in [
            ("--entry-timeout", self.entry_timeout),
            ("--attr-timeout", self.attr_timeout),
            ("--negative-timeout", self.negative_timeout),
        ] {
            if let Some(timeout) = timeout {
                option(name, timeout.to_string());
            }
        }
        option("--threads", self.threads.to_string());
        option("--local-lock", self.local_lock.name().to_owned());
        option("--io-uring", self.io_uring.name().to_owned());
        if let Some(soft) = self.soft {
            option("--soft", soft.to_string());
        }
        if let Some(address) = self.metrics.address {
            option("--metrics", address.to_string());
        }
        option("--atime", self.flags.atime.name().to_owned());
        for label in &self.labels {
            option("--label", label.clone());
        }
        if let Some(source) = &self.shown_as {
            option("--shown-as", source.clone());
        }
        if let Some(memory) = self.memory {
            option("-o", format!("memory={memory}"));
        }
        if let Some(slow) = self.slow {
            option("-o", format!("slow={slow}"));
        }
        if !self.o.is_empty() {
            option("-o", self.o.join(","));
        }
        for (flag, name) in [
            (self.allow_other, "--allow-other"),
            (self.read_only, "--read-only"),
            (self.sync_names, "--sync-names"),
            (self.metrics.for_network, "--metrics-for-network"),
            (self.flags.suid, "--suid"),
            (self.flags.dev, "--dev"),
            (self.flags.noexec, "--noexec"),
            (self.flags.sync, "--sync"),
            (self.flags.nodiratime, "--nodiratime"),
            (self.flags.dirsync, "--dirsync"),
            (self.flags.nosymfollow, "--nosymfollow"),
        ] {
            if flag {
                arguments.push(name.into());
            }
        }
        if let Some(trace) = &self.trace {
            arguments.push("--trace".into());
            arguments.push(trace.into());
        }
        arguments.extend(self.traces.arguments());
        arguments
    }

    /// With what `-o` says worked in.
    ///
    /// # Errors
    /// An option of `-o` that is unknown or has a wrong value.
    pub(crate) fn resolved(&self) -> Result<MountOptions> {
        self.resolve().map_err(|error| WrongLine::because(&error))
    }

    fn resolve(&self) -> Result<MountOptions> {
        let mut resolved = MountOptions {
            o: Vec::new(),
            ..self.clone()
        };
        for option in self.o.iter().filter(|option| !option.is_empty()) {
            resolved
                .apply(option)
                .with_context(|| format!("-o {option}"))?;
        }
        resolved.caching()?;
        if let Some(soft) = resolved.soft
            && soft.0 < LEAST_SOFT
        {
            bail!(
                "a mount that waits for {soft}: a server that is there may take as long to answer; \
                 give --soft {} at least",
                Time(LEAST_SOFT)
            );
        }
        resolved.memory()?;
        resolved.metrics.check()?;
        resolved.traces.check()?;
        // The mount's process may have another working directory.
        if let Some(trace) = &mut resolved.trace {
            *trace = std::path::absolute(&*trace)
                .with_context(|| format!("--trace {}", trace.display()))?;
        }
        Ok(resolved)
    }

    /// Returns what is cached, and for how long.
    ///
    /// # Errors
    /// When a time-out is given that is of no use.
    pub(crate) fn caching(&self) -> Result<Caching> {
        let timeouts = [self.entry_timeout, self.attr_timeout, self.negative_timeout];
        let is_any_given = timeouts.iter().any(Option::is_some);
        let word = self.cache.unwrap_or(match is_any_given {
            true => CacheWord::Timeouts,
            false => CacheWord::Leases,
        });
        if is_any_given && word != CacheWord::Timeouts {
            bail!("time-outs are of no use with the cache '{}'", word.name());
        }
        let unless_told = match word {
            CacheWord::None => Duration::ZERO,
            CacheWord::Leases | CacheWord::Timeouts => DEFAULT_CACHE_TIMEOUT,
        };
        let [entry, attr, negative] =
            timeouts.map(|timeout| timeout.map_or(unless_told, |timeout| timeout.0));
        let cache = match word {
            CacheWord::Leases => Cache::Leases,
            CacheWord::Timeouts | CacheWord::None => Cache::Timeouts,
        };
        Ok(Caching {
            word,
            cache,
            entry,
            attr,
            negative,
        })
    }

    /// How its memory is shared out.
    ///
    /// # Errors
    /// When there is too little of it.
    pub(crate) fn memory(&self) -> Result<Memory> {
        let memory = Memory::of(self.memory_bytes(), self.threads, self.trace.is_some());
        memory.context("memory")
    }

    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory.unwrap_or(DEFAULT_MOUNT_MEMORY_BYTES)
    }

    /// The settings of the mount that stay as they are, in the words of `-o`.
    ///
    /// # Errors
    /// As [`Self::caching`].
    pub(crate) fn settings(&self) -> Result<Vec<Setting>> {
        let caching = self.caching()?;
        let time = |time: Duration| Time(time).to_string();
        let mut settings = self.given();
        let mut setting = |name: &str, value| settings.push((name.to_owned(), value));
        setting("cache", caching.word.name().to_owned());
        setting("memory", self.memory_bytes().to_string());
        if caching.cache == Cache::Timeouts {
            setting("entry_timeout", time(caching.entry));
            setting("attr_timeout", time(caching.attr));
            setting("negative_timeout", time(caching.negative));
        }
        Ok(settings)
    }

    /// Settings that were given, as far as they differ: a default that was given cannot be told
    /// from one that was not.
    pub(crate) fn given(&self) -> Vec<Setting> {
        let time = |time: &Time| time.to_string();
        let label = |label: &String| {
            let (name, value) = label.split_once('=').unwrap_or((label, ""));
            (name.to_owned(), value.to_owned())
        };
        let word = |cache: CacheWord| cache.name().to_owned();
        let threads = (self.threads != DEFAULT_MOUNT_THREADS).then(|| self.threads.to_string());
        let metrics = self.metrics.address.map(|address| address.to_string());
        let local = (self.local_lock != LocalLock::None).then(|| self.local_lock.name().to_owned());
        let ring = (self.io_uring != IoUring::default()).then(|| self.io_uring.name().to_owned());
        [
            ("cache", self.cache.map(word)),
            ("entry_timeout", self.entry_timeout.as_ref().map(time)),
            ("attr_timeout", self.attr_timeout.as_ref().map(time)),
            ("negative_timeout", self.negative_timeout.as_ref().map(time)),
            ("soft", self.soft.as_ref().map(time)),
            ("threads", threads),
            ("slow", self.slow.as_ref().map(time)),
            ("memory", self.memory.map(|bytes| bytes.to_string())),
            ("metrics", metrics),
            ("local_lock", local),
            ("io_uring", ring),
            ("allow_other", self.allow_other.then(String::new)),
            ("sync_names", self.sync_names.then(String::new)),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .chain(self.traces.given())
        .chain(self.labels.iter().map(label))
        .collect()
    }

    fn apply(&mut self, option: &str) -> Result<()> {
        let (name, value) = option
            .split_once('=')
            .map_or((option, None), |(name, value)| (name, Some(value)));
        let time = || -> Result<Time> {
            let value = value.context("a length of time is missing")?;
            value.parse().map_err(anyhow::Error::msg)
        };
        match (name, value) {
            ("ro", None) => self.read_only = true,
            ("rw", None) => self.read_only = false,
            ("allow_other", None) => self.allow_other = true,
            ("cache", Some(value)) => {
                self.cache = Some(one_of(value)?);
            }
            ("entry_timeout", _) => self.entry_timeout = Some(time()?),
            ("attr_timeout", _) => self.attr_timeout = Some(time()?),
            ("negative_timeout", _) => self.negative_timeout = Some(time()?),
            ("sync_names", None) => self.sync_names = true,
            ("early_names", None) => self.sync_names = false,
            ("soft", _) => self.soft = Some(time()?),
            ("slow", _) => self.slow = Some(time()?),
            ("threads", Some(value)) => {
                self.threads = parse_threads(value).map_err(anyhow::Error::msg)?;
            }
            ("memory", _) => {
                let value = value.context("a number of bytes is missing")?;
                self.memory = Some(units::parse_bytes(value).map_err(anyhow::Error::msg)?);
            }
            ("metrics", _) => {
                let value = value.context("an address is missing")?;
                self.metrics.address = Some(value.parse()?);
            }
            ("metrics_for_network", None) => self.metrics.for_network = true,
            ("otlp_endpoint" | "otlp_ratio", Some(value)) => self.traces.apply(name, value)?,
            ("suid", None) => self.flags.suid = true,
            ("nosuid", None) => self.flags.suid = false,
            ("dev", None) => self.flags.dev = true,
            ("nodev", None) => self.flags.dev = false,
            ("exec", None) => self.flags.noexec = false,
            ("noexec", None) => self.flags.noexec = true,
            ("sync", None) => self.flags.sync = true,
            ("async", None) => self.flags.sync = false,
            ("log", Some(file)) => self.log = Some(file.into()),
            ("remount", None) => self.remount = true,
            ("relatime" | "nostrictatime" | "atime", None) => {
                self.flags.atime = AtimeWord::Relatime
            }
            ("strictatime" | "norelatime", None) => self.flags.atime = AtimeWord::Strictatime,
            ("noatime", None) => self.flags.atime = AtimeWord::Noatime,
            ("nodiratime", None) => self.flags.nodiratime = true,
            ("diratime", None) => self.flags.nodiratime = false,
            ("dirsync", None) => self.flags.dirsync = true,
            ("nodirsync", None) => self.flags.dirsync = false,
            ("nosymfollow", None) => self.flags.nosymfollow = true,
            ("symfollow", None) => self.flags.nosymfollow = false,
            ("hard", None) => self.soft = None,
            (label, Some(_)) if mount_words::is_label(label) => {
                self.labels.push(option.to_owned());
            }
            ("nolock", None) => self.local_lock = LocalLock::All,
            ("local_lock", Some(value)) => {
                self.local_lock = one_of(value)?;
            }
            ("io_uring", Some(value)) => self.io_uring = one_of(value)?,
            _ => match mount_words::word(name, value) {
                Word::Nothing => {}
                Word::Refused(why) => bail!("not offered: {why}"),
                Word::Other => bail!("no such option; see 'pandofs mount --help'"),
            },
        }
        Ok(())
    }
}

fn parse_threads(text: &str) -> Result<usize, String> {
    let threads = text.parse().ok();
    threads
        .filter(|threads| (1..=MAX_MOUNT_THREADS).contains(threads))
        .ok_or_else(|| format!("'{text}' is no number of threads: 1 to {MAX_MOUNT_THREADS}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit;
    use clap::Parser;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        options: MountOptions,
    }

    fn parse(line: &[&str]) -> MountOptions {
        Alone::parse_from(["test"].iter().chain(line)).options
    }

    #[test]
    fn options_survive_a_childs_command_line() {
        let given = [
            "--threads",
            "3",
            "-o",
            "ro,soft=2s,entry_timeout=0.5,noatime,nodiratime,local_lock=flock,dirsync,nosymfollow,io_uring=on,context=a:b,metrics=:9100,otlp_ratio=0.5",
            "--metrics-for-network",
            "--otlp-endpoint",
            "http://127.0.0.1:4318",
            "--attr-timeout",
            "9s",
            "--trace",
            "recorded.trace",
        ];
        let resolved = parse(&given).resolved().unwrap();
        assert!(resolved.read_only && !resolved.allow_other);
        assert_eq!(resolved.flags.atime, AtimeWord::Noatime);
        assert_eq!(resolved.soft, Some(Time(Duration::from_secs(2))));
        let half = Duration::from_millis(500);
        assert_eq!(resolved.entry_timeout, Some(Time(half)));
        assert_eq!(resolved.local_lock, LocalLock::Flock);
        assert_eq!(resolved.io_uring, IoUring::On);
        let address = resolved.metrics.address.unwrap();
        assert_eq!(address.to_string(), "127.0.0.1:9100");
        let trace = resolved.trace.as_ref().unwrap();
        assert!(trace.is_absolute() && trace.ends_with("recorded.trace"));
        let arguments: Vec<String> = resolved
            .arguments()
            .into_iter()
            .map(|a| a.into_string().unwrap())
            .collect();
        let again = parse(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(format!("{again:?}"), format!("{resolved:?}"));
    }

    #[test]
    fn memory_reaches_the_mount_and_too_little_is_refused() {
        let resolved = parse(&["-o", "memory=512M,slow=250ms"]).resolved().unwrap();
        assert_eq!(resolved.memory_bytes(), 512 << 20);
        let arguments = resolved.arguments();
        let words = arguments.iter().map(|word| word.to_str().unwrap());
        let again = parse(&words.collect::<Vec<_>>()).resolved().unwrap();
        assert_eq!(again.memory_bytes(), 512 << 20);
        assert_eq!(again.slow, Some(Time(Duration::from_millis(250))));
        assert_eq!(parse(&[]).memory().unwrap(), Memory::default());
        let few = parse(&["-o", "memory=128M,threads=2"]);
        assert!(few.resolved().is_ok());
        let many = parse(&["-o", "memory=128M,threads=64"]);
        let error = format!("{:#}", many.resolved().unwrap_err());
        assert!(error.contains("with 64 threads: give "), "{error}");
    }

    #[test]
    fn who_gives_a_time_out_wants_time_outs() {
        let caching = |line: &[&str]| parse(line).resolved().and_then(|options| options.caching());
        let second = Duration::from_secs(1);
        assert_eq!(caching(&[]).unwrap().cache, Cache::Leases);
        let leases = caching(&["--cache", "leases"]).unwrap();
        assert_eq!(leases.cache, Cache::Leases);
        let given = caching(&["--attr-timeout", "9s"]).unwrap();
        assert_eq!(
            (given.cache, given.entry, given.attr),
            (Cache::Timeouts, second, 9 * second)
        );
        let none = caching(&["-o", "cache=none"]).unwrap();
        assert_eq!((none.cache, none.attr), (Cache::Timeouts, Duration::ZERO));
        assert_eq!(caching(&["--cache", "timeouts"]).unwrap().negative, second);
        assert!(caching(&["--cache", "leases", "-o", "entry_timeout=0"]).is_err());
    }

    #[test]
    fn usual_words_do_what_they_say() {
        let flags = |words| parse(&["-o", words]).resolved().unwrap().flags;
        assert!(flags("dirsync").dirsync && !flags("dirsync,nodirsync").dirsync);
        assert!(flags("nosymfollow").nosymfollow && !flags("nosymfollow,symfollow").nosymfollow);
        assert_eq!(flags("acl,user_xattr,loud,noiversion"), Flags::default());
        let soft = |words| parse(&["-o", words]).resolved().unwrap().soft;
        assert_eq!(soft("soft=2s,hard"), None);
        assert!(soft("hard,soft=2s").is_some());
    }

    #[test]
    fn what_stays_is_told_and_what_was_said_of_it() {
        let options = |words| parse(&["-o", words]).resolved().unwrap();
        assert!(options("ro,sync,noatime,hard").given().is_empty());
        let settings = options("soft=2s,attr_timeout=9s,nolock")
            .settings()
            .unwrap();
        for same in [
            "soft=2s",
            "attr_timeout=9s,entry_timeout=1s",
            "cache=timeouts",
            "local_lock=all",
            "memory=1048576K",
        ] {
            let given = options(same).given();
            assert!(
                !given.is_empty() && given.iter().all(|it| settings.contains(it)),
                "{same}"
            );
        }
        for other in [
            "soft=3s",
            "attr_timeout=1s",
            "cache=leases",
            "local_lock=flock",
            "threads=3",
            "memory=512M",
        ] {
            let given = options(other).given();
            assert!(given.iter().any(|it| !settings.contains(it)), "{other}");
        }
    }

    #[test]
    fn a_wrong_word_is_a_wrong_command_line() {
        let code = |words| {
            let error = parse(&["-o", words]).resolved().unwrap_err();
            (exit::of_failure(&error), error.to_string())
        };
        let (outcome, message) = code("ro,nosuch");
        assert_eq!(
            (outcome, &message[..31]),
            (exit::Outcome::WrongLine, "-o nosuch: no such option; see ")
        );
        let (outcome, message) = code("actimeo=3");
        assert_eq!(outcome, exit::Outcome::WrongLine);
        assert!(message.contains("attr_timeout=TIME"), "{message}");
    }

    #[test]
    fn a_soft_mount_waits_for_servers_that_are_well() {
        let soft = |line: &[&str]| parse(line).resolved().map(|options| options.soft);
        assert!(soft(&["--soft", "1s"]).is_ok());
        for line in [["--soft", "0"], ["--soft", "999ms"], ["-o", "soft=0"]] {
            let error = format!("{:#}", soft(&line).unwrap_err());
            assert!(error.contains("give --soft 1s at least"), "{error}");
        }
    }

    #[test]
    fn metrics_for_others_are_asked_for() {
        let metrics = |words| parse(&["-o", words]).resolved();
        let error = metrics("metrics=0.0.0.0:1").unwrap_err().to_string();
        assert!(error.contains("other machines reach"), "{error}");
        let told = metrics("metrics=0.0.0.0:1,metrics_for_network").unwrap();
        let options = [("metrics".to_owned(), "0.0.0.0:1".to_owned())];
        assert_eq!(told.given(), options);
    }

    #[test]
    fn a_wrong_option_is_named() {
        for (option, said) in [
            ("nosuch", "no such option"),
            ("soft", "length of time is missing"),
            ("threads=x", "'x' is no number of threads: 1 to 64"),
            ("threads=0", "'0' is no number of threads"),
            ("threads=65", "'65' is no number of threads"),
            ("cache=x", "one of leases, timeouts, none"),
            ("local_lock=x", "one of none, flock, posix, all"),
            ("io_uring=x", "one of auto, on, off"),
            ("metrics", "an address is missing"),
            ("metrics=here", "'here' is no address"),
            ("memory", "a number of bytes is missing"),
            ("memory=much", "is no number of bytes"),
            ("mand", "no mandatory locks"),
            ("fsname=x", "the source is the cluster map"),
        ] {
            let error = format!("{:#}", parse(&["-o", option]).resolved().unwrap_err());
            assert!(
                error.starts_with(&format!("-o {option}")) && error.contains(said),
                "{error}"
            );
        }
    }
}
