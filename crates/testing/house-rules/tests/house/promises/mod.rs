//! That each promise of a document is checked by a test, or a command, that runs.
//!
//! `make test` runs all tests but those that `.ci/not-here.txt` lists, with the command that runs them or the
//! variable that names a program which Debian does not have. A promise whose check is among these names the
//! command, which is a stage of the nightly run, or the variable, too.

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
