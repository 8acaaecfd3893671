//! Requests, one file each.

mod attach;
mod create;
mod delete;
mod dial;
mod dispatch;
mod exec;
mod fifo;
mod kill;
mod list;
mod mount;
mod start;
mod terminal;

pub(crate) use dial::Dialling;
pub(crate) use dispatch::{Purpose, failure};
pub(crate) use fifo::LettingGo;
pub(crate) use mount::unmount_all;
