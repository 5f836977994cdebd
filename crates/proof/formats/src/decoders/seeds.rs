//! Valid bytes for each decoder, to begin with.

use super::{Decoder, disk, network, text};
use std::path::Path;

/// Those of a decoder: the golden ones, and what is made of values in its module.
///
/// # Panics
/// When a golden file is not where it was.
pub fn samples(decoder: &Decoder) -> Vec<Vec<u8>> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all: Vec<Vec<u8>> = decoder
        .texts
        .iter()
        .map(|text| text.as_bytes().to_vec())
        .collect();
    for (file, begin) in decoder.golden {
        let path = crates.join(file);
        if path.extension().is_some_and(|end| end == "json") {
            let bytes = std::fs::read(&path);
            all.push(bytes.unwrap_or_else(|error| panic!("{}: {error}", path.display())));
            continue;
        }
        let pinned = crate::read(&path);
        all.extend(
            pinned
                .into_iter()
                .filter(|(name, _)| name.starts_with(begin))
                .map(|(_, bytes)| bytes),
        );
    }
    all.extend(match decoder.name {
        "request_stream" => network::requests_with_tails(),
        "answer_stream" => network::answers_with_tails(),
        "dump" => disk::dumps(),
        "cluster_map" => network::cluster_maps(),
        "dir_map" => network::dir_maps(),
        "acl" => text::acls(),
        _ => Vec::new(),
    });
    all
}
