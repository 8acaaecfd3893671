//! Bidirectional streaming calls.

use std::future::poll_fn;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use h2::client::ResponseFuture;
use h2::{RecvStream, SendStream};
use http::HeaderMap;
use tokio::runtime::Runtime;
use tokio::time::{sleep, timeout};

use super::client::{HEAD, LARGEST, begin, connect, failed, framed, garbled, refusal};
use crate::error::{Error, Result};

/// How long one turn drives the connection; enough to respond to pending frames.
const TURN: Duration = Duration::from_millis(1);

/// A call in progress on its own connection, which is only driven during sends, receives and turns.
#[derive(Debug)]
pub(crate) struct Stream {
    reactor: Runtime,
    method: String,
    to: SendStream<Bytes>,
    from: From,
    heard: BytesMut,
}

#[derive(Debug)]
enum From {
    Nothing(ResponseFuture),
    Answering(RecvStream, HeaderMap),
    Ended,
}

impl Stream {
    pub(crate) fn open(socket: UnixStream, service: &str, method: &str) -> Result<Self> {
        let (reactor, requests) = connect(socket).map_err(|source| Error::Io {
            doing: format!("calling {method}"),
            source,
        })?;
        let (response, to) = reactor.block_on(begin(requests, service, method))?;
        Ok(Self {
            reactor,
            method: method.to_owned(),
            to,
            from: From::Nothing(response),
            heard: BytesMut::new(),
        })
    }

    pub(crate) fn send(&mut self, message: &[u8]) -> Result<()> {
        let mut message = framed(message);
        let (to, failed) = (&mut self.to, failed(&self.method));
        let gone = || Error::Failed("the peer closed the stream".into());
        self.reactor.block_on(async {
            while !message.is_empty() {
                to.reserve_capacity(message.len());
                // Waits for the receiver's window, so that data is not buffered here.
                let room = match to.capacity() {
                    0 => {
                        let room = poll_fn(|context| to.poll_capacity(context)).await;
                        room.ok_or_else(gone)?.map_err(&failed)?
                    }
                    room => room,
                };
                let part = message.split_to(room.min(message.len()));
                to.send_data(part, false).map_err(&failed)?;
            }
            Ok(())
        })
    }

    pub(crate) fn close(&mut self) -> Result<()> {
        let ended = self.to.send_data(Bytes::new(), true);
        ended.map_err(failed(&self.method))?;
        self.idle();
        Ok(())
    }

    pub(crate) fn receive(&mut self, limit: Option<Duration>) -> Result<Option<Vec<u8>>> {
        let Self {
            reactor,
            method,
            from,
            heard,
            ..
        } = self;
        let next = next(method, from, heard);
        reactor.block_on(async {
            match limit {
                Some(limit) => timeout(limit, next).await.unwrap_or_else(|_| {
                    Err(Error::Failed(format!(
                        "no message arrived within {limit:?}"
                    )))
                }),
                None => next.await,
            }
        })
    }

    /// Drives the connection for one turn.
    pub(crate) fn idle(&mut self) {
        self.reactor.block_on(async { sleep(TURN).await });
    }
}

async fn next(method: &str, from: &mut From, heard: &mut BytesMut) -> Result<Option<Vec<u8>>> {
    loop {
        if let Some(message) = whole(heard).map_err(|()| garbled(method))? {
            return Ok(Some(message));
        }
        match from {
            From::Nothing(response) => {
                let (head, body) = response.await.map_err(failed(method))?.into_parts();
                *from = From::Answering(body, head.headers);
            }
            From::Answering(body, head) => {
                if let Some(bytes) = body.data().await {
                    let bytes = bytes.map_err(failed(method))?;
                    let _ = body.flow_control().release_capacity(bytes.len());
                    heard.extend_from_slice(&bytes);
                    continue;
                }
                let trailers = body.trailers().await.map_err(failed(method))?;
                let told = refusal(method, trailers.as_ref().unwrap_or(head));
                *from = From::Ended;
                told?;
            }
            From::Ended => return Ok(None),
        }
    }
}

/// Returns the first message in the buffer, if it is complete.
fn whole(heard: &mut BytesMut) -> Result<Option<Vec<u8>>, ()> {
    let Some((&[flag, a, b, c, d], _)) = heard.split_first_chunk::<HEAD>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if flag != 0 || length > LARGEST {
        return Err(());
    }
    if heard.len() < HEAD + length {
        return Ok(None);
    }
    heard.advance(HEAD);
    Ok(Some(heard.split_to(length).to_vec()))
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::whole;

    #[test]
    fn messages_are_taken_apart_where_they_end() {
        let mut heard = BytesMut::from(&[0, 0, 0, 0, 2, 7, 8, 0, 0, 0, 0, 0, 0, 0][..]);
        assert_eq!(whole(&mut heard), Ok(Some(vec![7, 8])));
        assert_eq!(whole(&mut heard), Ok(Some(vec![])));
        assert_eq!(whole(&mut heard), Ok(None), "half a head");
        for garbled in [[1, 0, 0, 0, 1], [0, 0xff, 0, 0, 0]] {
            assert_eq!(whole(&mut BytesMut::from(&garbled[..])), Err(()));
        }
    }
}
