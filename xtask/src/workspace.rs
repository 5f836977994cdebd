//! The crates of the workspace and what they depend on, as cargo sees them.

use serde::Deserialize;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Why nothing could be checked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    #[error("cannot read {}: {}", .0.display(), .1)]
    Read(PathBuf, io::Error),
    #[error("cargo metadata fails: {0}")]
    Cargo(String),
    #[error("cargo metadata is not understood: {0}")]
    Metadata(#[from] serde_json::Error),
    #[error("{0}")]
    Faults(String),
}

#[derive(Debug)]
pub(crate) struct Workspace {
    pub root: PathBuf,
    /// Where cargo puts what it builds.
    pub target: PathBuf,
    /// Those under `crates/`.
    pub packages: Vec<Package>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Package {
    /// Without `pandofs-`.
    pub name: String,
    /// From the root of the workspace, like all paths here.
    pub dir: PathBuf,
    pub manifest: PathBuf,
    pub dependencies: Vec<Dependency>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dependency {
    /// The package's name, whatever the manifest calls it.
    pub name: String,
    pub kind: Kind,
    /// Where the manifest names it; 0 if it is not found.
    pub line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Part of what is built.
    Normal,
    /// Of a build script.
    Build,
    /// Of tests, examples and benchmarks.
    Dev,
}

/// Prefix of the name of every package of the workspace.
pub(crate) const PREFIX: &str = "pandofs-";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<MetadataPackage>,
    workspace_root: PathBuf,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct MetadataPackage {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<MetadataDependency>,
}

#[derive(Deserialize)]
struct MetadataDependency {
    name: String,
    kind: Option<String>,
    rename: Option<String>,
}

impl Workspace {
    /// The workspace that `dir` is in.
    pub(crate) fn load(dir: &Path) -> Result<Workspace, Problem> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args([
                "metadata",
                "--format-version",
                "1",
                "--no-deps",
                "--offline",
            ])
            .current_dir(dir)
            .output()
            .map_err(|error| Problem::Cargo(error.to_string()))?;
        if !output.status.success() {
            return Err(Problem::Cargo(
                String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            ));
        }
        let metadata: Metadata = serde_json::from_slice(&output.stdout)?;
        let root = metadata.workspace_root;
        let mut packages = Vec::new();
        for package in metadata.packages {
            let text = std::fs::read_to_string(&package.manifest_path)
                .map_err(|error| Problem::Read(package.manifest_path.clone(), error))?;
            packages.extend(Package::new(&root, package, &text));
        }
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        let target = metadata.target_directory;
        Ok(Workspace {
            root,
            target,
            packages,
        })
    }

    /// The text of a file, if there is such a file.
    pub(crate) fn text(&self, path: &Path) -> Result<Option<String>, Problem> {
        match std::fs::read_to_string(self.root.join(path)) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Problem::Read(path.to_owned(), error)),
        }
    }
}

impl Package {
    fn new(root: &Path, package: MetadataPackage, text: &str) -> Option<Package> {
        let manifest = package.manifest_path.strip_prefix(root).ok()?.to_owned();
        let dir = manifest.parent()?.to_owned();
        if !dir.starts_with("crates") {
            return None;
        }
        let dependencies = package
            .dependencies
            .into_iter()
            .map(|dependency| {
                let kind = match dependency.kind.as_deref() {
                    Some("dev") => Kind::Dev,
                    Some("build") => Kind::Build,
                    _ => Kind::Normal,
                };
                let called = dependency.rename.as_ref().unwrap_or(&dependency.name);
                Dependency {
                    line: line_of(text, kind, called),
                    name: dependency.name,
                    kind,
                }
            })
            .collect();
        let name = package
            .name
            .strip_prefix(PREFIX)
            .unwrap_or(&package.name)
            .to_owned();
        Some(Package {
            name,
            dir,
            manifest,
            dependencies,
        })
    }

    /// Every Rust source of the package, in order.
    pub(crate) fn rust_files(&self, root: &Path) -> Result<Vec<PathBuf>, Problem> {
        let mut files = Vec::new();
        let mut dirs = vec![self.dir.clone()];
        while let Some(dir) = dirs.pop() {
            let read = |error| Problem::Read(dir.clone(), error);
            for entry in std::fs::read_dir(root.join(&dir)).map_err(read)? {
                let entry = entry.map_err(read)?;
                let path = dir.join(entry.file_name());
                let hidden = entry.file_name().to_string_lossy().starts_with('.');
                if entry.file_type().map_err(read)?.is_dir() {
                    if !hidden && entry.file_name() != "target" {
                        dirs.push(path);
                    }
                } else if path.extension().is_some_and(|extension| extension == "rs") {
                    files.push(path);
                }
            }
        }
        files.sort();
        Ok(files)
    }
}

/// The line, from 1, on which the manifest names the dependency.
fn line_of(manifest: &str, kind: Kind, called: &str) -> usize {
    let wanted = match kind {
        Kind::Normal => "dependencies",
        Kind::Build => "build-dependencies",
        Kind::Dev => "dev-dependencies",
    };
    let mut table = "";
    for (line, text) in (1..).zip(manifest.lines()) {
        let text = text.trim();
        if let Some(header) = text.strip_prefix('[') {
            table = header.trim_end_matches(']');
            let own_table = table
                .strip_suffix(called)
                .and_then(|rest| rest.strip_suffix('.'));
            if own_table.is_some_and(|rest| is_table(rest, wanted)) {
                return line;
            }
        } else if is_table(table, wanted)
            && text
                .strip_prefix(called)
                .is_some_and(|rest| rest.trim_start().starts_with(['.', '=']))
        {
            return line;
        }
    }
    0
}

/// `dependencies`, or the same for one target.
fn is_table(table: &str, wanted: &str) -> bool {
    table == wanted || (table.starts_with("target.") && table.ends_with(&format!(".{wanted}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dependency_is_found_where_it_is_named() {
        let manifest = "\
[package]
name = \"a\"

[dependencies]
log.workspace = true
log-raft-engine.workspace = true
libc = \"0.2\"

[dependencies.mio]
version = \"1\"

[dev-dependencies]
rand = { version = \"0.9\" }
libc = \"0.2\"

[target.'cfg(unix)'.dependencies]
rustix = \"1\"
";
        assert_eq!(line_of(manifest, Kind::Normal, "log"), 5);
        assert_eq!(line_of(manifest, Kind::Normal, "log-raft-engine"), 6);
        assert_eq!(line_of(manifest, Kind::Normal, "libc"), 7);
        assert_eq!(line_of(manifest, Kind::Normal, "mio"), 9);
        assert_eq!(line_of(manifest, Kind::Dev, "rand"), 13);
        assert_eq!(line_of(manifest, Kind::Dev, "libc"), 14);
        assert_eq!(line_of(manifest, Kind::Normal, "rustix"), 17);
        assert_eq!(line_of(manifest, Kind::Normal, "rand"), 0);
    }
}
