//! Header of the library: the committed one is what cbindgen makes of the sources now.
//!
//! `PANDOFS_BLESS=1 cargo test -p pandofs-capi --test header` writes it anew.
#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::fs;
use std::path::Path;

/// In the order of the header.
const SOURCES: [&str; 9] = [
    "abi",
    "session",
    "attributes",
    "names",
    "files",
    "dirs",
    "xattrs",
    "locks",
    "many",
];

fn made() -> String {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).unwrap();
    let mut builder = cbindgen::Builder::new().with_config(config);
    for source in SOURCES {
        builder = builder.with_src(crate_dir.join(format!("src/{source}.rs")));
    }
    let mut header = Vec::new();
    builder.generate().unwrap().write(&mut header);
    String::from_utf8(header).unwrap()
}

#[test]
fn the_header_is_what_the_sources_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("include/pandofs.h");
    let made = made();
    if std::env::var_os("PANDOFS_BLESS").is_some() {
        fs::write(&path, &made).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        made == committed,
        "include/pandofs.h is not what cbindgen makes of src: run this with PANDOFS_BLESS=1, and look at what changed"
    );
}

/// Every function for C that is anywhere in the sources: a module that `SOURCES` lacks would be missing in the header
/// alone.
#[test]
fn every_function_is_in_the_header() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let header = made();
    let mut functions = 0;
    for entry in fs::read_dir(src).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for part in text.split("extern \"C\" fn ").skip(1) {
            let name = part.split('(').next().unwrap();
            assert!(
                header.contains(&format!(" {name}(")) || header.contains(&format!("*{name}(")),
                "{name}"
            );
            functions += 1;
        }
    }
    assert!(functions > 50, "{functions} functions were found");
}
