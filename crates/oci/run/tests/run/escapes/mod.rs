//! The ways by which containers got out of runc, crun and youki, tried on this runtime: images, volumes and
//! processes of containers that mean harm, while the runtime works on them.
//!
//! `ORLOP_TEST_OCI_RUNTIME` names another runtime to try them on.

mod capabilities;
mod console;
mod descriptors;
mod entering;
mod masks;
mod proc;
mod program;
mod races;
