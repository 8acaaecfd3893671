//! CRIU's messages, generated from `proto/criu`.

include!(concat!(env!("OUT_DIR"), "/criu.rs"));
