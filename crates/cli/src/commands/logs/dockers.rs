//! A line of Docker's own log files, which is what a container's log leads to under cri-dockerd.

use orlop_cri::log::{Entry, Stream};
use serde_json::Value;

/// `{"log":"…\n","stream":"stdout","time":"…"}`.
pub(super) struct DockersLine {
    time: String,
    stream: Stream,
    text: String,
}

impl DockersLine {
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let line: Value = serde_json::from_slice(line).ok()?;
        let stream = match line.get("stream")?.as_str()? {
            "stdout" => Stream::Stdout,
            "stderr" => Stream::Stderr,
            _ => return None,
        };
        Some(Self {
            time: line.get("time")?.as_str()?.to_owned(),
            stream,
            text: line.get("log")?.as_str()?.to_owned(),
        })
    }

    pub(super) fn entry(&self) -> Entry<'_> {
        let whole = self.text.strip_suffix('\n');
        Entry {
            time: &self.time,
            stream: self.stream,
            partial: whole.is_none(),
            content: whole.unwrap_or(&self.text).as_bytes(),
        }
    }
}
