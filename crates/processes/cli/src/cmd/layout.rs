//! `pandofs layout`

use crate::backend;
use crate::cmd::dir::path_inside;
use crate::exit::Outcome;
use crate::source::{Cluster, Source};
use crate::units;
use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use pandofs_api::LayoutChoice;
use pandofs_client::{Client, ClientError, LayoutOf, chosen, parse_unit};
use pandofs_placement::ClusterMap;
use pandofs_types::{Credentials, FsError, Ino, ServerId};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  pandofs layout get /mnt/pando/results
      how a file is striped, or those that are made in a directory
  pandofs layout set --unit 4M --count 2 /mnt/pando/results
      files made in it from now on: 4 MiB on each of two servers in turn
  pandofs layout set --first 3 --count 1 /mnt/pando/results/log
      a file that has no data yet: all of it on server 3
  pandofs layout set --unit default --count default --first default /mnt/pando/results
      as the file system has it

Directories hand it on to those that are made in them. A file that has data keeps its layout. The
same as an extended attribute:
  setfattr -n user.pandofs.layout -v 'unit=4M count=2' /mnt/pando/results";

/// How long servers may be away before the command gives up.
const PATIENCE: Duration = Duration::from_secs(10);

/// Show or set how files are striped over servers
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Layout {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Debug)]
enum Action {
    Get(Get),
    Set(Set),
}

/// Show it
#[derive(Args, Clone, Debug)]
struct Get {
    #[command(flatten)]
    source: Source,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The file or directory: below a mount point, or a path inside the file system
    path: PathBuf,
}

/// Set what is given; the rest stays
#[derive(Args, Clone, Debug)]
struct Set {
    #[command(flatten)]
    source: Source,
    /// Bytes on one server before the next one has its turn: a multiple of 4 KiB up to 1 GiB, or 'default'
    #[arg(long, value_name = "BYTES", value_parser = parse_or_default::<u32>)]
    unit: Option<Given<u32>>,
    /// Servers over which a file goes, 'all', or 'default'
    #[arg(long, value_name = "N", value_parser = parse_or_default::<Count>)]
    count: Option<Given<Count>>,
    /// The server of the first unit, or 'default': another one for each file
    #[arg(long, value_name = "SERVER", value_parser = parse_or_default::<ServerId>)]
    first: Option<Given<ServerId>>,
    /// The file or directory: below a mount point, or a path inside the file system
    path: PathBuf,
}

/// A value of an option that may also be `default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given<T> {
    Default,
    Value(T),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Count {
    All,
    Servers(u16),
}

trait Parse: Sized {
    fn parse(text: &str) -> Result<Self, String>;
}

impl Parse for u32 {
    fn parse(text: &str) -> Result<u32, String> {
        parse_unit(text)
    }
}

impl Parse for Count {
    fn parse(text: &str) -> Result<Count, String> {
        match (text, text.parse()) {
            ("all", _) => Ok(Count::All),
            (_, Ok(count)) if count > 0 => Ok(Count::Servers(count)),
            _ => Err(format!(
                "'{text}' is no number of servers: write 1, 2, … or 'all'"
            )),
        }
    }
}

impl Parse for ServerId {
    fn parse(text: &str) -> Result<ServerId, String> {
        let server = text.parse().map(ServerId);
        server.map_err(|_| format!("'{text}' is no server's number"))
    }
}

fn parse_or_default<T: Parse>(text: &str) -> Result<Given<T>, String> {
    match text {
        "default" => Ok(Given::Default),
        text => T::parse(text).map(Given::Value),
    }
}

impl<T> Given<T> {
    fn value(self) -> Option<T> {
        match self {
            Given::Default => None,
            Given::Value(value) => Some(value),
        }
    }
}

impl Layout {
    /// # Errors
    /// When there is no such file, it cannot have that layout, or its servers cannot be asked.
    pub(crate) fn run(&self) -> Result<Outcome> {
        match &self.action {
            Action::Get(get) => get.run(),
            Action::Set(set) => set.run(),
        }
    }
}

/// A file or directory at a path.
struct Found {
    cluster: Cluster,
    client: Client,
    caller: Credentials,
    ino: Ino,
    inside: PathBuf,
}

