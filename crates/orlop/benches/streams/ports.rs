//! Bulk through a forwarded port.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use orlop_cri_api::v1::PortForwardRequest;
use orlop_streaming::client::{Forward, Protocol, port_forward};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::carry::rate;
use crate::report::Report;
use crate::{Size, Subject, bare, cpu, over};

/// What a server in the pod sends, up to the client's socket.
pub(crate) const THROUGHPUT: &str = "port-forward";

/// What that takes of the runtime's processor time.
const CPU: &str = "its CPU per GiB";

/// The same through our own client and its local port.
const BY_CLIENT: &str = "port-forward, to a local port";

pub(crate) async fn run(subject: &Subject, size: Size, report: &mut Report) {
    let bytes = size.mib << 20;
    let (url, port, sender) = served(subject, bytes).await;
    let before = spent(subject);
    let start = Instant::now();
    let reader = tokio::task::spawn_blocking(move || {
        let mut session = bare::Session::open(&url, port)?;
        session.drain(bytes)
    });
    let count = reader.await.unwrap().expect("a connection");
    rate(THROUGHPUT, subject, count, start, report);
    assert_eq!(count, bytes, "bytes were lost");
    sender.await.unwrap();
    let per_gib = spent(subject)
        .saturating_sub(before)
        .mul_f64(1024.0 / size.mib as f64);
    report.time(CPU, subject.name, per_gib);
    by_client(subject, bytes, report).await;
}

async fn by_client(subject: &Subject, bytes: usize, report: &mut Report) {
    let (url, port, sender) = served(subject, bytes).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
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
    while count < bytes {
        match stream.read(&mut buffer).await.expect("a connection") {
            0 => break,
            read => count += read,
        }
    }
    rate(BY_CLIENT, subject, count, start, report);
    assert_eq!(count, bytes, "bytes were lost");
    drop(stream);
    sender.await.unwrap();
    stop.cancel();
    session.await.unwrap().expect("ended by us");
}

/// A server in the pod, and where its port is forwarded.
async fn served(subject: &Subject, bytes: usize) -> (String, u16, tokio::task::JoinHandle<()>) {
    // The pod is in the host's network: its ports are this machine's.
    let target = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = target.local_addr().unwrap().port();
    let sender = tokio::task::spawn_blocking(move || bare::send(&target, bytes).expect("sent"));
    let request = PortForwardRequest {
        pod_sandbox_id: subject.pod.clone(),
        port: vec![i32::from(port)],
    };
    let answer = subject.cri.runtime.clone().port_forward(request).await;
    (answer.expect("an URL").into_inner().url, port, sender)
}

fn spent(subject: &Subject) -> Duration {
    cpu::of_process(subject.node.pid()).expect("it runs")
}
