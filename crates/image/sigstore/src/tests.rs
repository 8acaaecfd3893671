//! Tests of verification: accepted and refused signatures.

mod bundles;
mod certificates;
mod detached;
mod published;
mod scene;
mod stamps;
