//! Tests with a peer that acts as systemd on its bus.

use std::io::BufRead;
use std::io::BufReader;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use orlop_testkit::process::Killed;

use super::super::properties::{self, Property, Value};
use super::*;

const PATIENCE: Duration = Duration::from_secs(10);

const BUS: Call<'static> = Call {
    destination: "org.freedesktop.DBus",
    path: "/org/freedesktop/DBus",
    interface: "org.freedesktop.DBus",
    method: "",
};

/// A bus of the test, which validates every message completely.
struct Bus {
    _daemon: Killed,
    address: Address,
    _dir: tempfile::TempDir,
}

impl Bus {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("bus");
        let config = dir.path().join("bus.conf");
        let text = format!(
            "<busconfig><listen>unix:path={}</listen><policy context=\"default\">\
             <allow send_destination=\"*\" eavesdrop=\"true\"/><allow receive_sender=\"*\"/><allow own=\"*\"/></policy></busconfig>",
            socket.display()
        );
        std::fs::write(&config, text).unwrap();
        let mut daemon = Command::new("dbus-daemon")
            .args([
                "--nofork",
                "--nosyslog",
                "--print-address=1",
                "--config-file",
            ])
            .arg(config)
            .stdout(Stdio::piped())
            .spawn()
            .expect("dbus-daemon is needed for this test");
        // It prints its address once it listens.
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        Self {
            _daemon: Killed(daemon),
            address: Address::Bus(socket),
            _dir: dir,
        }
    }

    fn connect(&self) -> Connection {
        Connection::open(&self.address, PATIENCE).unwrap()
    }
}

#[test]
fn a_real_bus_answers() {
    let bus = Bus::start();
    let mut connection = bus.connect();
    let mut body = Body::new("s");
    body.text("org.freedesktop.DBus");
    let owner = connection.call(
        &Call {
            method: "GetNameOwner",
            ..BUS
        },
        &body,
    );
    assert_eq!(owner, Ok(Some("org.freedesktop.DBus".to_owned())));
    let mut body = Body::new("s");
    body.text("nobody.here");
    let error = connection
        .call(
            &Call {
                method: "GetNameOwner",
                ..BUS
            },
            &body,
        )
        .unwrap_err();
    orlop_testkit::assert_contains!(error, "nobody.here", "NameHasNoOwner");
}

/// A bus disconnects a client that sends a malformed message.
#[test]
fn calls_to_systemd_are_well_formed() {
    let bus = Bus::start();
    let mut connection = bus.connect();
    let all = [
        Property::new("Delegate", Value::Bool(true)),
        Property::new("PIDs", Value::Numbers(vec![1, 2, 3])),
        Property::new("Slice", Value::Text("a.slice".into())),
        Property::new("MemoryMax", Value::Number(u64::MAX)),
        Property::new("AllowedCPUs", Value::Bytes(vec![3])),
        Property::new("LogRateLimitBurst", Value::Short(7)),
        Property::new("After", Value::Texts(vec!["a.service".into(), "b".into()])),
        Property::new("KillSignal", Value::SignedShort(-1)),
        Property::new("Nice", Value::Signed(-5)),
        Property::new("Share", Value::Real(0.5)),
        Property::new("DeviceAllow", Value::Pairs(Vec::new())),
        Property::new(
            "DeviceAllow",
            Value::Pairs(vec![
                ("char-*".into(), "m".into()),
                ("/dev/char/1:3".into(), "rwm".into()),
            ]),
        ),
    ];
    for count in 0..=all.len() {
        let mut body = Body::new("ssa(sv)a(sa(sv))");
        body.text("x.scope");
        body.text("replace");
        properties::write(&mut body, &all[..count]);
        body.array(8, |_| {});
        let call = Call {
            destination: "org.freedesktop.systemd1",
            path: "/org/freedesktop/systemd1",
            interface: "org.freedesktop.systemd1.Manager",
            method: "StartTransientUnit",
        };
        let error = connection.call(&call, &body).unwrap_err();
        assert!(error.contains("ServiceUnknown"), "{count}: {error}");
    }
}

