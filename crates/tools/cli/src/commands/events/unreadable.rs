//! Events for data of lazily pulled images that cannot be fetched. Only orlop reports them.

use std::time::Duration;

use orlop_cri_api::images::{ReadFailure, WatchReadFailuresRequest};
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::{Code, Streaming};

use crate::connect::{Dialect, Session};
use crate::output::{Style, rfc3339};

/// Timeout for the start of the watch.
const PATIENCE: Duration = Duration::from_secs(1);

/// Stream of future read failures.
pub(super) struct Failures {
    stream: Option<Streaming<ReadFailure>>,
}

impl Failures {
    /// Starts to watch. In crictl mode there are no such events.
    pub(super) async fn watch(session: &Session) -> anyhow::Result<Self> {
        if session.dialect == Dialect::Crictl {
            return Ok(Self { stream: None });
        }
        let mut client = session.quick_image_connection().await?.orlop_images();
        let request = WatchReadFailuresRequest {};
        let answer = timeout(PATIENCE, client.watch_read_failures(request)).await;
        let stream = answer.ok().and_then(Result::ok);
        Ok(Self {
            stream: stream.map(tonic::Response::into_inner),
        })
    }

    /// Waits for the next failure; forever if the runtime reports none.
    pub(super) async fn next(&mut self) -> ReadFailure {
        if let Some(stream) = &mut self.stream {
            match stream.message().await {
                Ok(Some(failure)) => return failure,
                Err(status) if status.code() == Code::DataLoss => say!("{}", status.message()),
                // The container event stream reports the error.
                Ok(None) | Err(_) => {}
            }
        }
        self.stream = None;
        std::future::pending().await
    }
}

pub(super) fn value(failure: &ReadFailure) -> Value {
    json!({
        "type": "IMAGE_UNREADABLE",
        "createdAt": failure.at.to_string(),
        "imageIds": failure.image_ids,
        "images": failure.images,
        "layer": failure.layer,
        "registry": failure.registry,
        "reason": failure.reason,
        "timedOut": failure.timed_out,
    })
}

/// Formats `TIME unreadable IMAGE REGISTRY REASON`.
pub(super) fn line(failure: &ReadFailure, style: Style) -> String {
    let names = failure.images.join(",");
    let image = [&names, &failure.layer]
        .into_iter()
        .find(|it| !it.is_empty());
    format!(
        "{}  {}  {}  {}  {}",
        rfc3339(failure.at),
        style.colour(31, "unreadable"),
        image.map_or("-", String::as_str),
        failure.registry,
        failure.reason
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_image_registry_and_reason() {
        let mut failure = ReadFailure {
            images: vec!["r.test/a:1".into()],
            layer: "sha256:1".into(),
            registry: "r.test".into(),
            reason: "no route to host".into(),
            ..ReadFailure::default()
        };
        let end = "unreadable  r.test/a:1  r.test  no route to host";
        assert!(line(&failure, Style::PLAIN).ends_with(end));
        failure.images.clear();
        let end = "unreadable  sha256:1  r.test  no route to host";
        assert!(line(&failure, Style::PLAIN).ends_with(end));
    }
}
