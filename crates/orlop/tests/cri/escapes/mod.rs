//! The gate: a test for each kind of escape that hit a container runtime, on our surface.
//!
//! `docs/reference/security.md` has a row for each, with what is not covered.

mod files;
mod images;
mod neighbours;
mod rights;
mod secrets;
