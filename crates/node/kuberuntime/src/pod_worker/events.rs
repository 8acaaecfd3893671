//! Events of a pod, without repetition.

use std::time::Duration;

use tokio::time::Instant;

use super::life::Life;
use crate::clock::now;
use crate::event::{Event, Severity};

/// How many recent events are remembered.
const MAX_SAID: usize = 64;

impl Life {
    /// Emits an event, unless the same warning was emitted within the last minute.
    pub(super) fn say(
        &mut self,
        container: Option<&str>,
        severity: Severity,
        reason: &'static str,
        message: String,
    ) {
        const QUIET: Duration = Duration::from_mins(1);
        let key = (container.unwrap_or_default().to_owned(), reason);
        let now = Instant::now();
        if severity == Severity::Warning || reason == "BackOff" {
            if let Some((before, at)) = self.told.said.get(&key)
                && *before == message
                && now.duration_since(*at) < QUIET
            {
                return;
            }
            if self.told.said.len() >= MAX_SAID {
                self.told.said.clear();
            }
            self.told.said.insert(key, (message.clone(), now));
        }
        (self.teller())(container, severity, reason, message);
    }

    /// Returns a function that emits events without that check.
    pub(super) fn teller(
        &self,
    ) -> impl Fn(Option<&str>, Severity, &'static str, String) + Send + Sync + use<> {
        let ctx = self.ctx.clone();
        let meta = self.wished.pod.metadata.clone();
        move |container, severity, reason, message| {
            ctx.event(Event {
                time: now(),
                severity,
                reason,
                message,
                uid: meta.uid.clone(),
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                container: container.map(str::to_owned),
            });
        }
    }
}
