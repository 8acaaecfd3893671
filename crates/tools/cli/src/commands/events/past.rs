//! Past events. Only orlop keeps them.

use std::collections::HashSet;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use orlop_cri_api::inspection::ListEventsRequest;
use orlop_cri_api::v1::ContainerEventResponse;
use prost::Message as _;
use tonic::Code;

use crate::connect::{Session, refused};
use crate::output::rfc3339;

/// Keys of the past events that were shown.
#[derive(Default)]
pub(super) struct Past(HashSet<(String, i32, i64)>);

impl Past {
    /// Returns the kept events since a time, in order.
    pub(super) async fn since(
        session: &Session,
        since: Timestamp,
    ) -> anyhow::Result<(Self, Vec<ContainerEventResponse>)> {
        let at = i64::try_from(since.as_nanosecond()).context("the time is out of range")?;
        let connection = session.runtime_connection().await?;
        let request = ListEventsRequest { since: at };
        let answer = connection.orlop_inspection().list_events(request).await;
        let answer = match answer {
            Ok(answer) => answer.into_inner(),
            Err(status) if status.code() == Code::Unimplemented => bail!(
                "the runtime on this endpoint does not keep past events (it is another runtime or \
                 an older version of orlop); omit --since to follow new events"
            ),
            Err(status) => return Err(refused(status)),
        };
        if answer.kept_from > at {
            let from = rfc3339(answer.kept_from);
            say!("some events before {from} are no longer available");
        }
        let decoded = answer.events.iter();
        let decoded = decoded.map(|event| ContainerEventResponse::decode(event.as_ref()));
        let events: Vec<_> = decoded
            .collect::<Result<_, _>>()
            .context("cannot read the events of the runtime")?;
        Ok((Self(events.iter().map(key).collect()), events))
    }

    /// Returns whether a new event was already shown: events between the subscription and the query are in both.
    pub(super) fn has(&self, event: &ContainerEventResponse) -> bool {
        self.0.contains(&key(event))
    }
}

fn key(event: &ContainerEventResponse) -> (String, i32, i64) {
    let kind = event.container_event_type;
    (event.container_id.clone(), kind, event.created_at)
}
