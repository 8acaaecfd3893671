//! The connections of all listeners as one limited stream for tonic.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::stream::{self, Stream, StreamExt, select_all};
use orlop_listen::{Connection, Connections, Listener, Slot, enter};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::UCred;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use crate::rpc::Peer;
use crate::serve::authority::Reading;

/// Returns the connections of all listeners, within the limits. At the limit, a new connection [closes](Connections)
/// one without calls. If there is none it waits, all but one per listener in the kernel's queue. A request that arrives
/// on a connection as it closes gets no response: gRPC libraries report `UNAVAILABLE`. After `stop` it accepts no more,
/// but the stream never ends, so that tonic does not stop before the open connections are served.
pub(super) fn incoming(
    listeners: Vec<Listener>,
    connections: Arc<Connections>,
    stop: CancellationToken,
) -> impl Stream<Item = Result<Client, Infallible>> {
    let clients = select_all(listeners.into_iter().map(move |listener| {
        let connections = Arc::clone(&connections);
        stream::unfold((listener, connections), async |(listener, connections)| {
            let entered = enter(&listener, &connections, "cannot accept a connection");
            let (connection, slot) = entered.await;
            let activity = slot.activity();
            let client = Client {
                lost: Box::pin(activity.closed()),
                peer: Peer::new(credentials(&connection), activity.clone()),
                slot,
                connection,
                reading: Reading::new(),
            };
            Some((Ok(client), (listener, connections)))
        })
        .boxed()
    }));
    let stopped = stop.cancelled_owned();
    clients.take_until(stopped).chain(stream::pending())
}

/// Returns the credentials of the client.
fn credentials(connection: &Connection) -> Option<UCred> {
    match connection {
        Connection::Unix(stream) => stream.peer_cred().ok(),
        Connection::Tcp(_) => None,
    }
}

/// A connection with its slot in the connection limit.
#[derive(Debug)]
pub(super) struct Client {
    connection: Connection,
    reading: Reading,
    peer: Peer,
    slot: Slot,
    /// Resolves when the slot is closed, for writers. The slot wakes only readers.
    lost: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Client {
    /// Fails if the connection is to close. Writers must check it: if a client does not read, its socket is full, and
    /// the server may wait in a write.
    fn poll_there(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        match self.lost.as_mut().poll(context) {
            Poll::Ready(()) => Err(io::ErrorKind::BrokenPipe.into()),
            Poll::Pending => Ok(()),
        }
    }
}

impl Connected for Client {
    type ConnectInfo = Peer;

    fn connect_info(&self) -> Peer {
        self.peer.clone()
    }
}

impl AsyncRead for Client {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.slot.poll_closed(context).is_ready() {
            // The server sees the end of the stream, as if the client had left.
            return Poll::Ready(Ok(()));
        }
        this.reading
            .poll_read(&mut this.connection, context, buffer)
    }
}

impl AsyncWrite for Client {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_there(context)?;
        Pin::new(&mut self.connection).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_there(context)?;
        Pin::new(&mut self.connection).poll_write_vectored(context, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.connection.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_there(context)?;
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_there(context)?;
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}
