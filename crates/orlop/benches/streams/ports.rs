//! Bulk through a forwarded port.

use std::time::Instant;

use orlop_cri::v1::PortForwardRequest;
use orlop_stream::client::{Forward, Protocol, port_forward};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::carry::rate;
use crate::report::Report;
use crate::{Size, Subject, over};

/// What a server in the pod sends.
pub(crate) const THROUGHPUT: &str = "port-forward, SPDY";

pub(crate) async fn run(subject: &Subject, size: Size, report: &mut Report) {
    // The pod is in the host's network: its ports are this machine's.
    let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = target.local_addr().unwrap().port();
    let sender = tokio::spawn(async move {
        let (mut stream, _) = target.accept().await.unwrap();
        let block = vec![7; 1 << 20];
        for _ in 0..size.mib {
            stream.write_all(&block).await.unwrap();
        }
    });
    let request = PortForwardRequest {
        pod_sandbox_id: subject.pod.clone(),
        port: vec![i32::from(port)],
    };
    let answer = subject.cri.runtime.clone().port_forward(request).await;
    let url = answer.expect("an URL").into_inner().url;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let local = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let session = tokio::spawn({
        let (stop, forwards) = (stop.clone(), vec![Forward { listener, port }]);
        async move { port_forward(&url, &over(Protocol::Spdy), forwards, stop, |_| {}).await }
    });
    let start = Instant::now();
    let mut stream = TcpStream::connect(local).await.unwrap();
    let mut buffer = vec![0; 1 << 18];
    let mut count = 0;
    while count < size.mib << 20 {
        match stream.read(&mut buffer).await.expect("a connection") {
            0 => break,
            read => count += read,
        }
    }
    rate(THROUGHPUT, subject, count, start, report);
    assert_eq!(count, size.mib << 20, "bytes were lost");
    drop(stream);
    sender.await.unwrap();
    stop.cancel();
    session.await.unwrap().expect("ended by us");
}
