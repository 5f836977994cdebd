//! Store of a server, of the kind that the cluster map says.

use crate::descriptors::Descriptors;
use crate::error::StartError;
use crate::memory::Memory;
use pandofs_storage::store::{Store, StoreError};
use pandofs_store_directories::DirectoriesStore;
use pandofs_store_rocksdb::RocksStore;
use pandofs_types::StoreKind;
use std::path::Path;
use std::sync::Arc;

/// How the formats of stores begin that were made by any release.
const FORMATS: [(&str, StoreKind); 2] = [
    ("pandofs-store ", StoreKind::RocksDb),
    ("pandofs-store-directories ", StoreKind::Directories),
];

/// How much a store may take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    rocksdb: pandofs_store_rocksdb::Options,
    directories: pandofs_store_directories::Options,
}

impl Options {
    /// Of what a server has.
    pub(crate) fn of(memory: Memory, descriptors: Descriptors) -> Options {
        Options {
            rocksdb: pandofs_store_rocksdb::Options {
                block_cache_bytes: memory.block_cache,
                write_buffer_bytes: memory.write_buffer,
                open_tables: descriptors.tables,
            },
            directories: pandofs_store_directories::Options {
                cache_bytes: memory.block_cache,
                write_buffer_bytes: memory.write_buffer,
            },
        }
    }
}

/// Opens the store in the directory `path`, or makes one there if there is none.
///
/// # Errors
/// [`StartError::WrongStore`] if one of another kind is there; [`StartError::Store`].
pub(crate) fn open(
    kind: StoreKind,
    path: &Path,
    options: Options,
) -> Result<Arc<dyn Store>, StartError> {
    let opened = match kind {
        StoreKind::RocksDb => {
            RocksStore::open(path, options.rocksdb).map(|store| Arc::new(store) as Arc<dyn Store>)
        }
        StoreKind::Directories => DirectoriesStore::open(path, options.directories)
            .map(|store| Arc::new(store) as Arc<dyn Store>),
    };
    opened.map_err(|error| match &error {
        StoreError::WrongFormat { path, found, .. } => match kind_of(found) {
            Some(there) if there != kind => StartError::WrongStore {
                path: path.clone(),
                found: there,
                expected: kind,
            },
            _ => error.into(),
        },
        _ => error.into(),
    })
}

/// The kind of a store with this format.
fn kind_of(format: &str) -> Option<StoreKind> {
    FORMATS
        .into_iter()
        .find(|(begin, _)| format.starts_with(begin))
        .map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_of_another_kind_is_refused() {
        for (made, asked) in [
            (StoreKind::RocksDb, StoreKind::Directories),
            (StoreKind::Directories, StoreKind::RocksDb),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("store");
            drop(open(made, &path, Options::default()).unwrap());
            let Err(error) = open(asked, &path, Options::default()) else {
                panic!("it opened");
            };
            assert!(
                matches!(&error, StartError::WrongStore { found, expected, .. }
                    if (*found, *expected) == (made, asked)),
                "{error}"
            );
            assert!(error.is_of_configuration());
            let found = std::fs::read_to_string(path.join("FORMAT")).unwrap();
            assert_eq!(kind_of(&found), Some(made));
            drop(open(made, &path, Options::default()).unwrap());
        }
        assert_eq!(kind_of("no FORMAT file"), None);
    }
}
