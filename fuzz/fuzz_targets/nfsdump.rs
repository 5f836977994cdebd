#![no_main]

use pandofs_formats::decoders::find;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    (find("nfsdump").decode)(bytes);
});
