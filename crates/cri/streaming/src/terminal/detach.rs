//! Detaching from a session by a key sequence, without ending its process.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::str::FromStr;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};
use tokio_util::sync::CancellationToken;

/// A key sequence. The default is that of other tools: ctrl-p, ctrl-q.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DetachKeys(Vec<u8>);

/// An invalid description of a key sequence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a key; use single characters or ctrl-LETTER, separated by commas")]
pub struct BadDetachKeys(String);

impl Default for DetachKeys {
    fn default() -> Self {
        Self(vec![control(b'p'), control(b'q')])
    }
}

impl FromStr for DetachKeys {
    type Err = BadDetachKeys;

    fn from_str(text: &str) -> Result<Self, BadDetachKeys> {
        let key = |name: &str| match (name.as_bytes(), name.strip_prefix("ctrl-")) {
            ([byte], _) => Ok(*byte),
            (_, Some(letter)) => match letter.as_bytes() {
                [byte @ (b'a'..=b'z' | b'@' | b'[' | b'\\' | b']' | b'^' | b'_')] => {
                    Ok(control(*byte))
                }
                _ => Err(BadDetachKeys(name.to_owned())),
            },
            _ => Err(BadDetachKeys(name.to_owned())),
        };
        text.split(',').map(key).collect::<Result<_, _>>().map(Self)
    }
}

fn control(key: u8) -> u8 {
    key & 0x1f
}

/// Input that is scanned for the key sequence. After the sequence, [`Detachable::detached`] is cancelled and reads
/// never complete: an end of input would be forwarded to the process.
pub struct Detachable<R> {
    inner: R,
    keys: DetachKeys,
    /// Number of keys matched so far, which are held back until the match is decided.
    matched: usize,
    /// Bytes to forward.
    passed: VecDeque<u8>,
    detached: CancellationToken,
}

impl<R> Detachable<R> {
    /// Scans `inner` for `keys`.
    pub fn new(inner: R, keys: DetachKeys) -> Self {
        let detached = CancellationToken::new();
        Self {
            inner,
            keys,
            matched: 0,
            passed: VecDeque::new(),
            detached,
        }
    }

    /// Returns a token that is cancelled after the key sequence.
    pub fn detached(&self) -> CancellationToken {
        self.detached.clone()
    }

    /// Processes typed bytes; returns whether the sequence is complete.
    fn sort(&mut self, typed: &[u8]) -> bool {
        let keys = &self.keys.0;
        for byte in typed {
            while self.matched > 0 && keys[self.matched] != *byte {
                // The keys held back belong to the process, up to the point where a new match could start.
                let held = self.matched;
                self.matched = (0..held)
                    .rev()
                    .find(|begun| keys[..*begun] == keys[held - begun..held])
                    .unwrap_or(0);
                self.passed.extend(&keys[..held - self.matched]);
            }
            if keys[self.matched] == *byte {
                self.matched += 1;
                if self.matched == keys.len() {
                    return true;
                }
            } else {
                self.passed.push_back(*byte);
            }
        }
        false
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for Detachable<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if !this.passed.is_empty() {
                let (first, _) = this.passed.as_slices();
                let taken = first.len().min(buf.remaining());
                buf.put_slice(&first[..taken]);
                this.passed.drain(..taken);
                return Poll::Ready(Ok(()));
            }
            if this.detached.is_cancelled() {
                return Poll::Pending;
            }
            let mut typed = [0; 4096];
            let mut typed = ReadBuf::new(&mut typed);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut typed))?;
            if typed.filled().is_empty() {
                // At the end of the input, the keys held back are not a full sequence.
                let held = std::mem::take(&mut this.matched);
                if held == 0 {
                    return Poll::Ready(Ok(()));
                }
                this.passed.extend(&this.keys.0[..held]);
            } else if this.sort(typed.filled()) {
                this.detached.cancel();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::io::AsyncReadExt;

    async fn pass(keys: &str, typed: &[&str]) -> (String, bool) {
        let keys = keys.parse().expect("keys");
        let (mut keyboard, inner) = tokio::io::duplex(100);
        let mut input = Detachable::new(inner, keys);
        let detached = input.detached();
        let mut text = String::new();
        for part in typed {
            tokio::io::AsyncWriteExt::write_all(&mut keyboard, part.as_bytes())
                .await
                .expect("room");
        }
        drop(keyboard);
        let whole = input.read_to_string(&mut text);
        // After detaching there is no end of input.
        let ended = tokio::time::timeout(Duration::from_millis(50), whole)
            .await
            .is_ok();
        assert_ne!(ended, detached.is_cancelled());
        (text, detached.is_cancelled())
    }

    #[tokio::test]
    async fn only_the_whole_sequence_detaches() {
        assert_eq!(
            pass("ctrl-p,ctrl-q", &["ls\r"]).await,
            ("ls\r".into(), false)
        );
        let (_, detached) = pass("ctrl-p,ctrl-q", &["ls\r\x10", "\x11never seen"]).await;
        assert!(detached);
        let twice = pass("ctrl-p,ctrl-q", &["\x10\x10a\x10"]).await;
        assert_eq!(twice, ("\x10\x10a\x10".into(), false));
        assert!(pass("ctrl-p,ctrl-q", &["\x10\x10\x11"]).await.1);
        assert!(pass("a,a,b", &["aaab"]).await.1);
        assert_eq!(pass("a,a,b", &["aac"]).await, ("aac".into(), false));
    }

    #[test]
    fn keys_are_described_as_in_other_tools() {
        assert_eq!("ctrl-p,ctrl-q".parse(), Ok(DetachKeys::default()));
        assert_eq!("x,ctrl-]".parse(), Ok(DetachKeys(vec![b'x', 0x1d])));
        for bad in ["", "ctrl-", "ctrl-P", "esc", "a,,b"] {
            assert!(bad.parse::<DetachKeys>().is_err(), "{bad}");
        }
    }
}
