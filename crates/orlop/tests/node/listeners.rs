//! Every listener of the daemon and of the agent, as clients meet it that say nothing.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use orlop_testkit::{Cri, Node};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::api::{address, status_of, trust};
use crate::world::{Agent, SOON, World, ask, world};

/// What an honest client waits for at most. Silent connections have ten seconds.
const PATIENCE: Duration = Duration::from_secs(4);

/// A listener as its clients know it.
struct Listener {
    name: &'static str,
    at: At,
    /// How many silent connections one client may have; none where each has a time of its own.
    limit: Option<usize>,
    /// Whether a connection that says nothing is closed by itself within ten seconds.
    is_timed: bool,
}

enum At {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl At {
    /// A connection that says nothing.
    fn connect(&self) -> Box<dyn Read + Send> {
        match self {
            Self::Tcp(address) => {
                let stream = TcpStream::connect(address).expect("connect");
                stream.set_nonblocking(true).unwrap();
                Box::new(stream)
            }
            Self::Unix(path) => {
                let stream = UnixStream::connect(path).expect("connect");
                stream.set_nonblocking(true).unwrap();
                Box::new(stream)
            }
        }
    }

    fn tcp(&self) -> SocketAddr {
        match self {
            Self::Tcp(address) => *address,
            Self::Unix(path) => panic!("{} is no address", path.display()),
        }
    }
}

/// The same from another address of this machine.
fn from_elsewhere(to: SocketAddr) -> Box<dyn Read + Send> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 2), 0)).unwrap();
    connect(&socket, &to).expect("connect");
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true).unwrap();
    Box::new(stream)
}

/// Whether the server has not closed a connection.
fn is_open(connection: &mut (dyn Read + Send)) -> bool {
    loop {
        match connection.read(&mut [0; 64]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == ErrorKind::WouldBlock,
        }
    }
}

/// The status of an answer over plain HTTP.
fn status(to: SocketAddr, path: &str, host: &str) -> u16 {
    let mut stream = TcpStream::connect(to).expect("connect");
    stream.set_read_timeout(Some(SOON)).unwrap();
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {answer:?}"))
}

/// A port that is free at the moment.
fn free_port() -> u16 {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    free.local_addr().unwrap().port()
}

fn local(port: u16) -> At {
    At::Tcp((Ipv4Addr::LOCALHOST, port).into())
}

/// Lets this test have a thousand connections.
fn raise_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let higher = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, higher).unwrap();
}

