//! Handlers of requests, one file each.

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
