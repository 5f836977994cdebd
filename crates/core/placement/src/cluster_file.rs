//! The cluster map as a file: JSON, so that a person can read it.
//!
//! Format 1 is one object with the fields of [`ClusterMap`] in their order, all required and no
//! others: `fs` and `hash_key` are strings of 32 hexadecimal digits (the key's two words one after
//! the other), `shards` is the list of the leading server's number for each shard, `policy` is
//! `{"ddg": {"dir_depth": D, "dir_width": W}}`, `"random"`, `"subtree"` or `{"adaptive":
//! {"least_depth": D, "most_depth": D, "least_width": W, "most_width": W}}`. A field that is added, removed or
//! changes its meaning makes another format. In `settings`, `commit_protocol` is `"s2pc-mp"`, which may be left
//! out, or to compare with it `"2pc"` or `"3pc"`; `store` is `"rocksdb"`, which may be left out, or `"directories"`.
//! `tests/golden/cluster-map-1.json` is one.

use crate::cluster::{ClusterMap, Derived, MapError, ServerInfo, Settings};
use crate::policy::DirPolicy;
use pandofs_types::{Epoch, FsId, HashKey, ServerId};
use serde::{Deserialize, Serialize};

/// The only format there is.
pub(crate) const CURRENT_FORMAT: u32 = 1;

/// A [`ClusterMap`] as it is written, unchecked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClusterFile {
    format: u32,
    fs: String,
    name: String,
    epoch: Epoch,
    hash_key: String,
    servers: Vec<ServerInfo>,
    shards: Vec<ServerId>,
    policy: DirPolicy,
    settings: Settings,
}

/// The one field that every format has.
#[derive(Deserialize)]
struct AnyFormat {
    format: u32,
}

impl ClusterMap {
    /// The map as the contents of its file, indented, with a line end.
    pub fn to_json(&self) -> String {
        // Maps of strings and numbers cannot fail to be written to memory.
        let mut text = serde_json::to_string_pretty(self)
            .unwrap_or_else(|error| panic!("a cluster map that is no JSON: {error}"));
        text.push('\n');
        text
    }

    /// Reads what [`ClusterMap::to_json`] wrote, or a person.
    ///
    /// # Errors
    /// [`MapError::Malformed`] when it is not JSON or a field is missing, unknown or of another
    /// type, with line and column; [`MapError::Format`] when it is of another format; and whatever
    /// [`ClusterMap::validate`] finds.
    pub fn from_json(text: &str) -> Result<ClusterMap, MapError> {
        let malformed = |error: serde_json::Error| MapError::Malformed(error.to_string());
        // First the format alone: of another one nothing else can be said.
        let AnyFormat { format } = serde_json::from_str(text).map_err(malformed)?;
        if format != CURRENT_FORMAT {
            return Err(MapError::Format {
                found: format,
                expected: CURRENT_FORMAT,
            });
        }
        serde_json::from_str::<ClusterFile>(text)
            .map_err(malformed)?
            .try_into()
    }
}

impl From<ClusterMap> for ClusterFile {
    fn from(map: ClusterMap) -> ClusterFile {
        ClusterFile {
            format: map.format,
            fs: map.fs.to_string(),
            name: map.name,
            epoch: map.epoch,
            hash_key: format!("{:016x}{:016x}", map.hash_key.0, map.hash_key.1),
            servers: map.servers,
            shards: map.shards,
            policy: map.policy,
            settings: map.settings,
        }
    }
}

impl TryFrom<ClusterFile> for ClusterMap {
    type Error = MapError;

    fn try_from(file: ClusterFile) -> Result<ClusterMap, MapError> {
        let key = parse_hex("hash_key", &file.hash_key)?;
        let map = ClusterMap {
            format: file.format,
            fs: FsId(parse_hex("fs", &file.fs)?),
            name: file.name,
            epoch: file.epoch,
            hash_key: HashKey((key >> 64) as u64, key as u64),
            servers: file.servers,
            shards: file.shards,
            policy: file.policy,
            settings: file.settings,
            default_partitions: Derived::default(),
        };
        map.validate()?;
        Ok(map)
    }
}

