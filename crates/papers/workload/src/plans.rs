//! The workloads.

use crate::op::{Kind, Op};
use crate::plan::{Phase, Plan};
use pandofs_model::Rng;
use pandofs_model::space::{NAMESPACE_1, Space};
use std::fmt;

/// The workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// As LLNL's mdtest: each client a directory of its own.
    Mdtest,
    /// As UCAR's metarates: all clients in one directory.
    Metarates,
    /// As NetApp's PostMark: small files, transactions of two operations each.
    Postmark,
    /// Xiong et al.: a name space is made, looked at and removed.
    Macro1,
    /// Xiong et al., table 2: a mix of operations on files drawn at random.
    Macro2,
    /// As mdtest with -b and -z: an even tree that is made, listed and removed.
    Tree,
}

impl Workload {
    /// In the order in which they are listed.
    pub const ALL: [Workload; 6] = [
        Workload::Mdtest,
        Workload::Metarates,
        Workload::Postmark,
        Workload::Macro1,
        Workload::Macro2,
        Workload::Tree,
    ];

    /// The whole plan.
    ///
    /// # Panics
    /// With no clients.
    pub fn plan(self, size: &Size) -> Plan {
        assert!(size.clients > 0, "there are no clients");
        let phases = match self {
            Workload::Mdtest => flat(size, true),
            Workload::Metarates => flat(size, false),
            Workload::Postmark => postmark(size),
            Workload::Macro1 => macro1(size),
            Workload::Macro2 => macro2(size),
            Workload::Tree => tree(size),
        };
        Plan { phases }
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Workload::Mdtest => "mdtest",
            Workload::Metarates => "metarates",
            Workload::Postmark => "postmark",
            Workload::Macro1 => "macro1",
            Workload::Macro2 => "macro2",
            Workload::Tree => "tree",
        })
    }
}

/// The size of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Each has a stream of its own.
    pub clients: usize,
    /// Files of all clients together, about; macro2: operations.
    pub files: usize,
    /// One seed makes one plan.
    pub seed: u64,
}

/// Creations, looks, changes of times and removals, in one directory or one for each client.
fn flat(size: &Size, own: bool) -> Vec<Phase> {
    let directory = |client: usize| {
        if own {
            format!("client-{client}")
        } else {
            "shared".to_owned()
        }
    };
    let each = (size.files / size.clients).max(1);
    let files = |kind: Kind| {
        let of = |client: usize| {
            let at = directory(client);
            let path = move |file: usize| format!("{at}/file-{client}-{file}");
            (0..each).map(|file| Op::new(kind, path(file))).collect()
        };
        Phase::new(kind.to_string(), (0..size.clients).map(of).collect())
    };
    let directories = |kind: Kind| {
        let of = |client: usize| {
            let wanted = own || client == 0;
            let op = wanted.then(|| Op::new(kind, directory(client)));
            op.into_iter().collect()
        };
        Phase::new(kind.to_string(), (0..size.clients).map(of).collect())
    };
    vec![
        directories(Kind::Mkdir),
        files(Kind::Create),
        files(Kind::Stat),
        files(Kind::Utime),
        files(Kind::Unlink),
        directories(Kind::Rmdir),
    ]
}

/// Subdirectories of each client, and bytes of a file: PostMark's defaults are 500 to 9.77 KB.
const POSTMARK_DIRECTORIES: usize = 8;
const POSTMARK_LEAST: u64 = 500;
const POSTMARK_MOST: u64 = 10_000;

