//! A whole cluster on one machine: one process per server and one for the mount, as children.

mod child;
mod prepare;
mod report;
mod supervisor;
mod voice;

pub(crate) use child::{Recipe, Role};
pub(crate) use prepare::{
    NewCluster, check_directory, check_options, open_or_create, unix_address,
};
pub(crate) use report::UpReport;
pub(crate) use supervisor::{End, Plan, supervise};
pub(crate) use voice::Voice;
