//! Checksums of values: CRC-32C of the key and the value, before the value.
//!
//! With the key in it, a value under another key's name is none of that key.

use crate::limits::SUM_BYTES;

/// Checksum of a pair.
pub(crate) fn sum(key: &[u8], value: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), value)
}

/// The value as it is stored.
pub(crate) fn seal(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(SUM_BYTES + value.len());
    sealed.extend_from_slice(&sum(key, value).to_be_bytes());
    sealed.extend_from_slice(value);
    sealed
}

/// The value that was sealed under this key; `None` if none was.
pub(crate) fn open(key: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
    let (stored, value) = sealed.split_first_chunk::<SUM_BYTES>()?;
    (u32::from_be_bytes(*stored) == sum(key, value)).then(|| value.to_vec())
}

/// What the attribute of an inode's contents says: their checksum and their size.
pub(crate) fn of_data(key: &[u8], value: &[u8]) -> [u8; 12] {
    let mut said = [0; 12];
    said[..SUM_BYTES].copy_from_slice(&sum(key, value).to_be_bytes());
    said[SUM_BYTES..].copy_from_slice(&(value.len() as u64).to_be_bytes());
    said
}

/// The size that the attribute of an inode's contents says; 0 if it says none.
pub(crate) fn data_bytes(said: &[u8]) -> u64 {
    match said.get(SUM_BYTES..).map(<[u8; 8]>::try_from) {
        Some(Ok(bytes)) => u64::from_be_bytes(bytes),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_belongs_to_its_key() {
        let sealed = seal(b"key", b"value");
        assert_eq!(sealed[4..], *b"value");
        assert_eq!(open(b"key", &sealed), Some(b"value".to_vec()));
        assert_eq!(open(b"kex", &sealed), None);
        assert_eq!(open(b"key", &sealed[..8]), None);
        assert_eq!(open(b"key", &sealed[..3]), None);
        assert_eq!(open(b"key", &seal(b"key", b"")), Some(vec![]));
        assert_eq!(data_bytes(&of_data(b"key", b"value")), 5);
        assert_eq!(data_bytes(b"short"), 0);
    }
}