/// Files are made, twice as many transactions done (read or append, then create or delete), and the
/// rest removed.
fn postmark(size: &Size) -> Vec<Phase> {
    let each = (size.files / size.clients).max(2);
    let names = ["mkdir", "create", "transaction", "unlink", "rmdir"];
    let mut phases: Vec<Phase> = names.map(|name| Phase::new(name, Vec::new())).into();
    for client in 0..size.clients {
        let mut rng = Rng::new(size.seed, client as u64);
        let directories: Vec<String> = (0..POSTMARK_DIRECTORIES)
            .map(|number| format!("client-{client}-{number}"))
            .collect();
        let mut made = 0;
        let mut files = Vec::new();
        let mut make = |rng: &mut Rng, files: &mut Vec<String>, ops: &mut Vec<Op>| {
            let directory = &directories[rng.below(directories.len() as u64) as usize];
            let path = format!("{directory}/file-{made}");
            made += 1;
            let bytes = POSTMARK_LEAST + rng.below(POSTMARK_MOST - POSTMARK_LEAST);
            ops.push(Op::with_bytes(Kind::Create, &path, bytes as u32));
            files.push(path);
        };
        let mut creations = Vec::new();
        for _ in 0..each {
            make(&mut rng, &mut files, &mut creations);
        }
        let mut transactions = Vec::new();
        for _ in 0..2 * each {
            let file = &files[rng.below(files.len() as u64) as usize];
            let kind = [Kind::Read, Kind::Write][rng.below(2) as usize];
            transactions.push(Op::with_bytes(kind, file, POSTMARK_LEAST as u32));
            if rng.below(2) == 0 || files.len() < 2 {
                make(&mut rng, &mut files, &mut transactions);
            } else {
                let which = rng.below(files.len() as u64) as usize;
                transactions.push(Op::new(Kind::Unlink, files.swap_remove(which)));
            }
        }
        let of =
            |kind: Kind, paths: &[String]| paths.iter().map(|path| Op::new(kind, path)).collect();
        phases[0].clients.push(of(Kind::Mkdir, &directories));
        phases[1].clients.push(creations);
        phases[2].clients.push(transactions);
        phases[3].clients.push(of(Kind::Unlink, &files));
        phases[4].clients.push(of(Kind::Rmdir, &directories));
    }
    phases
}

/// A small name space with the paper's shape, and the path of each of its objects.
fn space(size: &Size) -> (Space, Vec<String>) {
    let files = u32::try_from(size.files).unwrap_or(u32::MAX);
    let kind = NAMESPACE_1.with_files(files);
    let space = Space::generate(kind, size.seed);
    let mut paths = vec!["space".to_owned()];
    for object in 1..space.len() {
        let parent = &paths[space.parents[object] as usize];
        let letter = if space.is_dir[object] { 'd' } else { 'f' };
        paths.push(format!("{parent}/{letter}{object}"));
    }
    (space, paths)
}

/// Directories of one level after the other, so that no client needs what another has not made yet.
fn levels(space: &Space, paths: &[String], kind: Kind, clients: usize) -> Vec<Phase> {
    let deepest = space.levels.iter().copied().max().unwrap_or(0);
    let mut phases: Vec<Phase> = (0..=deepest)
        .map(|level| {
            let here = (0..space.len()).filter(|&at| space.is_dir[at] && space.levels[at] == level);
            let ops = here.map(|at| Op::new(kind, &paths[at])).collect();
            Phase::dealt(kind.to_string(), ops, clients)
        })
        .collect();
    if kind == Kind::Rmdir {
        phases.reverse();
    }
    phases
}

fn of_files(space: &Space, paths: &[String], kind: Kind, clients: usize) -> Phase {
    let files = (0..space.len()).filter(|&at| !space.is_dir[at]);
    let ops = files.map(|at| Op::new(kind, &paths[at])).collect();
    Phase::dealt(kind.to_string(), ops, clients)
}

fn macro1(size: &Size) -> Vec<Phase> {
    let (space, paths) = space(size);
    let mut phases = levels(&space, &paths, Kind::Mkdir, size.clients);
    phases.push(of_files(&space, &paths, Kind::Create, size.clients));
    let all = paths.iter().map(|path| Op::new(Kind::Stat, path)).collect();
    phases.push(Phase::dealt("stat", all, size.clients));
    phases.push(of_files(&space, &paths, Kind::Unlink, size.clients));
    phases.extend(levels(&space, &paths, Kind::Rmdir, size.clients));
    phases
}

