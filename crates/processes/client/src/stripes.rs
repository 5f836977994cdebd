//! Ranges of a file, divided into requests to servers.

use pandofs_api::Layout;
use pandofs_types::ServerId;
use pandofs_types::limits::MAX_IO_BYTES;

/// A run of bytes inside one data object, for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub server: ServerId,
    /// Offset in the data object, bytes.
    pub offset: u64,
    /// Bytes, at most [`MAX_IO_BYTES`].
    pub length: usize,
    /// The pieces it consists of, in order: where each begins in the caller's buffer, and its
    /// bytes.
    pub pieces: Vec<(usize, usize)>,
}

/// Cuts `length` bytes of the file from `offset` on into runs: what follows one another in a data
/// object goes into one request, up to the limit. In the order of the file.
pub(crate) fn runs(layout: &Layout, offset: u64, length: usize) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    // The last run of each server.
    let mut open: Vec<usize> = Vec::new();
    for extent in layout.extents(offset, length as u64) {
        let mut start = (extent.file_offset - offset) as usize;
        let mut at = extent.object_offset;
        let mut left = extent.length as usize;
        while left > 0 {
            let place = open
                .iter()
                .position(|&run| runs[run].server == extent.server);
            if let Some(place) = place {
                let run = &mut runs[open[place]];
                let room = MAX_IO_BYTES - run.length;
                if room > 0 && run.offset + run.length as u64 == at {
                    let piece = left.min(room);
                    run.length += piece;
                    run.pieces.push((start, piece));
                    (start, at, left) = (start + piece, at + piece as u64, left - piece);
                    continue;
                }
                open.swap_remove(place);
            }
            open.push(runs.len());
            runs.push(Run {
                server: extent.server,
                offset: at,
                length: 0,
                pieces: Vec::new(),
            });
        }
    }
    for run in &mut runs {
        join_pieces(&mut run.pieces);
    }
    runs
}

/// Makes one piece of those that follow one another in the buffer, too (one data object only).
fn join_pieces(pieces: &mut Vec<(usize, usize)>) {
    pieces.dedup_by(|next, before| {
        let follows = before.0 + before.1 == next.0;
        if follows {
            before.1 += next.1;
        }
        follows
    });
}

/// The bytes of a run in the caller's buffer.
pub(crate) fn gather<'d>(run: &Run, buffer: &'d [u8]) -> Vec<&'d [u8]> {
    let pieces = run.pieces.iter();
    pieces
        .map(|&(start, length)| &buffer[start..start + length])
        .collect()
}

/// Puts what was read of a run into the caller's buffer; what is missing at its end is left as it
/// was.
pub(crate) fn scatter(run: &Run, bytes: &[u8], buffer: &mut [u8]) {
    let mut rest = bytes;
    for &(start, length) in &run.pieces {
        let (piece, after) = rest.split_at(length.min(rest.len()));
        buffer[start..start + piece.len()].copy_from_slice(piece);
        rest = after;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_of_one_server_go_into_one_request() {
        let layout = Layout {
            unit: 4_096,
            count: 2,
            first: ServerId(1),
            servers: 2,
        };
        let run = |server, offset, length, pieces| Run {
            server: ServerId(server),
            offset,
            length,
            pieces,
        };
        assert_eq!(
            runs(&layout, 4_000, 13_000),
            [
                // Units 0, 2 and 4 up to byte 17,000.
                run(
                    1,
                    4_000,
                    4_808,
                    vec![(0, 96), (4_192, 4_096), (12_384, 616)]
                ),
                run(0, 0, 8_192, vec![(96, 4_096), (8_288, 4_096)]),
            ]
        );
    }

    #[test]
    fn one_data_object_is_cut_only_at_the_limit() {
        let layout = Layout {
            unit: 4_096,
            count: 1,
            first: ServerId(0),
            servers: 1,
        };
        let runs = runs(&layout, 5, 2 * MAX_IO_BYTES + 9);
        let lengths: Vec<usize> = runs.iter().map(|run| run.length).collect();
        assert_eq!(lengths, [MAX_IO_BYTES, MAX_IO_BYTES, 9]);
        assert!(runs.iter().all(|run| run.pieces.len() == 1));
    }

    proptest! {
        /// Data objects as plain vectors: what is written through the runs and read back is the
        /// same.
        #[test]
        fn what_is_gathered_is_scattered_again(
            unit in 1u32..40,
            count in 1u16..5,
            first in 0u16..5,
            offset in 0u64..200,
            data in proptest::collection::vec(1u8.., 0..600),
        ) {
            let servers = 5;
            let layout = Layout { unit, count, first: ServerId(first), servers };
            let mut objects = vec![Vec::new(); usize::from(servers)];
            let mut written = 0;
            for run in runs(&layout, offset, data.len()) {
                let bytes = gather(&run, &data).concat();
                prop_assert_eq!(bytes.len(), run.length);
                written += bytes.len();
                let object: &mut Vec<u8> = &mut objects[usize::from(run.server.0)];
                let start = run.offset as usize;
                object.resize(object.len().max(start + bytes.len()), 0);
                object[start..start + bytes.len()].copy_from_slice(&bytes);
            }
            prop_assert_eq!(written, data.len());
            let mut read = vec![0; data.len()];
            for run in runs(&layout, offset, data.len()) {
                let object = &objects[usize::from(run.server.0)];
                let start = run.offset as usize;
                scatter(&run, &object[start..start + run.length], &mut read);
            }
            prop_assert_eq!(&read, &data);
            // Byte by byte, by the definition of the layout.
            for (index, &byte) in data.iter().enumerate() {
                let at = offset + index as u64;
                let (unit_index, within) = (at / u64::from(unit), at % u64::from(unit));
                let server = (u64::from(first) + unit_index % u64::from(count)) % 5;
                let place = unit_index / u64::from(count) * u64::from(unit) + within;
                prop_assert_eq!(objects[server as usize][place as usize], byte);
            }
        }

        #[test]
        fn what_is_missing_stays_as_it_was(missing in 0usize..3_000) {
            let layout = Layout { unit: 1_000, count: 2, first: ServerId(0), servers: 2 };
            let run = runs(&layout, 0, 6_000).remove(0);
            prop_assert_eq!(run.length, 3_000);
            let mut buffer = vec![0; 6_000];
            scatter(&run, &vec![7; 3_000 - missing], &mut buffer);
            prop_assert_eq!(buffer.iter().filter(|&&byte| byte == 7).count(), 3_000 - missing);
        }
    }
}
