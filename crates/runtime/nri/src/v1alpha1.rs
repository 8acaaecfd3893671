//! NRI messages, generated from `proto/nri`.

include!(concat!(env!("OUT_DIR"), "/nri.pkg.api.v1alpha1.rs"));
