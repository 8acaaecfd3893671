//! The node as it changes: one sampler for all pages, which runs while one is open.
//!
//! | module | what it holds |
//! |---|---|
//! | `hub` | who listens, and what they are told first |
//! | `sampler` | one after the other: the endpoint is there, is looked at, is gone |
//! | `hello` | what the endpoint is and can tell |
//! | `pods` | the list of pods, `owner` of them; `late`: which of them the endpoint takes too long to tell of |
//! | `usage`, `machine`, `history` | what pods use, what the machine does, what it was before; `figures`: how much |
//! | `changes`, `pulls`, `findings` | what comes by itself, as `news`: events, pulls, what doctor finds |
//! | `time` | moments as they are told |

mod changes;
mod figures;
mod findings;
mod hello;
mod history;
mod hub;
mod late;
mod machine;
mod news;
mod owner;
mod pods;
mod pulls;
mod sampler;
mod time;
mod usage;

pub(crate) use hub::Hub;
pub(crate) use machine::capacity;
pub(crate) use pods::{Network, container_json, pod_json};
pub(crate) use time::moment;
