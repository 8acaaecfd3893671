//! Entry points for fuzzing: whole connections fed with arbitrary bytes. Not part of the public interface.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio_util::sync::CancellationToken;

use crate::copying::Output;
use crate::flow::{Limits, Role, Transport};
use crate::session::Resizes;
use crate::spdy::Connection;
use crate::ws::{Channels, Encoding};

const LIMITS: Limits = Limits {
    streams: 8,
    stream_bytes: 64 * 1024,
    connection_bytes: 128 * 1024,
    idle: Duration::from_secs(10),
};

/// Runs a SPDY connection, which must end when its peer does, whatever the peer has sent.
pub async fn spdy(data: &[u8]) {
    for role in [Role::Server, Role::Client] {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let mut connection = Connection::start(Transport::from_io(near), role, LIMITS);
        let closed = connection.closed().clone();
        let serve = async {
            while let Some(mut stream) = connection.accept().await {
                stream.accept();
                tokio::spawn(async move {
                    let mut output = Output::from(stream.output);
                    let _ = output.copy_from(&mut stream.input).await;
                });
            }
        };
        tokio::join!(feed(far, data, closed), serve);
    }
}

/// Runs a WebSocket connection, which must end when its peer does, whatever the peer has sent.
pub async fn websocket(data: &[u8]) {
    for role in [Role::Server, Role::Client] {
        for encoding in [Encoding::Binary, Encoding::Base64, Encoding::Tunnel] {
            let (near, far) = tokio::io::duplex(64 * 1024);
            let transport = Transport::from_io(near);
            let channels = Channels::start(transport, role, encoding, true, 5, LIMITS);
            let closed = channels.closed().clone();
            let mut echo = (channels.input(0), Output::from(channels.output(1)));
            let resizes = Resizes::read(channels.input(4));
            for channel in 1..4 {
                channels.discard(channel);
            }
            let serve = async move {
                let _ = echo.1.copy_from(&mut echo.0).await;
                drop(resizes);
            };
            tokio::join!(feed(far, data, closed), serve);
        }
    }
}

async fn feed(far: DuplexStream, data: &[u8], closed: CancellationToken) {
    let (mut reader, mut writer) = tokio::io::split(far);
    let send = async {
        // The connection may rightly close before the end of the data.
        let _ = writer.write_all(data).await;
        let _ = writer.shutdown().await;
        let ended = tokio::time::timeout(Duration::from_secs(10), closed.cancelled()).await;
        assert!(ended.is_ok(), "the connection outlived its peer");
    };
    let receive = async {
        let mut sunk = [0; 4096];
        while reader.read(&mut sunk).await.is_ok_and(|read| read > 0) {}
    };
    tokio::select! {
        () = send => {}
        () = async { receive.await; std::future::pending().await } => {}
    }
}
