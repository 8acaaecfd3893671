//! Behaviour over CRI, as the kubelet would notice it.
//!
//! The same tests run on Debian's containerd (`make test-peer`); where the reference does
//! otherwise, the test says how and is skipped there.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::assigning_clones,
    clippy::large_futures,
    reason = "tests: a panic is a failure, and nothing here is hot"
)]

mod artifacts;
mod bad_input;
mod bundles;
mod checkpoint;
mod client;
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