impl Found {
    fn at(source: &Source, path: &Path) -> Result<Found> {
        let cluster = source.find(Some(path))?;
        let inside = path_inside(cluster.map.fs, path)?;
        let client = backend::connect_within(&cluster, Some(PATIENCE))?;
        let caller = backend::caller();
        let node = client
            .resolve(&caller, inside.as_os_str().as_bytes())
            .with_context(|| format!("{} in {}", inside.display(), cluster.map.name))?;
        Ok(Found {
            cluster,
            client,
            caller,
            ino: node.ino,
            inside,
        })
    }

    fn layout(&self) -> Result<LayoutOf> {
        match self.client.layout(&self.caller, self.ino) {
            Err(ClientError::Fs(FsError::Invalid)) => {
                bail!(
                    "{} is neither a file nor a directory",
                    self.inside.display()
                )
            }
            layout => layout.with_context(|| self.inside.display().to_string()),
        }
    }
}

impl Get {
    fn run(&self) -> Result<Outcome> {
        let found = Found::at(&self.source, &self.path)?;
        let report = Report::new(&found.cluster.map, &found.inside, found.layout()?);
        if self.json {
            let json = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
            crate::print(&format!("{json}\n"))?;
        } else {
            crate::print(&report.text())?;
        }
        Ok(Outcome::Done)
    }
}

impl Set {
    fn run(&self) -> Result<Outcome> {
        ensure!(
            self.unit.is_some() || self.count.is_some() || self.first.is_some(),
            "there is nothing to set: give --unit, --count or --first"
        );
        let found = Found::at(&self.source, &self.path)?;
        let shown = found.inside.display();
        let before = match found.layout()? {
            LayoutOf::Dir(choice) => choice,
            LayoutOf::File {
                layout,
                is_fixed: false,
            } => chosen(&layout),
            LayoutOf::File { .. } => {
                bail!("{shown} has data, and keeps its layout: copy it to a new file")
            }
        };
        let choice = self.choice(before, found.cluster.map.servers.len())?;
        found
            .client
            .set_layout(&found.caller, found.ino, choice)
            .with_context(|| format!("cannot set how {shown} is striped"))?;
        Ok(Outcome::Done)
    }

    /// The layout asked for, over so many servers.
    fn choice(&self, before: LayoutChoice, servers: usize) -> Result<LayoutChoice> {
        let servers = u16::try_from(servers).context("the cluster map has too many servers")?;
        let last = servers.saturating_sub(1);
        let mut choice = before;
        if let Some(unit) = self.unit {
            choice.unit = unit.value();
        }
        if let Some(count) = self.count {
            choice.count = count.value().map(|count| match count {
                Count::All => servers,
                Count::Servers(count) => count,
            });
        }
        if let Some(first) = self.first {
            choice.first = first.value();
        }
        if let Some(count) = choice.count {
            ensure!(
                count <= servers,
                "a file cannot go over {count} servers: there are {servers}"
            );
        }
        if let Some(first) = choice.first {
            ensure!(
                first.0 < servers,
                "there is no server {first}: they are 0 to {last}"
            );
        }
        Ok(choice)
    }
}

/// Output of `--json`. Fields may be added; none goes or changes its meaning.
#[derive(Debug, Serialize)]
struct Report {
    path: String,
    /// Of a directory: it is what files will get that are made in it.
    is_directory: bool,
    /// Bytes.
    unit: u32,
    count: u16,
    /// `None`: another server for each file.
    first: Option<u16>,
    /// The file has data, so that none of it can be changed.
    is_fixed: bool,
    /// Of a directory: what is not the file system's default.
    chosen: Vec<&'static str>,
}

impl Report {
    fn new(map: &ClusterMap, path: &Path, layout: LayoutOf) -> Report {
        let path = path.display().to_string();
        match layout {
            LayoutOf::File { layout, is_fixed } => Report {
                path,
                is_directory: false,
                unit: layout.unit,
                count: layout.count,
                first: Some(layout.first.0),
                is_fixed,
                chosen: Vec::new(),
            },
            LayoutOf::Dir(choice) => {
                let servers = map.servers.len().min(usize::from(u16::MAX)) as u16;
                let default_count = match map.settings.stripe_count {
                    0 => servers,
                    count => count.min(servers),
                };
                let chosen = [
                    ("unit", choice.unit.is_some()),
                    ("count", choice.count.is_some()),
                    ("first", choice.first.is_some()),
                ];
                Report {
                    path,
                    is_directory: true,
                    unit: choice.unit.unwrap_or(map.settings.stripe_unit),
                    count: choice.count.unwrap_or(default_count),
                    first: choice.first.map(|first| first.0),
                    is_fixed: false,
                    chosen: chosen
                        .into_iter()
                        .filter_map(|(name, is_chosen)| is_chosen.then_some(name))
                        .collect(),
                }
            }
        }
    }

