//! `orlop serve`: the daemon.

mod admin;
mod args;
mod authority;
mod control;
mod debug;
mod directories;
#[cfg(feature = "node")]
mod embedded;
mod endpoints;
mod exporting;
mod format;
mod incoming;
mod life;
mod lock;
pub(crate) mod pages;
mod serving;
mod signals;
mod start;
#[cfg(test)]
mod unread;
mod watchdog;

pub(crate) use admin::{DaemonArgs, client as admin_client};
pub(crate) use args::ServeArgs;
#[cfg(feature = "node")]
pub(crate) use embedded::{Embedded, Plan};
pub(crate) use start::run;