/// Runs a scripted peer.
fn peer(
    path: &Path,
    play: impl FnOnce(UnixStream) + Send + 'static,
) -> std::thread::JoinHandle<()> {
    let listener = UnixListener::bind(path).unwrap();
    std::thread::spawn(move || play(listener.accept().unwrap().0))
}

/// systemd waits for more data if the first call comes with the end of the authentication.
#[test]
fn the_login_is_over_before_the_first_call() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("systemd");
    let systemd = peer(&path, |mut stream| {
        let mut said = Vec::new();
        while !said.ends_with(b"BEGIN\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            said.extend(byte);
        }
        stream.write_all(b"OK 68500b003d8b\r\n").unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
    });
    let mut connection = Connection::open(&Address::Peer(path), PATIENCE).unwrap();
    let error = connection.call(&BUS, &Body::new("")).unwrap_err();
    assert!(error.contains("closed the connection"), "{error}");
    systemd.join().unwrap();
}

#[test]
fn the_sockets_of_an_address_are_found() {
    for (text, found) in [
        ("unix:path=/run/user/1000/bus", &["/run/user/1000/bus"][..]),
        (
            "unix:abstract=/tmp/x;unix:guid=7,path=/a%20b%2c;tcp:host=here",
            &["/a b,"],
        ),
        ("unix:path=/a%2", &[]),
        ("unix:path=/a%zz;unix:path=/b", &["/b"]),
        ("", &[]),
    ] {
        let all: Vec<_> = addresses(text).collect();
        let found: Vec<_> = found.iter().map(PathBuf::from).collect();
        assert_eq!(all, found, "{text}");
    }
}

/// A process in a user namespace has another user ID outside. This test runs itself again inside one.
#[test]
fn a_bus_takes_who_is_in_a_user_namespace_for_who_it_is() {
    if let Some(socket) = std::env::var_os("ORLOP_TEST_BUS") {
        assert_eq!(rustix::process::geteuid().as_raw(), 12345);
        let mut connection = Connection::open(&Address::Bus(socket.into()), PATIENCE).unwrap();
        let call = Call {
            method: "GetId",
            ..BUS
        };
        assert!(connection.call(&call, &Body::new("")).unwrap().is_some());
        return;
    }
    let bus = Bus::start();
    let Address::Bus(socket) = &bus.address else {
        panic!("a peer")
    };
    let within = |program: &std::path::Path| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-user=12345"]).arg(program);
        command
    };
    let can = within(Path::new("true")).output().unwrap();
    if !can.status.success() {
        let why = String::from_utf8_lossy(&can.stderr).into_owned();
        orlop_testkit::skip!("there are no user namespaces here: {why}");
    }
    let mut again = within(&std::env::current_exe().unwrap());
    again.args(["--exact", &orlop_testkit::machine::test_name()]);
    let said = again.env("ORLOP_TEST_BUS", socket).output().unwrap();
    let out = String::from_utf8_lossy(&said.stdout);
    assert!(said.status.success() && out.contains("1 passed"), "{out}");
}

#[test]
fn a_refused_login_and_a_silent_peer_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("refuses");
    let refuses = peer(&path, |mut stream| {
        // A peer that hangs up before it is asked is another case.
        let _ = stream.read(&mut [0; 256]).unwrap();
        stream.write_all(b"REJECTED EXTERNAL\r\n").unwrap();
    });
    let error = Connection::open(&Address::Peer(path), PATIENCE)
        .unwrap_err()
        .to_string();
    assert!(error.contains("REJECTED"), "{error}");
    refuses.join().unwrap();

    let path = dir.path().join("silent");
    let silent = peer(&path, |mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let start = Instant::now();
    let error = Connection::open(&Address::Peer(path), Duration::from_millis(100)).unwrap_err();
    assert!(error.to_string().contains("no response"), "{error}");
    assert!(start.elapsed() < PATIENCE);
    silent.join().unwrap();
}
