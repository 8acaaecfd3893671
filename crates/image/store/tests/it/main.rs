//! The image library as its users meet it: real registries, real file systems, bad days.
#![allow(
    clippy::disallowed_methods,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod archives;
mod artifacts;
mod attestations;
mod budget;
mod bundles;
mod child;
mod cosign;
mod crash;
mod crowds;
mod encrypted;
mod faults;
mod fuzzed;
mod gpg;
mod layers;
mod lazy;
mod lazy_bad_days;
mod manifests;
mod memory;
mod modules;
mod node;
mod one_file;
mod published;
mod pull;
mod registries;
mod restart;
mod signatures;
mod slow;
mod support;
mod tls;
