//! The house's own rules: which crate may use which, and what may be built in.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod blocking;
mod cargo;
mod circles;
mod dependencies;
mod import_rules;
mod pure_rules;
mod where_to_look;
mod words;
