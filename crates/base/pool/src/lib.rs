//! Places where work waits that depends on strangers.
//!
//! Whoever waits for a plugin, a mount that a client named or a registry waits on a thread of that
//! stranger's place, never on one of those that serve the node's own quick work. A place has so many
//! threads, each owner a share of them, and so many may wait; who comes after is told.

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
