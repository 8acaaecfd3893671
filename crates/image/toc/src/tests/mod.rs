//! Layers of all formats, made on the spot, and what becomes of them.

mod archive;
mod honest;
mod hostile_index;
mod hostile_json;
mod hostile_ztoc;
mod layer;
mod mutated;
mod size;
mod ztoc;
