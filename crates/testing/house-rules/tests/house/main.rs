//! Rules of the workspace: allowed dependencies between crates, allowed external crates, and tests named in documents.
#![allow(
    clippy::disallowed_methods,
    reason = "tests read what they wrote themselves"
)]
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod blocking;
mod cargo;
mod circles;
mod dependencies;
mod files;
mod import_rules;
mod links;
mod promises;
mod prose;
mod pure_rules;
mod where_to_look;
mod words;
