//! Bulk through a forwarded port.

use std::time::{Duration, Instant};

use orlop_cri::v1::PortForwardRequest;
use orlop_stream::client::{Forward, Protocol, port_forward};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::carry::rate;
use crate::report::Report;
use crate::{Size, Subject, cpu, over};

/// What a server in the pod sends.
pub(crate) const THROUGHPUT: &str = "port-forward, SPDY";

/// What that takes of the server's processor time.
const CPU: &str = "its CPU per GiB";

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
    let spent = |so_far: Duration| {
        let now = cpu::of_process(subject.node.pid()).expect("it runs");
        now.saturating_sub(so_far)
    };
    let before = spent(Duration::ZERO);
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
    let per_gib = spent(before).mul_f64(1024.0 / size.mib as f64);
    report.time(CPU, subject.name, per_gib);
    drop(stream);
    sender.await.unwrap();
    stop.cancel();
    session.await.unwrap().expect("ended by us");
}

/// The promise, where these results break it. A client and a server on one machine share its
/// memory's speed: where that is the limit, half of the processor time is as good.
pub(crate) fn broken(report: &Report) -> Option<String> {
    let of = |row, subject| report.median(row, subject);
    let (ours, theirs) = (of(THROUGHPUT, "orlop")?, of(THROUGHPUT, "containerd")?);
    let (our_cpu, their_cpu) = (of(CPU, "orlop")?, of(CPU, "containerd")?);
    (ours < 2.0 * theirs && our_cpu > their_cpu / 2.0).then(|| {
        format!(
            "{THROUGHPUT}: {ours:.0} MB/s for {our_cpu:.0} ms of CPU, promised twice \
             containerd's {theirs:.0} or half of its {their_cpu:.0} ms"
        )
    })
}