    fn text(&self) -> String {
        let servers = units::plural(u64::from(self.count), "server", "servers");
        let first = match self.first {
            Some(first) => format!("from server {first} on"),
            None => "each file from another one on".to_owned(),
        };
        let unit = units::bytes(u64::from(self.unit));
        let what = match (self.is_directory, self.is_fixed) {
            (true, _) if self.chosen.is_empty() => " (the file system's default)".to_owned(),
            (true, _) => format!(" (set here or above: {})", self.chosen.join(", ")),
            (false, true) => String::new(),
            (false, false) => " (it has no data yet)".to_owned(),
        };
        format!(
            "{}: {unit} on each of {servers} in turn, {first}{what}\n",
            self.path
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use pandofs_api::Layout as FileLayout;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        layout: Layout,
    }

    fn set(options: &str) -> Result<Set, String> {
        let words = ["layout", "set", "--data", "/d"].into_iter();
        let line = words.chain(options.split(' ')).chain(["/file"]);
        match Line::try_parse_from(line) {
            Ok(Line {
                layout: Layout {
                    action: Action::Set(set),
                },
            }) => Ok(set),
            Ok(_) => panic!("no set"),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn what_is_given_replaces_what_is_there() {
        let before = LayoutChoice {
            unit: Some(65_536),
            count: Some(2),
            first: Some(ServerId(1)),
        };
        let choice = |options| set(options).unwrap().choice(before, 4).unwrap();
        let unit = choice("--unit 1M");
        assert_eq!(
            (unit.unit, unit.count, unit.first),
            (Some(1 << 20), Some(2), Some(ServerId(1)))
        );
        assert_eq!(choice("--count all").count, Some(4));
        assert_eq!(choice("--first default").first, None);
        assert_eq!(choice("--unit default --count 1").count, Some(1));
    }

    #[test]
    fn what_cannot_be_is_refused_with_the_limit() {
        for (options, said) in [
            ("--unit 5000", "multiple of 4 KiB up to 1 GiB"),
            ("--unit 2G", "multiple of 4 KiB up to 1 GiB"),
            ("--count 0", "no number of servers"),
            ("--first x", "no server's number"),
        ] {
            let error = set(options).unwrap_err();
            assert!(error.contains(said), "{options}: {error}");
        }
        for (options, said) in [
            ("--count 5", "there are 4"),
            ("--first 4", "they are 0 to 3"),
        ] {
            let choice = set(options).unwrap().choice(LayoutChoice::default(), 4);
            let error = choice.unwrap_err().to_string();
            assert!(error.contains(said), "{options}: {error}");
        }
    }

    #[test]
    fn files_and_directories_are_told_apart() {
        let addresses = (0..4).map(|id| format!("unix:/{id}")).collect();
        let map = crate::new_cluster::tests::options()
            .create_map(addresses)
            .unwrap();
        let text = |layout| Report::new(&map, Path::new("/x"), layout).text();
        let layout = FileLayout {
            unit: 1 << 20,
            count: 2,
            first: ServerId(3),
            servers: 4,
        };
        let file = text(LayoutOf::File {
            layout,
            is_fixed: true,
        });
        assert_eq!(
            file,
            "/x: 1.0 MiB on each of 2 servers in turn, from server 3 on\n"
        );
        let plain = text(LayoutOf::Dir(LayoutChoice::default()));
        assert!(plain.contains("each file from another one on (the file system's default)"));
        let chosen = text(LayoutOf::Dir(LayoutChoice {
            count: Some(1),
            ..LayoutChoice::default()
        }));
        assert!(chosen.contains("each of 1 server in turn"), "{chosen}");
        assert!(chosen.contains("(set here or above: count)"), "{chosen}");
    }
}
