//! OpenPGP as GnuPG writes it, and as nobody does.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking, and read what they wrote themselves"
)]

mod fuzzed;
mod gpg;
