//! Words for the way by which the kernel's requests come.

use pandofs_fuse::UseIoUring;

/// Whether a mount takes requests over io_uring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum IoUring {
    /// If the kernel offers it and it can be used
    Auto,
    /// The same, with a warning if it is not so
    On,
    /// Never: by /dev/fuse
    #[default]
    Off,
}

impl IoUring {
    pub(crate) fn name(self) -> &'static str {
        match self {
            IoUring::Auto => "auto",
            IoUring::On => "on",
            IoUring::Off => "off",
        }
    }
}

impl From<IoUring> for UseIoUring {
    fn from(word: IoUring) -> UseIoUring {
        match word {
            IoUring::Auto => UseIoUring::IfOffered,
            IoUring::On => UseIoUring::Wanted,
            IoUring::Off => UseIoUring::No,
        }
    }
}
