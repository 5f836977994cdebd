//! Memory of decoders: no more than a multiple of the bytes given, whatever their lengths promise.
//!
//! Alone in its process, because it looks at the most memory that there was.

use pandofs_formats::decoders::{ALL, Decoder, samples};
use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// Bytes that a decoder may take whatever it is given: the room for a read, and for the data of one message, which is
/// asked of the system before it arrives and not touched.
const FLOOR: usize = 2 << 20;
/// Bytes that it may take for each that it is given: an element of a sequence is a byte at least, and takes the
/// space of its largest kind.
const FACTOR: usize = 256;

fn check(decoder: &Decoder, bytes: &[u8]) {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    (decoder.decode)(bytes);
    let taken = MEMORY.peak_usage().saturating_sub(before);
    let limit = FLOOR + FACTOR * bytes.len();
    assert!(
        taken <= limit,
        "{} takes {taken} bytes for {} of input: {bytes:02x?}",
        decoder.name,
        bytes.len()
    );
}

/// A length of any size, as numbers are encoded.
fn length() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(vec![0xff, 0xff, 0xff, 0xff, 0x0f]),
        Just(vec![0xff; 8]),
        Just(vec![0xff, 0xff, 0x3f]),
        Just(vec![0xff, 0xff, 0xff, 0x07]),
        Just(vec![
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01
        ]),
    ]
}

#[test]
fn lengths_that_lie_take_no_memory() {
    for decoder in ALL {
        // A runner counts its cases over all that it runs.
        let mut runner = TestRunner::new(ProptestConfig::with_cases(300));
        let samples = samples(decoder);
        for sample in &samples {
            check(decoder, sample);
        }
        let lies = (
            any::<prop::sample::Index>(),
            any::<prop::sample::Index>(),
            length(),
        );
        runner
            .run(&lies, |(sample, at, length)| {
                let sample = &samples[sample.index(samples.len())];
                let at = at.index(sample.len() + 1);
                // In the place of what is there, and before it.
                for end in [(at + length.len()).min(sample.len()), at] {
                    let mut bytes = sample.clone();
                    bytes.splice(at..end, length.iter().copied());
                    check(decoder, &bytes);
                }
                Ok(())
            })
            .unwrap();
    }
}
