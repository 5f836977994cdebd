//! Fields of the kernel's structures, in the order of memory and this machine's byte order.

use crate::request::Malformed;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Bytes of which fields are taken from the front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (field, rest) = self.0.split_first_chunk().ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(*field)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_ne_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array().map(i32::from_ne_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_ne_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array().map(i64::from_ne_bytes)
    }

    /// A position in a file, which the system keeps in a signed number.
    pub(crate) fn offset(&mut self) -> Result<u64, Malformed> {
        let offset = self.u64()?;
        i64::try_from(offset)
            .map(|_| offset)
            .map_err(|_| Malformed::OutOfRange)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (field, rest) = self.0.split_at_checked(count).ok_or(Malformed::TooShort)?;
        self.0 = rest;
        Ok(field)
    }

    /// Bytes that mean nothing here.
    pub(crate) fn skip(&mut self, count: usize) -> Result<(), Malformed> {
        self.bytes(count).map(drop)
    }

    /// A string, which ends with a zero.
    pub(crate) fn name(&mut self) -> Result<&'a OsStr, Malformed> {
        let end = self.0.iter().position(|&byte| byte == 0);
        let name = self.bytes(end.ok_or(Malformed::TooShort)?)?;
        self.skip(1)?;
        Ok(OsStr::from_bytes(name))
    }
}

/// A structure for the kernel in the making. No structure that is sent is longer than this.
#[derive(Debug)]
pub(crate) struct Writer {
    bytes: [u8; Writer::CAPACITY],
    length: usize,
}

impl Writer {
    const CAPACITY: usize = 288;

    pub(crate) fn new() -> Writer {
        Writer {
            bytes: [0; Writer::CAPACITY],
            length: 0,
        }
    }

    fn put(&mut self, field: &[u8]) -> &mut Writer {
        let end = self.length + field.len();
        self.bytes[self.length..end].copy_from_slice(field);
        self.length = end;
        self
    }

    pub(crate) fn u16(&mut self, field: u16) -> &mut Writer {
        self.put(&field.to_ne_bytes())
    }

    pub(crate) fn u32(&mut self, field: u32) -> &mut Writer {
        self.put(&field.to_ne_bytes())
    }

    pub(crate) fn i32(&mut self, field: i32) -> &mut Writer {
        self.put(&field.to_ne_bytes())
    }

    pub(crate) fn u64(&mut self, field: u64) -> &mut Writer {
        self.put(&field.to_ne_bytes())
    }

    pub(crate) fn i64(&mut self, field: i64) -> &mut Writer {
        self.put(&field.to_ne_bytes())
    }

    pub(crate) fn zeros(&mut self, count: usize) -> &mut Writer {
        self.length += count;
        assert!(self.length <= Writer::CAPACITY);
        self
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}
