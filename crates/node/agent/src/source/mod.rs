//! Sources of manifests: a directory, a URL, the standard input, `orlop apply`.
//!
//! Each source is a task that sends a complete snapshot whenever its content changes. A text that
//! becomes invalid keeps the pods that it last described, even after a restart: a typo stops no
//! pod.

mod directory;
mod last_good;
mod snapshot;
mod stdin;
mod store;
mod texts;
mod url;
mod watch;

pub(crate) use directory::directory;
pub(crate) use last_good::LastGood;
#[cfg(test)]
pub(crate) use snapshot::SourcePod;
pub(crate) use snapshot::{Outlet, Snapshot, UPDATES, Update};
pub(crate) use stdin::stdin;
pub(crate) use store::{Outcome, Store, StoreError};
pub(crate) use texts::Texts;
pub(crate) use url::{UrlSource, url};
