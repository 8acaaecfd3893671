//! A host that may have images.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::HeaderMap;
use reqwest::Url;

use super::address::authority;
use super::tls::Tls;
use crate::{Place, Repository};

/// A host to ask for images, with all that its connection needs.
#[derive(Debug, Clone)]
pub(crate) struct Host {
    /// Up to and including `/v2`, or what `override_path` gave.
    pub(super) base: Url,
    /// May serve content by digest.
    pub(super) pull: bool,
    /// May say what a tag means.
    pub(super) resolve: bool,
    pub(super) tls: Tls,
    pub(super) headers: HeaderMap,
    pub(super) connect_timeout: Option<Duration>,
    /// Serves under the registry's own name, or was put in its place as `server`.
    pub(super) is_own: bool,
    pub(super) standing: Arc<Standing>,
    /// What says so: a line of a file, or a directory.
    pub(super) told_by: Option<String>,
    /// Where in a `registries.conf` is said that it is asked, and how.
    pub(super) source: Option<SourceOf>,
    /// The same place by another protocol: of the two, the one that has answered is asked alone.
    pub(super) twin: Option<Arc<Standing>>,
}

/// What a `registries.conf` says of a host.
#[derive(Debug, Clone)]
pub(super) struct SourceOf {
    /// What the image's repository is called there.
    pub(super) repository: Repository,
    pub(super) is_mirror: bool,
    pub(super) place: Option<Place>,
}

/// How a host has done in this pull.
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

    /// It is there: a refused connection means that it restarts, not that it doesn't exist.
    pub(super) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// It was asked in vain and has never answered.
    pub(super) fn is_down(&self) -> bool {
        self.unreachable.load(Ordering::Relaxed) && !self.has_answered()
    }
}

impl Host {
    /// Host and port, for messages and for matching credentials.
    pub(crate) fn name(&self) -> String {
        authority(&self.base)
    }

    /// Whether credentials that name no registry are for it.
    pub(super) fn is_home(&self) -> bool {
        self.is_own && !self.source.as_ref().is_some_and(|source| source.is_mirror)
    }

    /// It is asked no more: the same place has answered by another protocol.
    pub(super) fn is_replaced(&self) -> bool {
        !self.standing.has_answered() && self.twin.as_ref().is_some_and(|twin| twin.has_answered())
    }
}
