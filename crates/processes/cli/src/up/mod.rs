//! A whole cluster on one machine: one process per server and one for the mount, as children.

mod child;
mod prepare;
mod supervisor;
mod voice;

pub use child::{Recipe, Role};
pub use prepare::{NewCluster, check_directory, check_options, open_or_create, unix_address};
pub use supervisor::{End, Plan, supervise};
pub use voice::Voice;