/// Table 2, in hundredths of a per cent.
const MIX: [(Kind, u64); 9] = [
    (Kind::Open, 3_545),
    (Kind::Read, 2_567),
    (Kind::Write, 1_283),
    (Kind::Stat, 998),
    (Kind::Readdir, 770),
    (Kind::Create, 555),
    (Kind::Mkdir, 171),
    (Kind::Unlink, 107),
    (Kind::Rmdir, 4),
];
/// Bytes that macro2 reads and writes at a time.
const MACRO2_BYTES: u32 = 4_096;

fn macro2(size: &Size) -> Vec<Phase> {
    let (space, paths) = space(&Size {
        files: (size.files / 4).max(100),
        ..*size
    });
    let mut phases = levels(&space, &paths, Kind::Mkdir, size.clients);
    for phase in &mut phases {
        phase.name = "warm-up".to_owned();
    }
    let mut made = of_files(&space, &paths, Kind::Create, size.clients);
    made.name = "warm-up".to_owned();
    phases.push(made);
    let of = |wanted: bool| -> Vec<usize> {
        (0..space.len())
            .filter(|&at| space.is_dir[at] == wanted)
            .collect()
    };
    let (directories, files) = (of(true), of(false));
    let mut mixed = Vec::new();
    let mut left_behind = (Vec::new(), Vec::new());
    for client in 0..size.clients {
        let mut rng = Rng::new(size.seed, 0x100 + client as u64);
        // It also removes what it made itself, so that no one asks for files that are gone.
        let (mut own_files, mut own_directories) = (Vec::new(), Vec::new());
        let mut ops = Vec::new();
        for number in 0..(size.files / size.clients).max(1) {
            let mut left = rng.below(MIX.iter().map(|(_, weight)| weight).sum());
            let drawn = MIX.iter().find(|(_, weight)| {
                let here = left < *weight;
                left = left.saturating_sub(*weight);
                here
            });
            let kind = drawn.map_or(Kind::Open, |(kind, _)| *kind);
            let file = &paths[files[rng.below(files.len() as u64) as usize]];
            let directory = &paths[directories[rng.below(directories.len() as u64) as usize]];
            ops.push(match kind {
                Kind::Create | Kind::Mkdir => {
                    let path = format!("{directory}/{kind}-{client}-{number}");
                    let own = if kind == Kind::Create {
                        &mut own_files
                    } else {
                        &mut own_directories
                    };
                    own.push(path.clone());
                    Op::new(kind, path)
                }
                Kind::Unlink | Kind::Rmdir => {
                    let own = if kind == Kind::Unlink {
                        &mut own_files
                    } else {
                        &mut own_directories
                    };
                    let gone = own.pop();
                    gone.map_or_else(|| Op::new(Kind::Stat, file), |path| Op::new(kind, path))
                }
                Kind::Readdir => Op::new(kind, directory),
                Kind::Read | Kind::Write => Op::with_bytes(kind, file, MACRO2_BYTES),
                _ => Op::new(kind, file),
            });
        }
        let remove = |kind, paths: Vec<String>| -> Vec<Op> {
            paths.into_iter().map(|path| Op::new(kind, path)).collect()
        };
        left_behind.0.push(remove(Kind::Unlink, own_files));
        left_behind.1.push(remove(Kind::Rmdir, own_directories));
        mixed.push(ops);
    }
    phases.push(Phase::new("mix", mixed));
    phases.push(Phase::new("clean-up", left_behind.0));
    phases.push(Phase::new("clean-up", left_behind.1));
    let mut gone = vec![of_files(&space, &paths, Kind::Unlink, size.clients)];
    gone.extend(levels(&space, &paths, Kind::Rmdir, size.clients));
    for phase in &mut gone {
        phase.name = "clean-up".to_owned();
    }
    phases.extend(gone);
    phases
}

/// Subdirectories of a directory, and files in each, of the even tree.
const TREE_BRANCHES: usize = 8;
const TREE_FILES: usize = 16;

