//! The client commands: what crictl does, by the same words, on any CRI endpoint. One file per
//! command; `cli` lists them, `session` connects, `select` finds what a name or prefix means,
//! `output` prints.

mod cli;
mod crictl;
mod flags;
mod live;
mod logs;
mod manifest;
mod output;
mod password;
mod progress;
mod select;
mod session;
mod settings;
mod several;

mod attach;
mod checkpoint;
mod config;
mod create;
mod events;
mod exec;
mod image;
mod imagefsinfo;
mod images;
mod info;
mod inspect;
mod inspecti;
mod inspectp;
mod metricdescs;
mod metricsp;
mod pods;
mod port_forward;
mod ps;
mod pull;
mod rm;
mod rmi;
mod rmp;
mod run;
mod runp;
mod runtime_config;
mod start;
mod stats;
mod statsp;
mod stop;
mod stopp;
mod update;
mod update_runtime_config;
mod version;

pub(crate) use cli::{ClientFlags, Command};
pub(crate) use crictl::Crictl;
