//! Thread pools for blocking work that depends on external parties.
//!
//! Code that waits for a plugin, a client's mount or a registry runs on a thread of the pool for that party, never on
//! the threads for the node's own quick work. A pool has a limit of threads, a share of them for each owner, and a
//! limit of waiting work; further work is refused.

mod limit;
mod names;
mod own;
mod place;
mod program;
mod shares;

pub use limit::{NoThread, started};
pub use names::look_up;
pub use own::{Ended, answering, blocking, finish, ready, storing};
pub use place::{Occupied, Place, Refused, places};
pub use program::{Retries, Said, ask};
pub use shares::{Share, Shares, most_of};
