//! Live data of the node: one sampler for all pages, which runs while a page is open.
//!
//! | module | content |
//! |---|---|
//! | `hub` | the open pages, and the first messages of a new page |
//! | `sampler` | loop: wait for the endpoint, sample it until it is gone |
//! | `hello` | identity and capabilities of the endpoint |
//! | `pods` | the list of pods and their owners (`owner`); objects whose calls time out (`late`) |
//! | `usage`, `machine`, `history` | usage of pods and of the machine, with history; their `figures` |
//! | `changes`, `pulls`, `findings` | updates (`news`): events, pulls, findings of doctor |
//! | `time` | time formats |

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
