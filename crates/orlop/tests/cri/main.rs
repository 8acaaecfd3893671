//! Behaviour over CRI, as the kubelet would notice it.
//!
//! A test that begins with `world!()` runs on any node, Debian's containerd among them (`make test-peer`): its
//! module is one of those that `.config/nextest.toml` selects for other nodes. Tests of orlop alone are in
//! modules of their own, or in a module `ours` beneath one of those, and begin with `ours!()`.
#![allow(
    clippy::assigning_clones,
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::large_futures,
    clippy::unwrap_used,
    clippy::wildcard_imports,
    reason = "tests fail by panicking, read what they wrote themselves, and are not hot"
)]

mod artifacts;
mod bad_input;
mod bundles;
mod checkpoint;
mod containers;
mod controllers;
mod crash;
mod crowds;
mod crun;
mod dashboards;
mod debugging;
mod encrypted;
mod escapes;
mod exec;
mod few_threads;
mod gvisor;
mod handler_rules;
mod handlers;
mod image_archives;
mod images;
mod joins;
mod kata;
mod keepers;
mod lazy_clients;
mod logs;
mod metrics;
mod missed_events;
mod networks;
mod observe;
mod on_containerd;
mod peak;
mod places;
mod plugins;
mod pods;
mod processes;
mod profiles;
mod pulls;
mod recovery;
mod registries;
mod reload;
mod resources;
mod restart;
mod sandbox_api;
mod sandbox_state;
mod sandboxes;
mod selinux;
mod shims;
mod signatures;
mod spending;
mod statistics;
mod strangers;
mod streaming_io;
mod streams;
mod tracing;
mod trouble;
mod upgrade;
mod users;
mod versions;
mod wasm;
mod web_page;
mod world;
