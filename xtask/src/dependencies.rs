//! Allowed dependencies between crates: the one table of them, and its check.
//!
//! Inner crates know nothing of outer ones, so that they can be tested, replaced and reasoned about
//! alone.

use crate::finding::Finding;
use crate::workspace::{Dependency, Kind, PREFIX, Package};

/// Crates of the workspace that a crate may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Uses {
    Only(&'static [&'static str]),
    /// A front end, or something for tests.
    Anything,
}

struct Rule {
    name: &'static str,
    uses: Uses,
    /// No I/O, clock, randomness or threads.
    pure: bool,
    /// Only tests of others may use it.
    for_tests: bool,
}

const fn inner(name: &'static str, uses: &'static [&'static str]) -> Rule {
    Rule {
        name,
        uses: Uses::Only(uses),
        pure: true,
        for_tests: false,
    }
}

const fn outer(name: &'static str, uses: &'static [&'static str]) -> Rule {
    Rule {
        name,
        uses: Uses::Only(uses),
        pure: false,
        for_tests: false,
    }
}

const fn front(name: &'static str) -> Rule {
    Rule {
        name,
        uses: Uses::Anything,
        pure: false,
        for_tests: false,
    }
}

const fn tests(name: &'static str) -> Rule {
    Rule {
        name,
        uses: Uses::Anything,
        pure: false,
        for_tests: true,
    }
}

/// The whole table, from the inside out. `ARCHITECTURE.md` has a picture of it.
#[rustfmt::skip]
const RULES: [Rule; 41] = [
    inner("types", &[]),
    inner("placement", &["types"]),
    inner("api", &["types", "placement"]),
    inner("leases", &["types"]),
    inner("session", &["types", "placement", "api", "leases"]),
    outer("storage", &["types"]),
    outer("store-rocksdb", &["storage", "types"]),
    outer("store-directories", &["storage", "types"]),
    outer("log-raft-engine", &["storage", "types"]),
    inner("namespace", &["types", "placement", "api", "storage"]),
    inner("deputy", &["types", "placement", "api", "storage", "namespace", "session"]),
    inner("commit", &["types", "api"]),
    inner("shard", &["types", "placement", "api", "storage", "namespace", "commit", "leases"]),
    inner("lane", &["types", "placement", "api", "storage", "shard"]),
    inner("check", &["types", "placement", "api", "storage", "namespace", "commit", "shard", "lane"]),
    outer("wire", &["types", "placement", "api"]),
    outer("fuse-kernel", &[]),
    outer("metrics", &[]),
    outer("spans", &["types"]),
    outer("manual", &[]),
    outer("client", &["types", "placement", "api", "wire", "session", "deputy"]),
    outer("handles", &["types", "api", "client"]),
    outer("capi", &["types", "client", "handles"]),
    outer("python", &["types", "handles"]),
    outer("preload", &["types", "api", "client", "handles"]),
    outer("server", &["types", "placement", "api", "storage", "store-rocksdb", "store-directories", "log-raft-engine",
        "metrics", "spans", "shard", "lane", "wire"]),
    outer("fuse", &["types", "api", "client", "fuse-kernel", "metrics", "spans"]),
    inner("walk", &[]),
    outer("model", &["types", "placement"]),
    outer("workload", &["types", "api", "client", "model"]),
    outer("walk-fs", &["walk"]),
    outer("walk-tools", &["walk", "walk-fs", "manual"]),
    outer("walk-mpi", &["walk-fs", "walk-tools", "manual"]),
    outer("cli", &["types", "placement", "api", "check", "wire", "client", "handles", "server", "fuse", "metrics",
        "spans", "manual", "model", "workload"]),
    front("bench"),
    outer("walk-bench", &["walk"]),
    front("trials"),
    outer("posix", &[]),
    tests("testkit"),
    tests("sim"),
    tests("formats"),
];

/// Libraries that few crates may name, so that replacing them touches one crate; the first is what the system
/// stands on.
const ONLY_IN: [(&str, &[&str]); 14] = [
    ("rocksdb", &["store-rocksdb"]),
    ("librocksdb-sys", &["store-rocksdb"]),
    ("raft-engine", &["log-raft-engine"]),
    ("mpi", &["walk-mpi"]),
    ("prometheus-client", &["metrics"]),
    ("hyper", &["metrics", "spans"]),
    ("tokio", &["metrics", "spans"]),
    ("opentelemetry", &["spans"]),
    ("opentelemetry_sdk", &["spans"]),
    ("opentelemetry-otlp", &["spans"]),
    ("opentelemetry-http", &["spans"]),
    ("clap_mangen", &["manual"]),
    ("clap_complete", &["manual"]),
    ("pyo3", &["python"]),
];

/// Libraries that pure crates may use: data structures, encodings and arithmetic. One that touches
/// files, sockets, clocks, threads or the system's random numbers does not belong here: `rand_xoshiro` draws
/// from a seed that it is given.
const PURE_LIBRARIES: [&str; 12] = [
    "bytes",
    "crc32c",
    "crc32fast",
    "hashbrown",
    "indexmap",
    "postcard",
    "rand_xoshiro",
    "serde",
    "serde_bytes",
    "serde_json",
    "siphasher",
    "thiserror",
];

/// Whether the crate is one that must not touch the outside world.
pub(crate) fn is_pure(name: &str) -> bool {
    rule(name).is_some_and(|rule| rule.pure)
}

pub(crate) fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().flat_map(check_package).collect()
}

/// Allowed dependencies that no crate has: the table says what is so, not what might be.
pub(crate) fn unused(packages: &[Package]) -> Vec<Finding> {
    let mut found = Vec::new();
    for package in packages {
        let Some(Uses::Only(allowed)) = rule(&package.name).map(|rule| rule.uses) else {
            continue;
        };
        for name in allowed {
            let uses = package.dependencies.iter().any(|dependency| {
                dependency.kind != Kind::Dev && dependency.name.strip_prefix(PREFIX) == Some(name)
            });
            if !uses {
                let why = format!(
                    "`{}` may use `{name}` and does not: take it from the table of allowed \
                     dependencies (xtask/src/dependencies.rs)",
                    package.name
                );
                found.push(Finding::new(&package.manifest, 0, "unused-permission", why));
            }
        }
    }
    found
}

fn check_package(package: &Package) -> Vec<Finding> {
    let Some(rule) = rule(&package.name) else {
        return vec![Finding::new(
            &package.manifest,
            0,
            "dependency-direction",
            format!(
                "crate `{}` has no line in the table of allowed dependencies \
                 (xtask/src/dependencies.rs)",
                package.name
            ),
        )];
    };
    package
        .dependencies
        .iter()
        .filter_map(|dependency| {
            let (name, why) = match dependency.name.strip_prefix(PREFIX) {
                Some(inside) => (
                    "dependency-direction",
                    check_inside(rule, dependency, inside)?,
                ),
                None => check_library(rule, dependency)?,
            };
            Some(Finding::new(&package.manifest, dependency.line, name, why))
        })
        .collect()
}

/// A finding about the use of another crate of the workspace.
fn check_inside(user: &Rule, dependency: &Dependency, name: &str) -> Option<String> {
    // A dependency of tests alone does not bind the crate to anything.
    if dependency.kind == Kind::Dev {
        return None;
    }
    if rule(name).is_some_and(|used| used.for_tests) && !user.for_tests {
        return Some(format!(
            "`{}` depends on `{name}`, which is for tests: only a dev-dependency may name it",
            user.name
        ));
    }
    match user.uses {
        Uses::Anything => None,
        Uses::Only(allowed) if allowed.contains(&name) => None,
        Uses::Only([]) => Some(format!(
            "`{}` depends on `{name}`, but may use no other crate",
            user.name
        )),
        Uses::Only(allowed) => Some(format!(
            "`{}` depends on `{name}`, but may use only {}: dependencies point inwards",
            user.name,
            allowed.join(", ")
        )),
    }
}

/// A finding about the use of a library.
fn check_library(user: &Rule, dependency: &Dependency) -> Option<(&'static str, String)> {
    let library = dependency.name.as_str();
    if let Some((_, owners)) = ONLY_IN.iter().find(|(name, _)| *name == library)
        && !owners.contains(&user.name)
    {
        let why = format!(
            "`{}` names `{library}`, which only `{}` may: the rest of the system stands on a \
             trait instead",
            user.name,
            owners.join("`, `")
        );
        return Some(("library-in-one-crate", why));
    }
    if user.pure && dependency.kind != Kind::Dev && !PURE_LIBRARIES.contains(&library) {
        let why = format!(
            "`{}` is pure, and `{library}` is not known to do without I/O, clock, threads and random \
             numbers (PURE_LIBRARIES in xtask/src/dependencies.rs)",
            user.name
        );
        return Some(("pure-dependencies", why));
    }
    None
}

fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn package(name: &str, dependencies: &[(&str, Kind)]) -> Package {
        let dir = PathBuf::from("crates/core").join(name);
        Package {
            name: name.to_owned(),
            manifest: dir.join("Cargo.toml"),
            dir,
            dependencies: (10..)
                .zip(dependencies)
                .map(|(line, (name, kind))| Dependency {
                    name: (*name).to_owned(),
                    kind: *kind,
                    line,
                })
                .collect(),
        }
    }

    /// Rule and line of each finding.
    fn found(name: &str, dependencies: &[(&str, Kind)]) -> Vec<(&'static str, usize)> {
        check(&[package(name, dependencies)])
            .into_iter()
            .map(|it| (it.rule, it.line))
            .collect()
    }

    #[test]
    fn inwards_is_allowed_and_outwards_is_not() {
        let normal = Kind::Normal;
        assert_eq!(found("placement", &[("pandofs-types", normal)]), []);
        assert_eq!(
            found(
                "cli",
                &[("pandofs-server", normal), ("pandofs-fuse", normal)]
            ),
            []
        );
        assert_eq!(
            found("types", &[("serde", normal), ("pandofs-placement", normal)]),
            [("dependency-direction", 11)]
        );
        assert_eq!(
            found(
                "shard",
                &[
                    ("pandofs-commit", normal),
                    ("pandofs-store-rocksdb", normal)
                ]
            ),
            [("dependency-direction", 11)]
        );
        assert_eq!(
            found("commit", &[("pandofs-namespace", normal)]),
            [("dependency-direction", 10)]
        );
        assert_eq!(
            found("server", &[("pandofs-client", normal)]),
            [("dependency-direction", 10)]
        );
        assert_eq!(
            found("cli", &[("pandofs-walk-tools", normal)]),
            [("dependency-direction", 10)]
        );
        assert_eq!(
            found("wire", &[("pandofs-storage", Kind::Build)]),
            [("dependency-direction", 10)]
        );
    }

    #[test]
    fn the_message_says_what_is_allowed() {
        let all = check(&[package("wire", &[("pandofs-shard", Kind::Normal)])]);
        assert_eq!(
            all[0].to_string(),
            "crates/core/wire/Cargo.toml:10: dependency-direction: `wire` depends on `shard`, but may use \
             only types, placement, api: dependencies point inwards"
        );
    }

    #[test]
    fn an_allowed_dependency_that_is_not_used_is_found() {
        let unused_of = |dependencies: &[(&str, Kind)]| -> Vec<String> {
            unused(&[package("api", dependencies)])
                .iter()
                .map(Finding::to_string)
                .collect()
        };
        let types = ("pandofs-types", Kind::Normal);
        assert!(unused_of(&[types, ("pandofs-placement", Kind::Normal)]).is_empty());
        assert_eq!(
            unused_of(&[types, ("pandofs-placement", Kind::Dev)]),
            [
                "crates/core/api/Cargo.toml: unused-permission: `api` may use `placement` and does \
                 not: take it from the table of allowed dependencies (xtask/src/dependencies.rs)"
            ]
        );
        assert!(unused(&[package("bench", &[]), package("types", &[])]).is_empty());
    }

    #[test]
    fn test_helpers_are_for_tests() {
        assert_eq!(found("shard", &[("pandofs-testkit", Kind::Dev)]), []);
        assert_eq!(found("testkit", &[("pandofs-formats", Kind::Normal)]), []);
        assert_eq!(
            found("shard", &[("pandofs-testkit", Kind::Normal)]),
            [("dependency-direction", 10)]
        );
        assert_eq!(
            found("cli", &[("pandofs-testkit", Kind::Normal)]),
            [("dependency-direction", 10)]
        );
    }

    #[test]
    fn a_crate_without_a_rule_is_found() {
        assert_eq!(found("surprise", &[]), [("dependency-direction", 0)]);
    }

    #[test]
    fn a_replaceable_library_is_named_once() {
        for (library, owners) in ONLY_IN {
            for owner in owners {
                assert_eq!(found(owner, &[(library, Kind::Normal)]), []);
            }
            for kind in [Kind::Normal, Kind::Build, Kind::Dev] {
                assert_eq!(
                    found("server", &[(library, kind)]),
                    [("library-in-one-crate", 10)]
                );
            }
        }
    }

    #[test]
    fn pure_crates_use_only_what_is_known_to_be_pure() {
        for name in [
            "types",
            "placement",
            "api",
            "namespace",
            "commit",
            "shard",
            "lane",
            "check",
            "walk",
        ] {
            assert!(is_pure(name), "{name}");
            for library in [
                "smol",
                "mio",
                "libc",
                "rustix",
                "rand",
                "getrandom",
                "crossbeam",
            ] {
                assert_eq!(
                    found(name, &[("serde", Kind::Normal), (library, Kind::Normal)]),
                    [("pure-dependencies", 11)]
                );
                assert_eq!(found(name, &[(library, Kind::Dev)]), []);
            }
        }
        assert_eq!(found("server", &[("mio", Kind::Normal)]), []);
    }

    /// The table itself: names exist, nothing is named twice, and no two crates use one another.
    #[test]
    fn the_table_points_inwards() {
        for (place, rule) in RULES.iter().enumerate() {
            let Uses::Only(allowed) = rule.uses else {
                continue;
            };
            for used in allowed {
                let inside = RULES[..place].iter().any(|other| other.name == *used);
                assert!(inside, "{} uses {used}, which is not above it", rule.name);
            }
        }
        let mut names: Vec<_> = RULES.iter().map(|rule| rule.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RULES.len());
    }

    /// A pure crate on top of one that is not would be pure in name only; the ports are traits.
    #[test]
    fn pure_crates_stand_on_pure_crates_and_on_ports() {
        for user in RULES.iter().filter(|rule| rule.pure) {
            let Uses::Only(allowed) = user.uses else {
                panic!("{} may use anything", user.name)
            };
            for used in allowed {
                assert!(
                    is_pure(used) || *used == "storage",
                    "{} uses {used}",
                    user.name
                );
            }
        }
    }
}
