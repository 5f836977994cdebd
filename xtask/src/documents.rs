//! Rules about documents: headers of crates, and the map of them.

use crate::finding::Finding;
use crate::source::Source;
use crate::workspace::{PREFIX, Package};
use std::path::Path;

/// The word that a crate's header must hold.
const WORD: &str = "Invariant:";

/// The header of the crate's root file says what always holds in it.
pub(crate) fn header_has_invariant(package: &Package, sources: &[Source]) -> Option<Finding> {
    let src = package.dir.join("src");
    let roots = [src.join("lib.rs"), src.join("main.rs")];
    let root = roots
        .iter()
        .find_map(|path| sources.iter().find(|it| it.path == *path))?;
    let header = root.lines.iter().take_while(|line| line.starts_with("//!"));
    if header.clone().any(|line| line.contains(WORD)) {
        return None;
    }
    let why = format!("the header does not say what always holds in this crate (`{WORD} ...`)");
    Some(Finding::new(&root.path, 1, "header-invariant", why))
}

/// The map of the crates names each of them: as `types`, `crates/core/types` or `pandofs-types`.
pub(crate) fn architecture_names(map: &str, packages: &[Package]) -> Vec<Finding> {
    packages
        .iter()
        .filter(|package| !names(map, &package.name))
        .map(|package| {
            let why = format!("crate `{}` is not on the map", package.name);
            Finding::new(
                Path::new("ARCHITECTURE.md"),
                0,
                "architecture-names-crates",
                why,
            )
        })
        .collect()
}

fn names(map: &str, name: &str) -> bool {
    ["`", "/", PREFIX].iter().any(|before| {
        let wanted = format!("{before}{name}");
        map.match_indices(&wanted).any(|(start, _)| {
            // `walk` is not named by `walk-fs`.
            let next = map[start + wanted.len()..].chars().next();
            !next.is_some_and(|c| c.is_alphanumeric() || c == '-' || c == '_')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn package(name: &str) -> Package {
        let dir = PathBuf::from("crates/walk").join(name);
        Package {
            name: name.to_owned(),
            manifest: dir.join("Cargo.toml"),
            dir,
            dependencies: vec![],
        }
    }

    fn source(path: &str, text: &str) -> Source {
        Source::parse(Path::new(path), text).unwrap_or_else(|finding| panic!("{finding}"))
    }

    #[test]
    fn a_header_without_its_invariant_is_found() {
        let found = |path: &str, text: &str| {
            header_has_invariant(&package("walk"), &[source(path, text)])
                .map(|finding| (finding.file.display().to_string(), finding.line))
        };
        let lib = "crates/walk/walk/src/lib.rs";
        assert_eq!(
            found(lib, "//! Walks.\n//!\n//! Invariant: in order.\n"),
            None
        );
        for text in [
            "//! Walks.\n",
            "",
            "//! Walks.\n\n//! Invariant: too late.\n",
            "// Invariant: no\n",
        ] {
            assert_eq!(found(lib, text), Some((lib.to_owned(), 1)), "{text}");
        }
        let main = "crates/walk/walk/src/main.rs";
        assert_eq!(found(main, "fn main() {}\n"), Some((main.to_owned(), 1)));
        assert_eq!(found("crates/walk/walk/src/other.rs", ""), None);
    }

    /// A program beside the library is not the crate's root.
    #[test]
    fn the_library_comes_first() {
        let sources = [
            source("crates/walk/walk/src/main.rs", "fn main() {}\n"),
            source("crates/walk/walk/src/lib.rs", "//! Invariant: in order.\n"),
        ];
        assert_eq!(header_has_invariant(&package("walk"), &sources), None);
    }

    #[test]
    fn a_crate_that_is_not_on_the_map_is_found() {
        let packages = [package("walk"), package("walk-fs"), package("types")];
        let missing = |map: &str| -> Vec<String> {
            architecture_names(map, &packages)
                .into_iter()
                .map(|finding| finding.why)
                .collect()
        };
        assert_eq!(
            missing("`walk`, [files](crates/walk/walk-fs/src), pandofs-types."),
            [""; 0]
        );
        assert_eq!(
            missing("`walk-fs`, types, crates/types-old"),
            [
                "crate `walk` is not on the map",
                "crate `types` is not on the map"
            ]
        );
    }
}
