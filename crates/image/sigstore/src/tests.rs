//! Signatures as whoever verifies them expects them to work: what holds, and all that does not.

mod bundles;
mod certificates;
mod detached;
mod published;
mod scene;
mod stamps;
