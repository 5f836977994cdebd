//! RocksDB as a static library of four compilation units.
//!
//! `librocksdb-sys` compiles each of RocksDB's 340 files by itself, and each reads the same headers again: over 15
//! minutes of two processors. Here each unit includes a run of those files, so that headers are read once in it. The
//! library is linked by `-lrocksdb`, which `librocksdb-sys` asks for because `.cargo/config.toml` sets
//! `ROCKSDB_LIB_DIR`, and is found in the folder that is printed here. It is kept there for other checkouts that are
//! built in the same place. With another `ROCKSDB_LIB_DIR` that has a library, or with `ROCKSDB_COMPILE=1`, nothing is
//! compiled here.

use std::error::Error;
use std::ffi::OsStr;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Enough that a few processors have work, few enough that headers are read and templates are compiled seldom: a quarter of the
/// sources takes a fifth less of a processor as one unit than as three.
const UNITS: usize = 4;
/// As RocksDB's own makefile has it. By level 3 a unit takes a fifteenth longer.
const OPTIMISATION: u32 = 2;

/// As `librocksdb-sys` defines them on Linux.
const DEFINES: [(&str, Option<&str>); 11] = [
    ("LZ4", Some("1")),
    ("NDEBUG", Some("1")),
    ("HAVE_ALIGNED_NEW", None),
    ("HAVE_UINT128_EXTENSION", None),
    ("OS_LINUX", None),
    ("ROCKSDB_PLATFORM_POSIX", None),
    ("ROCKSDB_LIB_IO_POSIX", None),
    ("ROCKSDB_SCHED_GETCPU_PRESENT", None),
    ("ROCKSDB_AUXV_GETAUXVAL_PRESENT", None),
    ("ROCKSDB_FALLOCATE_PRESENT", None),
    ("ROCKSDB_RANGESYNC_PRESENT", None),
];

/// Instructions of x86-64 that the Rust code may use, as rustc and as C++ compilers name them.
const X86_FEATURES: [(&str, &str); 7] = [
    ("sse2", "-msse2"),
    ("sse4.1", "-msse4.1"),
    ("sse4.2", "-msse4.2"),
    ("avx2", "-mavx2"),
    ("bmi1", "-mbmi"),
    ("lzcnt", "-mlzcnt"),
    ("pclmulqdq", "-mpclmul"),
];