fn parse_hex(field: &'static str, text: &str) -> Result<u128, MapError> {
    let not_hex = || MapError::NotHex {
        field,
        found: text.into(),
    };
    // `from_str_radix` alone would let a sign through.
    if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(not_hex());
    }
    u128::from_str_radix(text, 16).map_err(|_| not_hex())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pandofs_types::{CommitProtocol, StoreKind};

    const GOLDEN: &str = include_str!("../tests/golden/cluster-map-1.json");

    #[test]
    fn the_commit_protocol_may_be_left_out() {
        let mut map = golden_map();
        let text = map
            .to_json()
            .replace(",\n    \"commit_protocol\": \"s2pc-mp\"", "");
        assert!(!text.contains("commit_protocol"));
        assert_eq!(ClusterMap::from_json(&text), Ok(map.clone()));
        map.settings.commit_protocol = CommitProtocol::TwoPhase;
        let text = map.to_json();
        assert!(text.contains("\"commit_protocol\": \"2pc\""));
        assert_eq!(ClusterMap::from_json(&text), Ok(map));
        assert!(ClusterMap::from_json(&text.replace("2pc", "paxos")).is_err());
    }

    #[test]
    fn the_store_may_be_left_out() {
        let mut map = golden_map();
        let text = map.to_json().replace(",\n    \"store\": \"rocksdb\"", "");
        assert!(!text.contains("\"store\""));
        assert_eq!(ClusterMap::from_json(&text), Ok(map.clone()));
        map.settings.store = StoreKind::Directories;
        let text = map.to_json();
        assert!(text.contains("\"store\": \"directories\""));
        assert_eq!(ClusterMap::from_json(&text), Ok(map));
        assert!(ClusterMap::from_json(&text.replace("directories", "tape")).is_err());
    }

    fn golden_map() -> ClusterMap {
        let server = |id: u16, address: &str, weight, domain: &str| ServerInfo {
            id: ServerId(id),
            addresses: vec![address.into(), format!("unix:/run/pandofs/{id}")],
            weight,
            domain: domain.into(),
        };
        ClusterMap {
            format: 1,
            fs: FsId(0x0123_4567_89ab_cdef_0011_2233_4455_6677),
            name: "grove".into(),
            epoch: Epoch(3),
            hash_key: HashKey(0x00c0_ffee, 0xfeed_0000_0000_0001),
            servers: vec![
                server(0, "tcp:192.0.2.1:7000", ServerInfo::WEIGHT_ONE, "rack-a"),
                server(
                    1,
                    "tcp:[2001:db8::2]:7000",
                    ServerInfo::WEIGHT_ONE / 2,
                    "rack-b",
                ),
            ],
            shards: [0, 1, 0, 0].map(ServerId).to_vec(),
            policy: DirPolicy::default(),
            settings: Settings {
                max_partitions: Some(12),
                ..Settings::default()
            },
            default_partitions: Derived::default(),
        }
    }

    #[test]
    fn the_format_is_pinned() {
        assert_eq!(golden_map().to_json(), GOLDEN);
        assert_eq!(ClusterMap::from_json(GOLDEN), Ok(golden_map()));
    }

    #[test]
    fn other_encodings_hold_the_same() {
        let bytes = postcard::to_stdvec(&golden_map()).unwrap();
        assert_eq!(
            postcard::from_bytes::<ClusterMap>(&bytes).unwrap(),
            golden_map()
        );
        let mut broken = golden_map();
        broken.shards.clear();
        let bytes = postcard::to_stdvec(&broken).unwrap();
        assert!(postcard::from_bytes::<ClusterMap>(&bytes).is_err());
    }

    /// Error text for the golden file with one text replaced by another.
    fn refusal(from: &str, to: &str) -> String {
        assert!(GOLDEN.contains(from), "{from}");
        let read = ClusterMap::from_json(&GOLDEN.replacen(from, to, 1));
        read.map_or_else(|error| error.to_string(), |_| "valid".into())
    }

    #[test]
    fn another_format_is_refused_whatever_else_it_holds() {
        let expected = "the cluster map has format 2, this program reads format 1";
        assert_eq!(refusal("\"format\": 1", "\"format\": 2"), expected);
        let future = ClusterMap::from_json(r#"{"format": 2, "realms": []}"#);
        assert_eq!(
            future,
            Err(MapError::Format {
                found: 2,
                expected: 1
            })
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        let replaced = [
            ("\"epoch\": 3,", "", "missing field `epoch`"),
            (
                "\"epoch\": 3,",
                "\"epoch\": 3, \"realm\": 1,",
                "unknown field `realm`",
            ),
            (
                "\"split_threshold\": 8000,",
                "",
                "missing field `split_threshold`",
            ),
            ("\"ddg\"", "\"dgg\"", "unknown variant `dgg`"),
            (
                "\"name\": \"grove\"",
                "\"name\": 5",
                "invalid type: integer `5`, expected a string",
            ),
            (
                "0123456789abcdef0011223344556677",
                "+123456789abcdef0011223344556677",
                "fs is to be 32 hexadecimal digits, not \"+123456789abcdef0011223344556677\"",
            ),
            (
                "0000000000c0ffeefeed000000000001",
                "c0ffee",
                "hash_key is to be 32 hexadecimal digits, not \"c0ffee\"",
            ),
            (
                "\"id\": 1",
                "\"id\": 7",
                "there are 2 servers, numbered from 0, and one is called 7",
            ),
        ];
        for (from, to, expected) in replaced {
            let said = refusal(from, to);
            assert!(said.contains(expected), "{said}");
        }
        for text in ["", "[]", "{}", "\0", "{\"format\": \"1\"}"] {
            let read = ClusterMap::from_json(text);
            assert!(
                matches!(read, Err(MapError::Malformed(_))),
                "{text:?}: {read:?}"
            );
        }
        assert!(matches!(
            ClusterMap::from_json(&GOLDEN[..GOLDEN.len() / 2]),
            Err(MapError::Malformed(_))
        ));
    }
}
