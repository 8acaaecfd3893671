//! The payloads of frames, generated from `proto/ttrpc`. A frame has at most [`LARGEST`](crate::LARGEST) bytes, which
//! also bounds all values decoded from it.

include!(concat!(env!("OUT_DIR"), "/ttrpc.rs"));
