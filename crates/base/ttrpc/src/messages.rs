//! The payloads of frames, generated from `proto/ttrpc`. A frame has at most [`LARGEST`](crate::LARGEST) bytes, and so
//! has all that is decoded from it.

include!(concat!(env!("OUT_DIR"), "/ttrpc.rs"));
