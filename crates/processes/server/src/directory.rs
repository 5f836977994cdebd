//! A server's directory.
//!
//! | name | holds |
//! | --- | --- |
//! | `server.json` | format version, file system and server number; written last when it is made |
//! | `map.json` | the cluster map that the server goes by, which its log is to be replayed by |
//! | `lock` | nothing; locked by the process that serves the directory |
//! | `store/` | the lane's store |
//! | `log/` | the lane's log |
//! | `data/00` to `data/ff` | data objects, see [`crate::data`] |

use crate::data::Holdings;
use crate::error::StartError;
use pandofs_placement::ClusterMap;
use pandofs_types::{FsId, ServerId};
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Version of what the directory holds, but for the store and the log, which have their own.
const FORMAT: u32 = 1;
const MARKER: &str = "server.json";
const MAP: &str = "map.json";

/// The contents of `server.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Marker {
    format: u32,
    /// 32 hexadecimal digits.
    fs: String,
    server: ServerId,
}

/// The one field that every format has.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

/// A server's directory, kept from other processes as long as this lives.
#[derive(Debug)]
pub(crate) struct ServerDirectory {
    path: PathBuf,
    _lock: File,
}

impl ServerDirectory {
    /// Takes an empty directory, made if it is missing, for a new server. [`ServerDirectory::mark`]
    /// ends the making.
    ///
    /// # Errors
    /// [`StartError::NotEmpty`], [`StartError::InUse`] and [`StartError::Io`].
    pub(crate) fn create(path: &Path) -> Result<ServerDirectory, StartError> {
        let failed = |source| StartError::io(path, source);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed)?;
        if fs::read_dir(path).map_err(failed)?.next().is_some() {
            return Err(StartError::NotEmpty {
                path: path.to_owned(),
            });
        }
        let directory = ServerDirectory {
            path: path.to_owned(),
            _lock: lock(path)?,
        };
        let objects = directory.data();
        DirBuilder::new()
            .mode(0o700)
            .create(&objects)
            .and_then(|()| Holdings::prepare(&objects).map(drop))
            .map_err(|source| StartError::io(&objects, source))?;
        Ok(directory)
    }

    /// Declares that the directory holds a complete server.
    ///
    /// # Errors
    /// [`StartError::Io`].
    pub(crate) fn mark(&self, fs: FsId, server: ServerId) -> Result<(), StartError> {
        let marker = Marker {
            format: FORMAT,
            fs: fs.to_string(),
            server,
        };
        let path = self.path.join(MARKER);
        let write = || {
            let mut text = serde_json::to_string_pretty(&marker).map_err(io::Error::other)?;
            text.push('\n');
            replace(&path, &text)
        };
        write().map_err(|source| StartError::io(&path, source))
    }

    /// Where the map is kept that the server goes by.
    pub(crate) fn map(&self) -> PathBuf {
        self.path.join(MAP)
    }

    /// That map; `None` in the directory of a release that did not keep it.
    ///
    /// # Errors
    /// [`StartError::BadMarker`] and [`StartError::Io`].
    pub(crate) fn kept_map(&self) -> Result<Option<ClusterMap>, StartError> {
        let path = self.map();
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(StartError::io(path, source)),
        };
        let map = ClusterMap::from_json(&text);
        map.map(Some).map_err(|error| StartError::BadMarker {
            path,
            why: error.to_string(),
        })
    }

    /// Takes the directory of a server that was made before.
    ///
    /// # Errors
    /// [`StartError::NotAServer`], [`StartError::BadMarker`], [`StartError::WrongFormat`],
    /// [`StartError::WrongFileSystem`], [`StartError::WrongServer`], [`StartError::Incomplete`],
    /// [`StartError::InUse`] and [`StartError::Io`].
    pub(crate) fn open(
        path: &Path,
        fs: FsId,
        server: ServerId,
    ) -> Result<ServerDirectory, StartError> {
        let marker = path.join(MARKER);
        let text = match fs::read_to_string(&marker) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(StartError::NotAServer {
                    path: path.to_owned(),
                });
            }
            Err(source) => return Err(StartError::io(marker, source)),
        };
        check(&marker, &text, fs, server)?;
        let directory = ServerDirectory {
            path: path.to_owned(),
            _lock: lock(path)?,
        };
        // Where they have nothing, store and log begin anew. But a marked directory had them, and a
        // server with an empty log would go on as if what it has forgotten had never been.
        for part in [directory.store(), directory.log(), directory.data()] {
            if is_missing_or_empty(&part)? {
                return Err(StartError::Incomplete { path: part });
            }
        }
        Ok(directory)
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path.join("data")
    }
}

fn check(path: &Path, text: &str, fs: FsId, server: ServerId) -> Result<(), StartError> {
    let path = path.to_owned();
    let bad = |why: String| StartError::BadMarker {
        path: path.clone(),
        why,
    };
    // First the format alone: of another one nothing else can be said.
    let AnyFormat { format } =
        serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
    if format != FORMAT {
        return Err(StartError::WrongFormat {
            path,
            found: format,
            expected: FORMAT,
        });
    }
    let marker: Marker = serde_json::from_str(text).map_err(|error| bad(error.to_string()))?;
    let found = u128::from_str_radix(&marker.fs, 16)
        .map(FsId)
        .map_err(|_| bad(format!("'{}' is no file system's number", marker.fs)))?;
    if found != fs {
        return Err(StartError::WrongFileSystem {
            path,
            found,
            expected: fs,
        });
    }
    if marker.server != server {
        return Err(StartError::WrongServer {
            path,
            found: marker.server,
            expected: server,
        });
    }
    Ok(())
}

