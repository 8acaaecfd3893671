//! Tests with generated layers of all formats.

mod archive;
mod honest;
mod hostile_index;
mod hostile_json;
mod hostile_ztoc;
mod layer;
mod mutated;
mod size;
mod ztoc;
