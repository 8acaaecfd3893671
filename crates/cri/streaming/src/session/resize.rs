//! Terminal size of the client.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::AsyncReadExt;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::flow::Input;

/// Maximum length of a size message.
const MAX_MESSAGE: usize = 1024;

/// The size of a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TerminalSize {
    /// Number of columns.
    #[serde(rename = "Width", alias = "width")]
    pub width: u16,
    /// Number of rows.
    #[serde(rename = "Height", alias = "height")]
    pub height: u16,
}

/// The sizes that a client reports. Only the latest one is kept.
pub struct Resizes {
    sizes: watch::Receiver<Option<TerminalSize>>,
    _reader: AbortOnDropHandle<()>,
}

impl Resizes {
    pub(crate) fn read(input: Input) -> Self {
        let (sender, sizes) = watch::channel(None);
        let reader = AbortOnDropHandle::new(tokio::spawn(read_sizes(input, sender)));
        Self {
            sizes,
            _reader: reader,
        }
    }

    /// Waits for a new size; `None` when no more can come.
    pub async fn next(&mut self) -> Option<TerminalSize> {
        loop {
            self.sizes.changed().await.ok()?;
            if let Some(size) = *self.sizes.borrow_and_update() {
                return Some(size);
            }
        }
    }

    /// Waits at most `patience` for the first size. Clients send it right after setup, and a process should have it
    /// from the start.
    pub async fn first(&mut self, patience: Duration) -> Option<TerminalSize> {
        tokio::time::timeout(patience, self.next())
            .await
            .ok()
            .flatten()
    }
}

async fn read_sizes(mut input: Input, sizes: watch::Sender<Option<TerminalSize>>) {
    let mut text = Vec::new();
    let mut buffer = [0; 512];
    while let Ok(read) = input.read(&mut buffer).await {
        if read == 0 || text.len() + read > MAX_MESSAGE + buffer.len() {
            break;
        }
        text.extend(&buffer[..read]);
        let mut values = serde_json::Deserializer::from_slice(&text).into_iter::<TerminalSize>();
        let newest = values.by_ref().map_while(Result::ok).last();
        let used = values.byte_offset();
        text.drain(..used);
        if newest.is_some() && sizes.send(newest).is_err() {
            break;
        }
        if text.len() > MAX_MESSAGE {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::{Budget, End, Inbox};

    #[tokio::test]
    async fn sizes_are_read_however_they_are_cut() {
        let inbox = Inbox::new(Budget::new(4096), 4096);
        let mut resizes = Resizes::read(Input::new(inbox.clone(), None));
        inbox.deliver(b"{\"Width\":80,\"Hei").await;
        assert_eq!(resizes.first(Duration::from_millis(30)).await, None);
        inbox.deliver(b"ght\":24}\n").await;
        let first = resizes.first(Duration::from_secs(5)).await;
        assert_eq!(
            first,
            Some(TerminalSize {
                width: 80,
                height: 24
            })
        );
        inbox
            .deliver(b"{\"Width\":1,\"Height\":1}{\"Width\":2,\"Height\":2}\n")
            .await;
        assert_eq!(
            resizes.next().await,
            Some(TerminalSize {
                width: 2,
                height: 2
            })
        );
        inbox.end(End::Eof);
        assert_eq!(resizes.next().await, None);
    }

    #[tokio::test]
    async fn nonsense_ends_the_reading_not_the_session() {
        let inbox = Inbox::new(Budget::new(8192), 8192);
        let mut resizes = Resizes::read(Input::new(inbox.clone(), None));
        inbox.deliver(&[b'x'; 4096]).await;
        assert_eq!(resizes.next().await, None);
    }
}
