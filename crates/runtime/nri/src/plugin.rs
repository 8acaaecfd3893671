//! A connected plugin.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use prost::Message;

use crate::connection::{CallError, Connection};
use crate::event::{Events, call_of};
use crate::metrics::Metrics;
use crate::v1alpha1::{Container, Event, PodSandbox, StateChangeEvent};

/// The supported version of NRI, which plugins receive.
pub const VERSION: &str = "v0.12.0";

/// Name of the service that plugins implement.
pub(crate) const SERVICE: &str = "nri.pkg.api.v1alpha1.Plugin";

/// Identity of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Two digits.
    pub(crate) index: String,
    pub(crate) name: String,
    /// Version of the plugin's library, as the plugin reports it.
    pub(crate) version: String,
}

impl Identity {
    /// Returns the name in logs and errors, `NN-name`.
    pub(crate) fn full(&self) -> String {
        format!("{}-{}", self.index, self.name)
    }
}

/// Origin of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Started by the runtime.
    Launched,
    /// Connected to the socket.
    External,
}

/// A registered plugin.
#[derive(Debug)]
pub(crate) struct Plugin {
    pub(crate) identity: Identity,
    pub(crate) full_name: String,
    pub(crate) origin: Origin,
    pub(crate) pid: Option<u32>,
    pub(crate) events: Events,
    pub(crate) connection: Connection,
    pub(crate) limit: Duration,
    pub(crate) metrics: Metrics,
    /// Events that must be sent as the older `StateChange` call.
    by_state_change: AtomicU32,
}

impl Plugin {
    pub(crate) fn new(
        identity: Identity,
        (origin, pid): (Origin, Option<u32>),
        events: Events,
        connection: Connection,
        limit: Duration,
        metrics: Metrics,
    ) -> Self {
        Self {
            full_name: identity.full(),
            identity,
            origin,
            pid,
            events,
            connection,
            limit,
            metrics,
            by_state_change: AtomicU32::default(),
        }
    }

    /// Calls the plugin, and records the duration.
    pub(crate) async fn call<A: Message + Default>(
        &self,
        call: &'static str,
        request: &impl Message,
        limit: Duration,
    ) -> Result<A, CallError> {
        let begun = Instant::now();
        let payload = request.encode_to_vec();
        let answer = self.connection.call(SERVICE, call, payload, limit).await;
        let answer = answer.and_then(|bytes| {
            A::decode(bytes).map_err(|error| CallError::Rubbish(error.to_string()))
        });
        self.metrics
            .call(&self.full_name, call, begun.elapsed(), &answer);
        answer
    }

    /// Calls the plugin for an event, with the configured time limit.
    pub(crate) async fn ask<A: Message + Default>(
        &self,
        event: Event,
        request: &impl Message,
    ) -> Result<A, CallError> {
        self.call(call_of(event), request, self.limit).await
    }

    /// Notifies the plugin of an event that it can only reject.
    ///
    /// Plugins with an older library have a single call, `StateChange`, for all of these events.
    pub(crate) async fn tell(
        &self,
        event: Event,
        request: &impl Message,
        subject: (&PodSandbox, Option<&Container>),
    ) -> Result<(), CallError> {
        let bit = Events::NONE.and(event).raw();
        if self.by_state_change.load(Ordering::Relaxed) & bit == 0 {
            match self.ask::<()>(event, request).await {
                Err(error) if error.is_unimplemented() => {
                    self.by_state_change.fetch_or(bit, Ordering::Relaxed);
                    tracing::info!(
                        plugin = self.full_name,
                        call = call_of(event),
                        "an NRI plugin uses an older API version; sending it StateChange instead"
                    );
                }
                told => return told,
            }
        }
        let change = StateChangeEvent {
            event: event.into(),
            pod: Some(subject.0.clone()),
            container: subject.1.cloned(),
        };
        self.call("StateChange", &change, self.limit).await
    }
}

/// Splits `NN-name`.
pub(crate) fn parse_name(name: &str) -> Result<(&str, &str), String> {
    let Some((index, name)) = name.split_once('-') else {
        return Err(format!("{name:?} is not of the form NN-name"));
    };
    check_index(index)?;
    check_name(name)?;
    Ok((index, name))
}

/// Returns an error unless the index has two digits.
pub(crate) fn check_index(index: &str) -> Result<(), String> {
    if index.len() == 2 && index.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(());
    }
    Err(format!("the index {index:?} is not two digits"))
}

/// Returns an error for a name that is unsuitable for logs, metrics and file names.
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    if !name.is_empty() && name.len() <= 128 && name.chars().all(fits) {
        return Ok(());
    }
    Err(format!(
        "the name {name:?} is empty, too long, or has characters other than letters, digits and \
         -_.+"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_two_digits_before_a_dash() {
        assert_eq!(parse_name("10-a-b"), Ok(("10", "a-b")));
        for bad in [
            "", "10", "1-a", "100-a", "1x-a", "10-", "10-a/b", "a-10", "10-a b",
        ] {
            assert!(parse_name(bad).is_err(), "{bad}");
        }
    }
}
