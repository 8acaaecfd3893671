//! One worker for each pod: it alone starts and stops what is of the pod.

mod adapt;
mod checkpoint;
mod conditions;
mod end;
mod kill;
mod last_words;
mod life;
mod mailbox;
mod observe;
mod pass;
mod probes;
mod report;
mod resize;
mod sandbox;
mod shown;
mod start;
mod summary;
mod tell;

pub(crate) use checkpoint::load_all;
pub(crate) use kill::{Victim, kill_all, stop_sandboxes};
pub(crate) use life::run;
pub(crate) use mailbox::{Cause, Ending, Mailbox};
pub(crate) use observe::{Observation, observe};
