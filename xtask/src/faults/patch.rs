//! Patches of planted faults: what their headers say, and whether it is so.

use crate::finding::Finding;
use crate::workspace::{PREFIX, Problem, Workspace};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folder of the patches, from the root of the workspace.
const FOLDER: &str = "tests/faults";
/// The patch that the others need.
const SWITCH: &str = "switch";
/// Name of the rules about patches.
const RULE: &str = "planted-fault";
/// Folders whose sources name the oracles of the simulator, each as a string.
const ORACLES: [&str; 2] = ["crates/proof/sim/src", "crates/proof/check/src"];

/// A rule that a patch skips.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Of the patch's file, without its end; the patch asks for it by this name.
    pub name: String,
    pub file: PathBuf,
    /// Crate of the first file that it changes, without `pandofs-`.
    pub package: String,
    pub found_by: Finder,
}

/// Finder of a fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finder {
    /// A test of a crate; `target` is `lib` for those beside the code.
    Test {
        package: String,
        target: String,
        test: String,
    },
    /// An oracle of the simulator.
    Sim { oracle: String },
    /// No test was seen to find it: one is to be written.
    NothingYet,
}

/// All patches, in the order in which they are applied.
pub(crate) fn files(root: &Path) -> Result<Vec<PathBuf>, Problem> {
    let folder = root.join(FOLDER);
    let read = |error| Problem::Read(folder.clone(), error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(read)? {
        let path = PathBuf::from(FOLDER).join(entry.map_err(read)?.file_name());
        if path.extension().is_some_and(|end| end == "patch") {
            files.push(path);
        }
    }
    files.sort_by_key(|path| (path.file_stem() != Some(SWITCH.as_ref()), path.clone()));
    Ok(files)
}

/// All faults, in the order of their names.
pub(crate) fn all(root: &Path) -> Result<Vec<Fault>, Problem> {
    let mut faults = Vec::new();
    for file in files(root)? {
        let text = std::fs::read_to_string(root.join(&file))
            .map_err(|error| Problem::Read(file.clone(), error))?;
        if file.file_stem() != Some(SWITCH.as_ref()) {
            let fault = parse(&file, &text);
            faults
                .push(fault.map_err(|why| Problem::Faults(format!("{}: {why}", file.display())))?);
        }
    }
    Ok(faults)
}

/// Reads a patch.
fn parse(file: &Path, text: &str) -> Result<Fault, String> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let field = |key: &str| {
        let header = text.lines().take_while(|line| !line.starts_with("--- "));
        let mut values = header.filter_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        let value = values
            .next()
            .map(str::trim)
            .filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("the header has no `{key}:`"))
    };
    for key in ["Skips", "Bad", "Soon"] {
        field(key)?;
    }
    let words: Vec<&str> = field("Found-by")?.split_whitespace().collect();
    let found_by = match words[..] {
        ["test", package, target, test] => Finder::Test {
            package: package.to_owned(),
            target: target.to_owned(),
            test: test.to_owned(),
        },
        ["sim", oracle] => Finder::Sim {
            oracle: oracle.to_owned(),
        },
        ["nothing", "yet"] => Finder::NothingYet,
        _ => {
            let why = "`Found-by` is `test CRATE TARGET TEST`, `sim ORACLE` or `nothing yet`";
            return Err(why.to_owned());
        }
    };
    if !text.contains(&format!("planted(\"{name}\")")) {
        return Err(format!("it does not ask whether `{name}` is planted"));
    }
    let changed = text
        .lines()
        .find_map(|line| line.strip_prefix("+++ b/crates/"));
    let package = changed.and_then(|path| path.split('/').nth(1));
    Ok(Fault {
        name: name.into_owned(),
        file: file.to_owned(),
        package: package.ok_or("it changes no crate")?.to_owned(),
        found_by,
    })
}

/// Applies all patches to the sources in a folder, or only looks whether they can be.
pub(crate) fn apply(
    root: &Path,
    patches: &[PathBuf],
    dir: &Path,
    only_look: bool,
) -> Result<(), Problem> {
    // As one: of several files each would be looked at as if none came before it.
    let mut text = Vec::new();
    for patch in patches {
        let read = |error| Problem::Read(patch.clone(), error);
        text.extend(std::fs::read(root.join(patch)).map_err(read)?);
        text.push(b'\n');
    }
    let mut git = Command::new("git");
    git.arg("apply").args(only_look.then_some("--check"));
    // In a folder of a repository it would leave out what is not below it, and say nothing.
    git.current_dir(dir)
        .env("GIT_DIR", dir.join("no-repository"));
    let cannot = |error| Problem::Faults(format!("git cannot be run: {error}"));
    let mut child = git
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(cannot)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(&text).map_err(cannot)?;
    }
    let output = child.wait_with_output().map_err(cannot)?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(Problem::Faults(text))
}

