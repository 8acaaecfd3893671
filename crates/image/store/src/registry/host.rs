//! A host to ask for images.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderMap;
use reqwest::Url;

use super::address::authority;
use super::tls::Tls;
use crate::{Place, Repository};

/// A host to ask for images, with its connection settings.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// URL up to and including `/v2`, or as set by `override_path`.
    pub(super) base: Url,
    /// Whether it may serve content by digest.
    pub(super) pull: bool,
    /// Whether it may resolve tags.
    pub(super) resolve: bool,
    pub(super) tls: Tls,
    pub(super) headers: HeaderMap,
    pub(super) connect_timeout: Option<Duration>,
    /// Whether it has the registry's own name, or replaces it as `server`.
    pub(super) is_own: bool,
    pub(super) standing: Arc<Standing>,
    /// The line or directory with its settings.
    pub(super) told_by: Option<String>,
    /// The entry in `registries.conf` that names it.
    pub(super) source: Option<SourceOf>,
    /// The state of the same host with another protocol. If one of the two has answered, only that one is asked.
    pub(super) twin: Option<Arc<Standing>>,
}

/// The entry of a host in `registries.conf`.
#[derive(Debug, Clone)]
pub(super) struct SourceOf {
    /// The repository's name at the host.
    pub(super) repository: Repository,
    pub(super) is_mirror: bool,
    pub(super) place: Option<Place>,
}

/// The state of a host in this pull.
#[derive(Debug, Default)]
pub(super) struct Standing {
    answered: AtomicBool,
    unreachable: AtomicBool,
}

impl Standing {
    pub(super) fn note_answer(&self) {
        self.answered.store(true, Ordering::Relaxed);
    }

    pub(super) fn note_unreachable(&self) {
        self.unreachable.store(true, Ordering::Relaxed);
    }

    /// Returns whether the host has answered. A refused connection then means that it restarts, not that it does not
    /// exist.
    pub(super) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Returns whether the host was unreachable and has never answered.
    pub(super) fn is_down(&self) -> bool {
        self.unreachable.load(Ordering::Relaxed) && !self.has_answered()
    }
}

impl Host {
    /// Returns host and port, for messages and for matching credentials.
    pub(crate) fn name(&self) -> String {
        authority(&self.base)
    }

    /// Returns whether credentials without a registry are for this host.
    pub(super) fn is_home(&self) -> bool {
        self.is_own && !self.source.as_ref().is_some_and(|source| source.is_mirror)
    }

    /// Returns whether it is no longer asked, because the same host has answered with another protocol.
    pub(super) fn is_replaced(&self) -> bool {
        !self.standing.has_answered() && self.twin.as_ref().is_some_and(|twin| twin.has_answered())
    }
}
