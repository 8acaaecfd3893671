//! What has happened already. Only orlop keeps it.

use std::collections::HashSet;

use anyhow::{Context as _, bail};
use jiff::Timestamp;
use orlop_cri_api::inspection::ListEventsRequest;
use orlop_cri_api::v1::ContainerEventResponse;
use prost::Message as _;
use tonic::Code;

use crate::connect::{Session, refused};
use crate::output::rfc3339;

/// Which events were kept.
#[derive(Default)]
pub(super) struct Past(HashSet<(String, i32, i64)>);

impl Past {
    /// What has happened from a time on, as far as it is kept, in the order of time.
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

    /// Whether an event that is told now was among them: what happened between the subscription and the
    /// question is in both.
    pub(super) fn has(&self, event: &ContainerEventResponse) -> bool {
        self.0.contains(&key(event))
    }
}

fn key(event: &ContainerEventResponse) -> (String, i32, i64) {
    let kind = event.container_event_type;
    (event.container_id.clone(), kind, event.created_at)
}
