//! Which images may be used, where a signature policy says so.
//!
//! The engine knows nothing of policies. Names are resolved and signatures found by the client of the native backend's
//! pulls, and judged as there; the engine is told to pull what was judged, by its digest. What an image's id is a digest
//! of, its configuration or its manifest, was hashed here: so the id alone tells whether an image is the one that was
//! judged, and names and digests that the engine tells prove nothing.

mod admit;
mod find;
mod pull;

pub(crate) use admit::{admit, admit_mounts};
pub(crate) use find::{find, of_engine};
pub(crate) use pull::{examine, fetch, platform, request};