fn tree(size: &Size) -> Vec<Phase> {
    let directories = (size.files / TREE_FILES).max(1);
    let mut levels: Vec<Vec<String>> = vec![vec!["tree".to_owned()]];
    let mut count = 1;
    while count < directories {
        let above = &levels[levels.len() - 1];
        let below: Vec<String> = above
            .iter()
            .flat_map(|path| (0..TREE_BRANCHES).map(move |number| format!("{path}/d{number}")))
            .take(directories - count)
            .collect();
        count += below.len();
        levels.push(below);
    }
    let all: Vec<&String> = levels.iter().flatten().collect();
    let files: Vec<String> = all
        .iter()
        .flat_map(|path| (0..TREE_FILES).map(move |number| format!("{path}/f{number}")))
        .collect();
    let of_files = |kind: Kind| {
        let ops = files.iter().map(|path| Op::new(kind, path)).collect();
        Phase::dealt(kind.to_string(), ops, size.clients)
    };
    let of_level = |kind: Kind, level: &Vec<String>| {
        let ops = level.iter().map(|path| Op::new(kind, path)).collect();
        Phase::dealt(kind.to_string(), ops, size.clients)
    };
    let mut phases: Vec<Phase> = levels
        .iter()
        .map(|level| of_level(Kind::Mkdir, level))
        .collect();
    phases.push(of_files(Kind::Create));
    phases.push(of_files(Kind::Stat));
    let listed = all
        .iter()
        .map(|path| Op::new(Kind::Readdir, path.as_str()))
        .collect();
    phases.push(Phase::dealt("readdir", listed, size.clients));
    phases.push(of_files(Kind::Unlink));
    let removed = levels
        .iter()
        .rev()
        .map(|level| of_level(Kind::Rmdir, level));
    phases.extend(removed);
    phases
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::split;
    use std::collections::HashSet;

    /// Does a plan on a set of paths, one client after the other in each phase: what a plan needs
    /// must be there whatever the order of the clients.
    fn do_all(plan: &Plan) -> HashSet<String> {
        let mut there: HashSet<String> = HashSet::from([String::new()]);
        for phase in &plan.phases {
            for op in phase.clients.iter().rev().flatten() {
                let parent = split(&op.path).0;
                assert!(there.contains(parent), "{op:?} without its directory");
                match op.op {
                    Kind::Mkdir | Kind::Create => assert!(there.insert(op.path.clone()), "{op:?}"),
                    Kind::Unlink | Kind::Rmdir => {
                        assert!(there.remove(&op.path), "{op:?}");
                        let within = format!("{}/", op.path);
                        assert!(
                            !there.iter().any(|path| path.starts_with(&within)),
                            "{op:?}"
                        );
                    }
                    _ => assert!(there.contains(&op.path), "{op:?}"),
                }
            }
        }
        there
    }

    #[test]
    fn every_plan_can_be_done_and_leaves_nothing() {
        for workload in Workload::ALL {
            for clients in [1, 3, 16] {
                let size = Size {
                    clients,
                    files: 600,
                    seed: 1,
                };
                let plan = workload.plan(&size);
                assert!(plan.operations() > 600, "{workload}");
                assert!(
                    plan.phases
                        .iter()
                        .all(|phase| phase.clients.len() == clients)
                );
                assert_eq!(do_all(&plan).len(), 1, "{workload}");
                assert_eq!(plan, workload.plan(&size));
            }
        }
    }

    #[test]
    fn the_mix_of_macro2_is_that_of_table_2() {
        assert_eq!(MIX.iter().map(|(_, weight)| weight).sum::<u64>(), 10_000);
        let plan = Workload::Macro2.plan(&Size {
            clients: 4,
            files: 20_000,
            seed: 1,
        });
        let mix = plan
            .phases
            .iter()
            .find(|phase| phase.name == "mix")
            .unwrap();
        let opens = mix
            .clients
            .iter()
            .flatten()
            .filter(|op| op.op == Kind::Open);
        let share = opens.count() as f64 / 20_000.0;
        assert!((share - 0.3545).abs() < 0.02, "{share}");
    }
}