/// Findings in the patches: a header that says too little, a finder that there is not, sources that they do not fit.
pub(crate) fn check(workspace: &Workspace) -> Result<Vec<Finding>, Problem> {
    let root = &workspace.root;
    if !root.join(FOLDER).is_dir() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    let patches = files(root)?;
    for file in &patches {
        let text = workspace.text(file)?.unwrap_or_default();
        if file.file_stem() == Some(SWITCH.as_ref()) {
            continue;
        }
        match parse(file, &text) {
            Err(why) => found.push(Finding::new(file, 1, RULE, why)),
            Ok(fault) => {
                if !is_there(workspace, &fault.found_by)? {
                    let why = format!("there is no {:?}", fault.found_by);
                    found.push(Finding::new(file, 1, RULE, why));
                }
            }
        }
    }
    if let Err(Problem::Faults(why)) = apply(root, &patches, root, true) {
        let why = format!("the patches do not apply, one after the other: {why}");
        found.push(Finding::new(Path::new(FOLDER), 0, RULE, why));
    }
    Ok(found)
}

/// Whether there is such a test, or such an oracle.
fn is_there(workspace: &Workspace, finder: &Finder) -> Result<bool, Problem> {
    let (dirs, wanted): (Vec<PathBuf>, String) = match finder {
        Finder::Test { package, test, .. } => {
            let name = package.strip_prefix(PREFIX).unwrap_or(package);
            let of = workspace.packages.iter().find(|of| of.name == name);
            let function = test.rsplit("::").next().unwrap_or(test);
            let dirs = of.map(|of| of.dir.clone()).into_iter().collect();
            (dirs, format!("fn {function}("))
        }
        Finder::NothingYet => return Ok(true),
        Finder::Sim { oracle } => (ORACLES.map(PathBuf::from).into(), format!("\"{oracle}\"")),
    };
    for dir in dirs {
        let package = crate::workspace::Package {
            dir,
            ..Default::default()
        };
        for file in package.rust_files(&workspace.root)? {
            if workspace
                .text(&file)?
                .is_some_and(|text| text.contains(&wanted))
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    const SOURCE: &str = "fn rule() -> bool {\n    let a = 1;\n    a == 1\n}\n";

    fn patch(name: &str, found_by: &str, line: &str) -> String {
        format!(
            "Skips: that a rule holds\nBad: it does not.\nFound-by: {found_by}\nSoon: 1 s\n\n\
             --- a/crates/core/types/src/rule.rs\n+++ b/crates/core/types/src/rule.rs\n\
             @@ -2,3 +2,3 @@\n     let a = 1;\n-    {line}\n+    {line} || planted(\"{name}\")\n }}\n"
        )
    }

    #[test]
    fn a_patch_says_what_it_skips_and_what_finds_it() {
        let file = Path::new("tests/faults/core-rule.patch");
        let text = patch(
            "core-rule",
            "test pandofs-types lib rule::it_holds",
            "a == 1",
        );
        let fault = parse(file, &text).expect("well formed");
        assert_eq!(
            (fault.name.as_str(), fault.package.as_str()),
            ("core-rule", "types")
        );
        assert!(matches!(&fault.found_by, Finder::Test { test, .. } if test == "rule::it_holds"));
        let by_oracle = parse(
            file,
            &text.replace("test pandofs-types lib rule::it_holds", "sim owners"),
        );
        let oracle = "owners".to_owned();
        assert_eq!(
            by_oracle.map(|fault| fault.found_by),
            Ok(Finder::Sim { oracle })
        );
        for missing in ["Skips", "Bad", "Found-by", "Soon"] {
            assert!(
                parse(file, &text.replace(missing, "Else")).is_err(),
                "{missing}"
            );
        }
        assert!(parse(file, &text.replace("sim", "by luck").replace("test ", "")).is_err());
        assert!(parse(Path::new("tests/faults/other.patch"), &text).is_err());
    }

    #[test]
    fn what_does_not_fit_and_who_is_not_there_are_found() {
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
        write(
            "crates/core/types/Cargo.toml",
            "[package]\nname = \"pandofs-types\"\nedition = \"2024\"\n",
        );
        write("crates/core/types/src/lib.rs", "//! Words.\n");
        write("crates/core/types/src/rule.rs", SOURCE);
        write("crates/core/types/src/tests.rs", "fn it_holds() {}\n");
        write("crates/proof/sim/src/a.rs", "const A: &str = \"owners\";\n");
        fs::create_dir_all(dir.path().join("crates/proof/check/src")).unwrap();
        write(
            "crates/proof/sim/Cargo.toml",
            "[package]\nname = \"pandofs-sim\"\nedition = \"2024\"\n[lib]\npath = \"src/a.rs\"\n",
        );
        write(
            "crates/proof/check/Cargo.toml",
            "[package]\nname = \"pandofs-check\"\nedition = \"2024\"\n[lib]\npath = \"../sim/src/a.rs\"\n",
        );
        let rule = "tests/faults/core-rule.patch";
        let of = |finder: &str, line: &str| {
            write(rule, &patch("core-rule", finder, line));
            let workspace = Workspace::load(dir.path()).unwrap();
            check(&workspace).unwrap().len()
        };
        let test = "test pandofs-types lib rule::it_holds";
        assert_eq!(of(test, "a == 1"), 0);
        assert_eq!(of("sim owners", "a == 1"), 0);
        assert_eq!(of("sim nobody", "a == 1"), 1);
        assert_eq!(of("test pandofs-types lib rule::it_fails", "a == 1"), 1);
        assert_eq!(of(test, "a == 2"), 1);
        // Of two that change one line the second does not fit any more.
        write(
            "tests/faults/other.patch",
            &patch("other", "sim owners", "a == 1"),
        );
        assert_eq!(of(test, "a == 1"), 1);
    }
}
