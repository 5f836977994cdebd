//! Agreement with the kernel on what a mount can do.

use crate::abi::{self, init};
use crate::bytes::Writer;
use crate::limits::{DEFAULT_BACKGROUND_REQUESTS, MAX_WRITE_BYTES};
use crate::request::Init;

/// Flags that every file system wants.
const ALWAYS: u64 = init::ASYNC_READ | init::BIG_WRITES | init::MAX_PAGES | init::INIT_EXT;

/// The offers of a kernel, and those that a file system takes.
#[derive(Clone, Copy, Debug)]
pub struct Negotiation {
    kernel: Init,
    wanted: u64,
    max_write: usize,
    max_background: u16,
}

impl Negotiation {
    pub(crate) fn with(kernel: Init) -> Negotiation {
        Negotiation {
            kernel,
            wanted: ALWAYS,
            max_write: MAX_WRITE_BYTES,
            max_background: DEFAULT_BACKGROUND_REQUESTS,
        }
    }

    /// The version of the kernel's interface.
    pub fn version(&self) -> (u32, u32) {
        (self.kernel.major, self.kernel.minor)
    }

    /// Asks for a feature of [`crate::abi::init`]; false if this kernel lacks it.
    #[must_use]
    pub fn want(&mut self, feature: u64) -> bool {
        self.wanted |= feature;
        self.kernel.features & feature == feature
    }

    /// Sets the bytes of file data in one request, at most [`MAX_WRITE_BYTES`]; the kernel may take
    /// less.
    pub fn set_max_write(&mut self, bytes: usize) {
        self.max_write = bytes.clamp(1, MAX_WRITE_BYTES);
    }

    /// Sets the number of requests that no program waits for and the kernel has under way.
    pub fn set_max_background(&mut self, requests: u16) {
        self.max_background = requests.max(1);
    }

    pub(crate) fn offers_io_uring(&self) -> bool {
        self.kernel.features & init::OVER_IO_URING != 0
    }

    pub(crate) fn use_io_uring(&mut self) {
        self.wanted |= init::OVER_IO_URING;
    }

    /// Bytes of the largest request or answer beside its headers, as far as the kernel goes by this.
    pub(crate) fn payload(&self) -> usize {
        self.pages() * rustix::param::page_size()
    }

    fn pages(&self) -> usize {
        let bytes = self.max_write.max(self.kernel.max_readahead as usize);
        bytes.div_ceil(rustix::param::page_size())
    }

    pub(crate) fn max_write(&self) -> usize {
        self.max_write
    }

    /// `struct fuse_init_out`.
    pub(crate) fn answer(&self) -> Writer {
        let features = self.wanted & self.kernel.features;
        // From three quarters of them on the kernel takes the file system for congested.
        let congested = (u32::from(self.max_background) * 3 / 4) as u16;
        let mut to = Writer::new();
        to.u32(abi::MAJOR).u32(abi::MINOR);
        to.u32(self.kernel.max_readahead).u32(features as u32);
        to.u16(self.max_background).u16(congested);
        // Times are kept to the nanosecond.
        to.u32(self.max_write as u32).u32(1);
        to.u16(u16::try_from(self.pages()).unwrap_or(u16::MAX))
            .u16(0);
        to.u32((features >> 32) as u32).zeros(7 * 4);
        to
    }

    /// The answer to a kernel that speaks a later version: the one that is spoken here, with which
    /// it asks again.
    pub(crate) fn version_alone() -> Writer {
        let mut to = Writer::new();
        to.u32(abi::MAJOR).u32(abi::MINOR).zeros(56);
        to
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(features: u64) -> Init {
        Init {
            major: 7,
            minor: 45,
            max_readahead: 131_072,
            features,
        }
    }

    fn fields(answer: &Writer) -> Vec<u32> {
        let chunks = answer.as_bytes().chunks_exact(4);
        chunks
            .map(|four| u32::from_ne_bytes(four.try_into().unwrap()))
            .collect()
    }

    #[test]
    fn what_is_wanted_and_offered_is_agreed_on() {
        let offered = init::ASYNC_READ
            | init::INIT_EXT
            | init::DIRECT_IO_ALLOW_MMAP
            | init::PARALLEL_DIROPS
            | init::POSIX_ACL;
        let mut negotiation = Negotiation::with(kernel(offered));
        assert!(negotiation.want(init::DIRECT_IO_ALLOW_MMAP));
        assert!(negotiation.want(init::PARALLEL_DIROPS));
        assert!(!negotiation.want(init::CACHE_SYMLINKS));
        negotiation.set_max_write(256 << 10);
        negotiation.set_max_background(256);
        let answer = negotiation.answer();
        assert_eq!(answer.as_bytes().len(), 64);
        let agreed = init::ASYNC_READ | init::INIT_EXT | init::PARALLEL_DIROPS;
        let fields = fields(&answer);
        assert_eq!(fields[..4], [7, 40, 131_072, agreed as u32]);
        assert_eq!(fields[4].to_ne_bytes()[..2], 256_u16.to_ne_bytes());
        assert_eq!(fields[4].to_ne_bytes()[2..], 192_u16.to_ne_bytes());
        assert_eq!(fields[5..7], [256 << 10, 1]);
        let pages = ((256 << 10) / rustix::param::page_size()) as u16;
        assert_eq!(fields[7].to_ne_bytes()[..2], pages.to_ne_bytes());
        assert_eq!(fields[8], (init::DIRECT_IO_ALLOW_MMAP >> 32) as u32);
        assert!(fields[9..].iter().all(|&field| field == 0));
    }

    #[test]
    fn bounds_are_kept() {
        let mut negotiation = Negotiation::with(kernel(0));
        negotiation.set_max_write(usize::MAX);
        negotiation.set_max_background(0);
        assert_eq!(negotiation.max_write(), MAX_WRITE_BYTES);
        let fields = fields(&negotiation.answer());
        assert_eq!(fields[3], 0, "nothing is offered");
        assert_eq!(fields[4], 1);
    }

    #[test]
    fn a_later_version_is_told_which_one_is_spoken() {
        let fields = fields(&Negotiation::version_alone());
        assert_eq!((fields.len(), &fields[..3]), (16, &[7, 40, 0][..]));
    }
}
