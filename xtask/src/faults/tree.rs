//! Copy of the sources in which all faults are planted.

use super::patch;
use crate::workspace::{Problem, Workspace};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the copy, or makes the one of the last time as it is to be now. Files that are as they were are left alone, so that
/// nothing is compiled again because of them.
pub(crate) fn make(workspace: &Workspace) -> Result<PathBuf, Problem> {
    let place = workspace.target.join("faults");
    let (fresh, tree) = (place.join("fresh"), place.join("tree"));
    if fresh.exists() {
        fs::remove_dir_all(&fresh).map_err(|error| Problem::Read(fresh.clone(), error))?;
    }
    let files = sources(&workspace.root)?;
    for file in &files {
        copy(&workspace.root.join(file), &fresh.join(file))?;
    }
    patch::apply(
        &workspace.root,
        &patch::files(&workspace.root)?,
        &fresh,
        false,
    )?;
    for file in &files {
        copy(&fresh.join(file), &tree.join(file))?;
    }
    remove_others(&tree, &tree, &files.into_iter().collect())?;
    Ok(tree)
}

/// Files of the repository, those that are new among them.
fn sources(root: &Path) -> Result<Vec<PathBuf>, Problem> {
    let output = Command::new("git")
        .args([
            "ls-files",
            "--cached",
            "--others",
            "--exclude-standard",
            "-z",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| Problem::Faults(format!("git cannot be run: {error}")))?;
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        return Err(Problem::Faults(format!("git ls-files: {}", text.trim())));
    }
    let names = String::from_utf8_lossy(&output.stdout);
    let names = names.split('\0').filter(|name| !name.is_empty());
    let files: BTreeSet<PathBuf> = names.map(PathBuf::from).collect();
    // One that was removed and not committed is still named.
    Ok(files
        .into_iter()
        .filter(|file| root.join(file).is_file())
        .collect())
}

/// Copies a file, unless it is there with the same contents.
fn copy(from: &Path, to: &Path) -> Result<(), Problem> {
    let read = |path: &Path| fs::read(path).map_err(|error| Problem::Read(path.to_owned(), error));
    let new = read(from)?;
    if to.is_file() && read(to)? == new {
        return Ok(());
    }
    let write = |error| Problem::Read(to.to_owned(), error);
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder).map_err(write)?;
    }
    fs::copy(from, to).map_err(write)?;
    Ok(())
}

fn remove_others(tree: &Path, dir: &Path, files: &BTreeSet<PathBuf>) -> Result<(), Problem> {
    let problem = |error| Problem::Read(dir.to_owned(), error);
    for entry in fs::read_dir(dir).map_err(problem)? {
        let path = entry.map_err(problem)?.path();
        if path.is_dir() {
            remove_others(tree, &path, files)?;
        } else if path
            .strip_prefix(tree)
            .is_ok_and(|file| !files.contains(file))
        {
            fs::remove_file(&path).map_err(problem)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_follows_its_sources_and_leaves_what_is_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to/deep/file"));
        fs::write(&from, "one").unwrap();
        copy(&from, &to).unwrap();
        let before = fs::metadata(&to).unwrap().modified().unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::metadata(&to).unwrap().modified().unwrap(), before);
        fs::write(&from, "two").unwrap();
        copy(&from, &to).unwrap();
        assert_eq!(fs::read_to_string(&to).unwrap(), "two");

        let tree = dir.path().join("to");
        fs::write(tree.join("gone"), "").unwrap();
        let files = BTreeSet::from([PathBuf::from("deep/file")]);
        remove_others(&tree, &tree, &files).unwrap();
        assert!(to.is_file() && !tree.join("gone").exists());
    }
}
