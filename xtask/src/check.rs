//! All rules over the whole workspace.

use crate::finding::Finding;
use crate::source::{Source, test_only};
use crate::workspace::{Package, Problem, Workspace};
use crate::{clocks, dependencies, documents, faults, purity, tidy};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Prints what is wrong.
pub(crate) fn run() -> ExitCode {
    let outcome = std::env::current_dir()
        .map_err(|error| Problem::Read(PathBuf::from("."), error))
        .and_then(|here| Workspace::load(&here))
        .and_then(|workspace| check(&workspace).map(|found| (workspace, found)));
    match outcome {
        Ok((workspace, found)) if found.is_empty() => {
            println!(
                "xtask check: {} crates keep the house rules",
                workspace.packages.len()
            );
            ExitCode::SUCCESS
        }
        Ok((_, found)) => {
            for finding in &found {
                println!("{finding}");
            }
            println!("xtask check: {} places break a house rule", found.len());
            ExitCode::FAILURE
        }
        Err(problem) => {
            eprintln!("xtask check: {problem}");
            ExitCode::from(2)
        }
    }
}

/// Everything that is wrong with the workspace, in order of files and lines.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Finding>, Problem> {
    let mut found = dependencies::check(&workspace.packages);
    found.extend(dependencies::unused(&workspace.packages));
    for package in &workspace.packages {
        check_package(&workspace.root, package, &mut found)?;
    }
    // This program is no part of the workspace that the other rules are about.
    let own = Package {
        dir: PathBuf::from("xtask"),
        ..Package::default()
    };
    if workspace.root.join(&own.dir).is_dir() {
        for path in own.rust_files(&workspace.root)? {
            let text = workspace.text(&path)?.unwrap_or_default();
            found.extend(tidy::header(&path, &text));
        }
    }
    if let Some(map) = workspace.text(Path::new("ARCHITECTURE.md"))? {
        found.extend(documents::architecture_names(&map, &workspace.packages));
    }
    found.extend(faults::patch::check(workspace)?);
    found.sort();
    Ok(found)
}

fn check_package(root: &Path, package: &Package, found: &mut Vec<Finding>) -> Result<(), Problem> {
    let src = package.dir.join("src");
    let mut sources = Vec::new();
    for path in package.rust_files(root)? {
        let text = std::fs::read_to_string(root.join(&path))
            .map_err(|e| Problem::Read(path.clone(), e))?;
        let in_src = path.starts_with(&src);
        found.extend(tidy::text(&path, &text, in_src));
        found.extend(tidy::header(&path, &text));
        match Source::parse(&path, &text) {
            Ok(source) => {
                found.extend(tidy::code(&source));
                if in_src {
                    sources.push(source);
                }
            }
            Err(unreadable) => found.push(unreadable),
        }
    }
    found.extend(documents::header_has_invariant(package, &sources));
    found.extend(sources.iter().flat_map(clocks::check));
    if dependencies::is_pure(&package.name) {
        let tests: BTreeSet<PathBuf> = sources.iter().flat_map(test_only).collect();
        for source in sources {
            if !tests.iter().any(|test| source.path.starts_with(test)) {
                found.extend(purity::check(&source));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A workspace on disk whose files break rules of every kind, found with their places.
    #[test]
    fn a_bad_workspace_is_found_out() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\"crates/*/*\"]\n",
        );
        let package = |name: &str, dependencies: &str| {
            format!(
                "[package]\nname = \"{name}\"\nedition = \"2024\"\n\n[dependencies]\n{dependencies}"
            )
        };
        write(
            "crates/core/types/Cargo.toml",
            &package(
                "pandofs-types",
                "pandofs-wire = { path = \"../../engines/wire\" }\n",
            ),
        );
        write(
            "crates/core/types/src/lib.rs",
            concat!(
                "//! Words.\n//!\n//! Invariant: pure.\nmod fixtures;\n",
                "#[cfg(test)]\nmod tests;\npub fn f() { std::thread::yield_now() }\n",
            ),
        );
        write(
            "crates/core/types/src/tests.rs",
            "fn now() { std::time::SystemTime::now(); }\n",
        );
        write(
            "crates/core/types/src/fixtures.rs",
            concat!("// TO", "DO: more\n"),
        );
        write(
            "crates/engines/wire/Cargo.toml",
            &package("pandofs-wire", ""),
        );
        write(
            "crates/core/leases/Cargo.toml",
            &package("pandofs-leases", ""),
        );
        write("crates/core/leases/src/lib.rs", "//! Invariant: none.\n");
        write("crates/engines/wire/src/lib.rs", "//! No promise.\n");
        write(
            "crates/engines/wire/tests/t.rs",
            "#[test]\n#[ignore]\nfn t() {}\n",
        );
        write("xtask/src/main.rs", "//! How it is done.\n");
        write("ARCHITECTURE.md", "`types`, `leases`\n");

        let workspace = Workspace::load(dir.path()).unwrap();
        let found: Vec<(String, usize, &str)> = check(&workspace)
            .unwrap()
            .into_iter()
            .map(|it| (it.file.display().to_string(), it.line, it.rule))
            .collect();
        let expected = [
            ("ARCHITECTURE.md", 0, "architecture-names-crates"),
            ("crates/core/leases/Cargo.toml", 0, "unused-permission"),
            ("crates/core/types/Cargo.toml", 6, "dependency-direction"),
            ("crates/core/types/src/fixtures.rs", 1, "unfinished"),
            ("crates/core/types/src/lib.rs", 7, "pure-source"),
            ("crates/engines/wire/Cargo.toml", 0, "unused-permission"),
            ("crates/engines/wire/Cargo.toml", 0, "unused-permission"),
            ("crates/engines/wire/Cargo.toml", 0, "unused-permission"),
            ("crates/engines/wire/src/lib.rs", 1, "header-invariant"),
            ("crates/engines/wire/tests/t.rs", 2, "ignored-test"),
            ("xtask/src/main.rs", 1, "header-clause"),
        ];
        let expected: Vec<(String, usize, &str)> = expected
            .into_iter()
            .map(|(file, line, rule)| (file.to_owned(), line, rule))
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_directory_without_a_workspace_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(
            Workspace::load(dir.path()),
            Err(Problem::Cargo(_))
        ));
    }
}
