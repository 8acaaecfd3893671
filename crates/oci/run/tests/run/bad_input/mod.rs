//! Bundles, arguments and surroundings that are wrong: one line that names the field and the reason, by the exit
//! code that engines know, also in the log that they read, and nothing is left.

mod bundles;
mod judge;
mod programs;
mod surroundings;
