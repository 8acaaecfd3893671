//! Sessions over the streaming server: both protocols, in the clear and by TLS.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use orlop_cri_api::v1::{AttachRequest, ExecRequest, PortForwardRequest};
use orlop_streaming::client::{
    ClientOptions, ClientStreams, Forward, Protocol, attach, exec, port_forward,
};
use orlop_testkit::{Authority, DockerEngine, Scratch};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::world::{World, world};

const PROTOCOLS: [Protocol; 2] = [Protocol::Spdy, Protocol::WebSocket];
const SOON: Duration = Duration::from_secs(30);

/// Runs a command with this input; answers what it printed to both streams, and its exit code.
async fn run(
    world: &World,
    options: &ClientOptions,
    id: &str,
    command: &[&str],
    input: &'static [u8],
) -> (String, String, i32) {
    let request = ExecRequest {
        container_id: id.to_owned(),
        cmd: command.iter().map(ToString::to_string).collect(),
        stdin: true,
        stdout: true,
        stderr: true,
        tty: false,
    };
    let answer = world.cri.runtime().exec(request).await.unwrap();
    let url = answer.into_inner().url;
    assert_eq!(url.starts_with("https:"), options.tls.is_some(), "{url}");
    let (stdout, mut out) = duplex(1 << 20);
    let (stderr, mut err) = duplex(1 << 20);
    let streams = ClientStreams {
        stdin: Some(Box::new(input)),
        stdout: Some(Box::new(stdout)),
        stderr: Some(Box::new(stderr)),
        resize: None,
    };
    let code = tokio::time::timeout(SOON, exec(&url, options, streams)).await;
    let code = code.expect("it ends").unwrap();
    let (mut stdout, mut stderr) = (String::new(), String::new());
    out.read_to_string(&mut stdout).await.unwrap();
    err.read_to_string(&mut stderr).await.unwrap();
    (stdout, stderr, code)
}

/// All that a client can ask for, over both protocols.
async fn sessions(world: &World, tls: Option<Arc<rustls::ClientConfig>>) {
    let pod = world.node.pod("streams").own_network();
    let pod_id = world.cri.run_pod(&pod).await.unwrap();
    let script = "mkdir /www; echo page > /www/index.html; httpd -p 80 -h /www; \
                  while read line; do echo got $line; done; sleep 1000";
    let spec = world.container("main").shell(script);
    let spec = spec.with(|config| config.stdin = true);
    let id = world.cri.run(&pod_id, &pod, &spec).await.unwrap();
    for protocol in PROTOCOLS {
        let options = ClientOptions {
            protocol,
            tls: tls.clone(),
            ..ClientOptions::default()
        };
        let script = "cat; echo oops >&2; exit 5";
        let ended = run(world, &options, &id, &["sh", "-c", script], b"words\n").await;
        assert_eq!(
            ended,
            ("words\n".into(), "oops\n".into(), 5),
            "{protocol:?}"
        );
        attached(world, &options, &id).await;
        forwarded(world, &options, &pod_id).await;
    }
}

async fn attached(world: &World, options: &ClientOptions, id: &str) {
    let request = AttachRequest {
        container_id: id.to_owned(),
        stdin: true,
        stdout: true,
        stderr: true,
        tty: false,
    };
    let answer = world.cri.runtime().attach(request).await.unwrap();
    let (stdin, mut say) = duplex(1024);
    let (stdout, mut heard) = duplex(1024);
    let streams = ClientStreams {
        stdin: Some(Box::new(stdin)),
        stdout: Some(Box::new(stdout)),
        stderr: Some(Box::new(tokio::io::sink())),
        resize: None,
    };
    let url = answer.into_inner().url;
    let session = attach(&url, options, streams);
    let talk = async {
        say.write_all(b"hello\n").await.unwrap();
        let mut answer = [0; 10];
        heard.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"got hello\n", "{:?}", options.protocol);
    };
    let talk = tokio::time::timeout(SOON, talk);
    tokio::select! {
        ended = session => panic!("the session ended: {ended:?}"),
        heard = talk => heard.expect("an answer"),
    }
}

async fn forwarded(world: &World, options: &ClientOptions, pod_id: &str) {
    let request = PortForwardRequest {
        pod_sandbox_id: pod_id.to_owned(),
        port: vec![80],
    };
    let answer = world.cri.runtime().port_forward(request).await;
    let url = answer.unwrap().into_inner().url;
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
    let listener = listener.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let forwards = vec![Forward { listener, port: 80 }];
    let session = port_forward(&url, options, forwards, stop.clone(), |_| {});
    let ask = async {
        let mut socket = tokio::net::TcpStream::connect(address).await.unwrap();
        socket.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
        let mut page = String::new();
        let reading = tokio::time::timeout(SOON, socket.read_to_string(&mut page));
        reading.await.expect("an end").unwrap();
        assert!(page.ends_with("page\n"), "{:?}: {page}", options.protocol);
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(session, ask);
    ended.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_both_protocols_are_served() {
    let world = world!();
    Box::pin(sessions(&world, None)).await;
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarded_port_of_the_node_is_let_go_of_with_the_pod() {
    let world = world!();
    let (_, pod_id, _) = world.run_script("near", "sleep 86400").await;
    let listening = async || {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await;
        listener.unwrap()
    };
    let (service, listener) = (listening().await, listening().await);
    let (port, address) = (service.local_addr().unwrap().port(), listener.local_addr());
    let request = PortForwardRequest {
        pod_sandbox_id: pod_id.clone(),
        port: vec![port.into()],
    };
    let answer = world.cri.runtime().port_forward(request).await;
    let url = answer.unwrap().into_inner().url;
    let stop = CancellationToken::new();
    let until = stop.clone();
    let session = tokio::spawn(async move {
        let forwards = vec![Forward { listener, port }];
        port_forward(&url, &ClientOptions::default(), forwards, until, |_| {}).await
    });
    let mut client = TcpStream::connect(address.unwrap()).await.unwrap();
    let (mut served, _) = service.accept().await.unwrap();
    served.write_all(b"hello").await.unwrap();
    let mut said = [0; 5];
    client.read_exact(&mut said).await.unwrap();

    world.cri.stop_pod(&pod_id).await.unwrap();
    let ended = tokio::time::timeout(SOON, client.read(&mut said)).await;
    let ended = ended.expect("it goes on");
    assert!(ended.is_err() || ended.is_ok_and(|count| count == 0));
    stop.cancel();
    session.await.unwrap().unwrap();
    world.node.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_of_both_protocols_are_served_by_tls() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::has_program("openssl"));
    let files = Scratch::new();
    let authority = Authority::new(files.dir(), "authority");
    let server = authority.issue("server", "IP:127.0.0.1");
    let config = format!(
        "[streaming]\ntls_cert = \"{}\"\ntls_key = \"{}\"",
        server.certificate.display(),
        server.key.display()
    );
    let world = world!(DockerEngine::start(), &config);
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(authority.certificate()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Box::pin(sessions(&world, Some(Arc::new(client)))).await;
    world.node.finish().await;
}