/// Keeps the map that a server is about to go by.
///
/// # Errors
/// The system's.
pub(crate) fn keep_map(path: &Path, map: &ClusterMap) -> io::Result<()> {
    replace(path, &map.to_json())
}

/// Writes a file so that a crash leaves the old or the new one, whole.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    let unfinished = path.with_extension("new");
    let mut file = File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, path)?;
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}

fn is_missing_or_empty(path: &Path) -> Result<bool, StartError> {
    match fs::read_dir(path) {
        Ok(mut entries) => Ok(entries.next().is_none()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(true),
        Err(source) => Err(StartError::io(path, source)),
    }
}

fn lock(directory: &Path) -> Result<File, StartError> {
    let path = directory.join("lock");
    let file = File::create(&path).map_err(|source| StartError::io(&path, source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(StartError::InUse {
            path: directory.to_owned(),
        }),
        Err(TryLockError::Error(source)) => Err(StartError::io(path, source)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const FS: FsId = FsId(0xabc);
    const ID: ServerId = ServerId(3);

    fn made() -> TempDir {
        let dir = TempDir::new().unwrap();
        let made = ServerDirectory::create(dir.path()).unwrap();
        for part in [made.store(), made.log()] {
            fs::create_dir(&part).unwrap();
            fs::write(part.join("FORMAT"), "").unwrap();
        }
        made.mark(FS, ID).unwrap();
        dir
    }

    #[test]
    fn the_marker_is_pinned() {
        let dir = made();
        assert_eq!(
            fs::read_to_string(dir.path().join(MARKER)).unwrap(),
            "{\n  \"format\": 1,\n  \"fs\": \"00000000000000000000000000000abc\",\n  \"server\": 3\n}\n"
        );
        assert!(dir.path().join("data/00").is_dir() && dir.path().join("data/ff").is_dir());
        assert!(!dir.path().join("server.new").exists());
    }

    #[test]
    fn a_directory_with_anything_in_it_is_not_taken() {
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("holiday.jpg"), "").unwrap();
        let error = ServerDirectory::create(dir.path()).unwrap_err();
        assert!(matches!(error, StartError::NotEmpty { .. }), "{error}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let error = ServerDirectory::create(made().path()).unwrap_err();
        assert!(matches!(error, StartError::NotEmpty { .. }), "{error}");
    }

    #[test]
    fn only_one_process_has_it() {
        let dir = made();
        let first = ServerDirectory::open(dir.path(), FS, ID).unwrap();
        let error = ServerDirectory::open(dir.path(), FS, ID).unwrap_err();
        assert!(matches!(error, StartError::InUse { .. }), "{error}");
        drop(first);
        ServerDirectory::open(dir.path(), FS, ID).unwrap();
    }

    #[test]
    fn one_that_has_lost_a_part_is_refused() {
        for part in ["store", "log", "data"] {
            let dir = made();
            let path = dir.path().join(part);
            fs::remove_dir_all(&path).unwrap();
            let refused = || {
                let error = ServerDirectory::open(dir.path(), FS, ID).unwrap_err();
                assert!(error.to_string().contains(path.to_str().unwrap()));
                matches!(error, StartError::Incomplete { .. })
            };
            assert!(refused());
            assert!(!path.exists());
            fs::create_dir(&path).unwrap();
            assert!(refused());
        }
    }

    #[test]
    fn another_servers_directory_is_refused_with_the_reason() {
        let dir = made();
        let open = |fs, id| ServerDirectory::open(dir.path(), fs, id).unwrap_err();
        let error = open(FsId(1), ID);
        assert!(
            matches!(
                error,
                StartError::WrongFileSystem {
                    found: FS,
                    expected: FsId(1),
                    ..
                }
            ),
            "{error}"
        );
        let error = open(FS, ServerId(4));
        assert!(
            matches!(
                error,
                StartError::WrongServer {
                    found: ID,
                    expected: ServerId(4),
                    ..
                }
            ),
            "{error}"
        );
        let marker = dir.path().join(MARKER);
        fs::write(&marker, r#"{"format": 2, "of": "the future"}"#).unwrap();
        let error = open(FS, ID);
        assert!(
            matches!(
                error,
                StartError::WrongFormat {
                    found: 2,
                    expected: 1,
                    ..
                }
            ),
            "{error}"
        );
        for text in [
            "",
            "{}",
            r#"{"format": 1}"#,
            r#"{"format":1,"fs":"x","server":3}"#,
        ] {
            fs::write(&marker, text).unwrap();
            let error = open(FS, ID);
            assert!(matches!(error, StartError::BadMarker { .. }), "{error}");
        }
        fs::remove_file(&marker).unwrap();
        let error = open(FS, ID);
        assert!(matches!(error, StartError::NotAServer { .. }), "{error}");
    }
}