/// Where the runtime serves streams: its URLs say so.
async fn streaming(world: &World, agent: &mut Agent) -> SocketAddr {
    let pod = agent.ready("a-n1").await;
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str();
    let id = id.and_then(|id| id.split("://").nth(1)).expect("an id");
    let request = orlop_cri_api::v1::AttachRequest {
        container_id: id.to_owned(),
        stdout: true,
        ..Default::default()
    };
    let answer = world.cri.runtime().attach(request).await;
    let url = answer.expect("an URL").into_inner().url;
    let address = url
        .strip_prefix("http://")
        .and_then(|it| it.split('/').next());
    address.and_then(|it| it.parse().ok()).expect(&url)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_say_nothing_keep_no_other_from_any_listener() {
    orlop_testkit::skip_unless!(orlop_testkit::machine::can_run_pods());
    raise_descriptors();
    let (metrics, page, read_only, health) = (free_port(), free_port(), free_port(), free_port());
    let node = Node::orlop().drop_in(&format!(
        "[grpc]\nmax_connections = 64\n[nri]\nregistration_timeout = \"5s\"\n\
         [metrics]\nlisten = \"127.0.0.1:{metrics}\"\n[web]\nlisten = \"127.0.0.1:{page}\"\n"
    ));
    let world = World::on(node).await;
    world.write("a.yaml", &world.sleeper("a", "hostNetwork: true", ""));
    let mut agent = world.agent(&[
        "--anonymous-auth",
        &format!("--read-only-port={read_only}"),
        &format!("--healthz-port={health}"),
    ]);
    let https = address(&agent).await;
    let streams = streaming(&world, &mut agent).await;
    let tls = trust(&agent, None);
    let listener = |name, at, limit, is_timed| Listener {
        name,
        at,
        limit,
        is_timed,
    };
    let cri = At::Unix(world.node.socket());
    let control = At::Unix(agent.socket.clone());
    let plugins = At::Unix(world.node.scratch().run().join("nri.sock"));
    let listeners = [
        listener("cri", cri, Some(32), false),
        // It has thirty seconds.
        listener("streams", At::Tcp(streams), Some(512), false),
        listener("metrics", local(metrics), Some(8), true),
        listener("page", local(page), Some(16), true),
        listener("plugins", plugins, None, true),
        listener("agent's https", At::Tcp(https), Some(256), true),
        listener("agent's read-only", local(read_only), Some(256), true),
        listener("agent's health", local(health), Some(256), true),
        listener("agent's control", control, Some(256), true),
    ];
    for Listener {
        name, at, limit, ..
    } in &listeners
    {
        let Some(limit) = limit else { continue };
        let mut silent: Vec<_> = (0..2 * limit).map(|_| at.connect()).collect();
        let begin = Instant::now();
        let answered = match *name {
            "cri" => {
                let client = Cri::connect(&world.node.socket()).await.expect("connect");
                client.version().await.is_ok()
            }
            "streams" => status(at.tcp(), "/exec/none", "node") == 404,
            "metrics" => status(at.tcp(), "/metrics", "localhost") == 200,
            "page" => status(at.tcp(), "/", "localhost") == 401,
            "agent's https" => status_of(https, &tls, "/pods", "") == 200,
            "agent's control" => ask(&agent.socket, "GET", "/healthz", "").0 == 200,
            _ => status(at.tcp(), "/healthz", "localhost") == 200,
        };
        let took = begin.elapsed();
        assert!(answered && took < PATIENCE, "{name}: {answered}, {took:?}");
        // The tasks that serve them close them a moment later, and long before their ten seconds are over.
        while silent.len() > *limit {
            let open = silent.len();
            assert!(begin.elapsed() < 2 * PATIENCE, "{name}: {open} of {limit}");
            tokio::time::sleep(Duration::from_millis(20)).await;
            silent.retain_mut(|it| is_open(&mut **it));
        }
        let open = silent.len();
        assert!(open >= limit / 2, "{name}: {open} of {limit} stay");
    }
    // Names that lead here for an attack.
    for (port, path) in [(metrics, "/metrics"), (page, "/"), (read_only, "/pods")] {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let status = status(at, path, "evil.example");
        assert_eq!(status, 421, "{path}");
    }
    let timed: Vec<_> = listeners.iter().filter(|it| it.is_timed).collect();
    let mut silent: Vec<_> = timed.iter().map(|it| it.at.connect()).collect();
    let begin = Instant::now();
    for (listener, connection) in timed.iter().zip(&mut silent) {
        while is_open(&mut **connection) {
            let waited = begin.elapsed();
            assert!(waited < Duration::from_secs(15), "{}", listener.name);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
    agent.finish(&world).await;
    world.finish().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn seven_hundred_silent_connections_do_not_keep_an_authorised_client_waiting() {
    let world = world!();
    raise_descriptors();
    let tokens = world.node.scratch().path("tokens.csv");
    std::fs::write(&tokens, "s3cret,ann,1\n").unwrap();
    let agent = world.agent(&["--token-auth-file", tokens.to_str().unwrap()]);
    let https = address(&agent).await;
    let tls = trust(&agent, None);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut connections: Vec<_> = (0..700).map(|_| from_elsewhere(https)).collect();
        let over = &over;
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                for connection in &mut connections {
                    if !is_open(&mut **connection) {
                        *connection = from_elsewhere(https);
                    }
                }
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        let _ends = Ends(over);
        for _ in 0..5 {
            let begin = Instant::now();
            let token = "Authorization: Bearer s3cret\r\n";
            assert_eq!(status_of(https, &tls, "/pods", token), 200);
            let took = begin.elapsed();
            assert!(took < PATIENCE, "{took:?}");
        }
    });
    agent.stop();
    world.finish().await;
}

/// Ends the other thread, a test that fails notwithstanding.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