fn main() -> Outcome<()> {
    for name in ["ROCKSDB_COMPILE", "ROCKSDB_LIB_DIR", "CXX"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    if is_from_elsewhere() || is_clippy() {
        return Ok(());
    }
    let target = variable("TARGET")?;
    let arch = variable("CARGO_CFG_TARGET_ARCH")?;
    if variable("CARGO_CFG_TARGET_OS")? != "linux" || !["x86_64", "aarch64"].contains(&&*arch) {
        return Err(format!(
            "RocksDB's options for {target} are known to librocksdb-sys only: set ROCKSDB_COMPILE=1"
        )
        .into());
    }
    let out = PathBuf::from(variable("OUT_DIR")?);
    let sources = PathBuf::from(variable("DEP_ROCKSDB_CARGO_MANIFEST_DIR")?);
    let lz4 = PathBuf::from(variable("DEP_LZ4_ROOT")?);

    let mut build = cc::Build::new();
    build
        .cpp(true)
        .std("c++20")
        .opt_level(OPTIMISATION)
        // Its debug information would make the command ten times as large.
        .debug(false)
        .warnings(false)
        .flag("-w")
        .flag("-include")
        .flag("cstdint")
        .include(sources.join("rocksdb/include"))
        .include(sources.join("rocksdb"))
        .include(&sources)
        .include(lz4.join("include"))
        .files(write_units(&sources, &out)?);
    if env::var_os("CXX").is_none() && clang_works() {
        build.compiler("clang++");
    }
    for (name, value) in DEFINES {
        build.define(name, value);
    }
    for flag in instructions(&arch)? {
        build.flag(flag);
    }
    let shared = shared_folder(&out, &sources, &build)?;
    println!("cargo:rustc-link-search=native={}", shared.display());
    let library = shared.join("librocksdb.a");
    if library.exists() {
        return Ok(());
    }
    let mut objects = build.try_compile_intermediates()?;
    // Linkers that go through libraries once have passed by lz4 when they come to RocksDB, which is what needs it.
    objects.extend(members(&lz4.join("liblz4.a"), &out.join("lz4"))?);
    let made = out.join("librocksdb.a");
    archive(&objects, &made)?;
    fs::create_dir_all(&shared)?;
    // Whole, or not there: another build may look for it.
    fs::rename(made, library)?;
    Ok(())
}

/// Returns the folder of the library that this compiler makes of these sources with these options. It is beside what
/// cargo builds and not in `OUT_DIR`, which another checkout with the same target folder does not share.
fn shared_folder(out: &Path, sources: &Path, build: &cc::Build) -> Outcome<PathBuf> {
    let tool = build.try_get_compiler()?;
    let version = Command::new(tool.path()).arg("--version").output()?.stdout;
    let mut hasher = DefaultHasher::new();
    (UNITS, sources, version, tool.path(), tool.args()).hash(&mut hasher);
    let target = out
        .ancestors()
        .nth(3)
        .ok_or("OUT_DIR is not in a target folder")?;
    Ok(target.join(format!("rocksdb-{:016x}", hasher.finish())))
}

/// Returns whether a library of RocksDB is there already, or `librocksdb-sys` compiles one.
fn is_from_elsewhere() -> bool {
    if env::var("ROCKSDB_COMPILE").is_ok_and(|it| it == "1" || it.eq_ignore_ascii_case("true")) {
        return true;
    }
    let Some(folder) = env::var_os("ROCKSDB_LIB_DIR") else {
        return true;
    };
    ["librocksdb.a", "librocksdb.so"]
        .iter()
        .any(|name| Path::new(&folder).join(name).exists())
}

/// Returns whether clippy runs: it links nothing, and would have a library of its own compiled, as it builds the build scripts
/// of this workspace anew.
fn is_clippy() -> bool {
    env::var_os("RUSTC_WORKSPACE_WRAPPER").is_some_and(|it| {
        let name = Path::new(&it).file_name();
        name.is_some_and(|name| name.to_string_lossy().starts_with("clippy-driver"))
    })
}

fn variable(name: &str) -> Outcome<String> {
    env::var(name).map_err(|error| format!("the environment variable {name}: {error}").into())
}

/// Writes a file for each unit that includes its part of RocksDB's sources, in the order of their list: files of one
/// folder have most headers in common.
fn write_units(sources: &Path, out: &Path) -> Outcome<Vec<PathBuf>> {
    let list = fs::read_to_string(sources.join("rocksdb_lib_sources.txt"))?;
    let mut files: Vec<PathBuf> = list
        .lines()
        .map(str::trim)
        // `librocksdb-sys` has one in which the version is filled in.
        .filter(|file| !file.is_empty() && *file != "util/build_version.cc")
        .map(|file| sources.join("rocksdb").join(file))
        .collect();
    files.push(sources.join("build_version.cc"));
    let mut units = Vec::new();
    for (number, part) in files.chunks(files.len().div_ceil(UNITS)).enumerate() {
        let text: String = part
            .iter()
            .map(|file| format!("#include \"{}\"\n", file.display()))
            .collect();
        let unit = out.join(format!("unit{number:02}.cc"));
        fs::write(&unit, text)?;
        units.push(unit);
    }
    Ok(units)
}

/// Returns whether clang++ is there and finds the headers of a C++ library, which need not come with it.
fn clang_works() -> bool {
    let Ok(out) = variable("OUT_DIR") else {
        return false;
    };
    let probe = Path::new(&out).join("probe.cc");
    fs::write(&probe, "#include <string>\n").is_ok()
        && Command::new("clang++")
            .args(["-std=c++20", "-fsyntax-only"])
            .arg(&probe)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
}

/// Flags for the instructions that rustc may use, so that RocksDB has its checksums by hardware where all the rest has.
fn instructions(arch: &str) -> Outcome<Vec<&'static str>> {
    let features = variable("CARGO_CFG_TARGET_FEATURE")?;
    let has = |name: &str| features.split(',').any(|it| it == name);
    if arch == "x86_64" {
        return Ok(X86_FEATURES
            .iter()
            .filter(|(name, _)| has(name))
            .map(|(_, flag)| *flag)
            .collect());
    }
    // With a processor that was asked for, `cc` has passed it on, and this would contradict it.
    let asked_for = env::var("CARGO_ENCODED_RUSTFLAGS").is_ok_and(|it| it.contains("target-cpu"));
    Ok(if has("crc") && has("aes") && !asked_for {
        vec!["-march=armv8-a+crc+aes+crypto"]
    } else {
        vec![]
    })
}

/// The object files of an archive, taken out of it into a folder.
fn members(archive: &Path, folder: &Path) -> Outcome<Vec<PathBuf>> {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder)?;
    run(ar()?.arg("x").arg(archive).current_dir(folder))?;
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new("o")) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn archive(objects: &[PathBuf], library: &Path) -> Outcome<()> {
    // `ar` adds to one that is there.
    let _ = fs::remove_file(library);
    run(ar()?.arg("crs").arg(library).args(objects))
}

fn ar() -> Outcome<Command> {
    Ok(cc::Build::new().cargo_metadata(false).try_get_archiver()?)
}

fn run(command: &mut Command) -> Outcome<()> {
    let status = command
        .status()
        .map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() {
        Ok(())
    } else {
        Err(format!("{command:?} ended with {status}").into())
    }
}
