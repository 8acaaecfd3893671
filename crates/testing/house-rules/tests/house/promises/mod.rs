//! Checks that every promise in a document has a test or command that runs.
//!
//! `make test` runs all tests except those in `.ci/not-here.txt`. That list names the command that runs a test, or the
//! variable for a program that Debian lacks. A promise with such a test must name the nightly command or the variable,
//! too.

mod cell;
mod check;
mod commands;
mod filter;
mod ignored;
mod names;
mod not_here;
mod profiles;
mod programs;
mod scan;
mod tables;
mod vm;
