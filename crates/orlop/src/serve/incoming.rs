//! The connections of all listeners as one bounded stream, as tonic takes them.

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

/// The connections that come to any of the listeners, within their limits: a further one has one without
/// calls [closed](Connections), else it waits, all but one per listener in the kernel's queue. A request that is on its way to a connection
/// while that is taken away is not answered: gRPC's libraries say `UNAVAILABLE` to who sent it. Told to stop it listens no more, and
/// goes on without end: it is not for it to say when those that it let in have been served.
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

/// Who is at the other end.
fn credentials(connection: &Connection) -> Option<UCred> {
    match connection {
        Connection::Unix(stream) => stream.peer_cred().ok(),
        Connection::Tcp(_) => None,
    }
}

/// A connection, with its slot among the connections.
#[derive(Debug)]
pub(super) struct Client {
    connection: Connection,
    reading: Reading,
    peer: Peer,
    slot: Slot,
    /// As the slot tells those who read; who writes need not be woken with them.
    lost: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl Client {
    /// A client that does not read has its socket full: who writes would not come to read that it is to leave.
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
            // To who serves it, the client has left.
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
