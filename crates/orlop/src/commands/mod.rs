//! The client commands: what crictl does, by the same words, on any CRI endpoint. One file per
//! command; `cli` lists them, `session` connects, `select` finds what a name or prefix means,
//! `output` prints.

mod cli;
mod crictl;
mod flags;
mod live;
mod logs;
mod machine;
mod manifest;
mod offer;
mod output;
mod password;
mod progress;
mod select;
mod session;
mod settings;
mod several;

mod apply;
mod attach;
mod checkpoint;
mod config;
mod create;
mod delete;
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
mod node;
mod pods;
mod port_forward;
mod prune;
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
mod tree;
mod up;
mod update;
mod update_runtime_config;
mod version;
mod wait;

pub(crate) use apply::ApplyArgs;
pub(crate) use cli::{ClientFlags, Command, forgive_deaf_reader};
pub(crate) use crictl::Crictl;
pub(crate) use delete::DeleteArgs;
pub(crate) use node::NodeArgs;
pub(crate) use offer::{Candidates, offered};
pub(crate) use output::print;
pub(crate) use up::UpArgs;
