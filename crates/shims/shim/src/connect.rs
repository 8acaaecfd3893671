//! Connecting to a task server: at a unix socket, or in a guest by vsock. Some VM monitors expose vsock as a unix
//! socket (*hybrid*), where the first line selects the port.

use std::io::{self, Read, Write};
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::thread::sleep;
use std::time::Duration;

use crate::endpoint::{Endpoint, Guest};

/// Timeout of the monitor's answer to the first line.
const LIMIT: Duration = Duration::from_secs(5);
/// How often to retry, and the pause: a monitor closes the connection while its guest does not listen yet.
const TRIES: usize = 10;
const PAUSE: Duration = Duration::from_millis(200);
/// Maximum length of a monitor's answer, "OK" and a port.
const LONGEST_ANSWER: usize = 64;

/// Connects. The returned stream socket may have another address family; it is only used for reading and writing.
pub(crate) fn connect(endpoint: &Endpoint) -> io::Result<UnixStream> {
    match endpoint.guest {
        None => UnixStream::connect(&endpoint.socket),
        Some(Guest {
            cid: Some(cid),
            port,
        }) => vsock(cid, port),
        Some(Guest { cid: None, port }) => {
            for _ in 1..TRIES {
                match hybrid(endpoint, port) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => sleep(PAUSE),
                    done => return done,
                }
            }
            hybrid(endpoint, port)
        }
    }
}

fn hybrid(endpoint: &Endpoint, port: u32) -> io::Result<UnixStream> {
    let mut socket = UnixStream::connect(&endpoint.socket)?;
    socket.set_read_timeout(Some(LIMIT))?;
    socket.set_write_timeout(Some(LIMIT))?;
    writeln!(socket, "CONNECT {port}")?;
    let mut answer = Vec::new();
    // Read by single bytes, because data after the line belongs to the guest.
    while answer.last() != Some(&b'\n') {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        answer.extend(byte);
        if answer.len() > LONGEST_ANSWER {
            break;
        }
    }
    if !answer.starts_with(b"OK") {
        let said = String::from_utf8_lossy(&answer);
        return Err(io::Error::other(format!(
            "unexpected response to CONNECT: {:?}",
            said.trim()
        )));
    }
    socket.set_read_timeout(None)?;
    socket.set_write_timeout(None)?;
    Ok(socket)
}

/// Connects by vsock. The kernel has a timeout of some seconds.
#[allow(unsafe_code)]
fn vsock(cid: u32, port: u32) -> io::Result<UnixStream> {
    // SAFETY: no memory is passed.
    let socket = unsafe { libc::socket(libc::AF_VSOCK, libc::SOCK_STREAM | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all fields are numbers, for which zero is valid.
    let mut address: libc::sockaddr_vm = unsafe { std::mem::zeroed() };
    address.svm_family = libc::AF_VSOCK as libc::sa_family_t;
    address.svm_cid = cid;
    address.svm_port = port;
    let length = size_of::<libc::sockaddr_vm>() as libc::socklen_t;
    // SAFETY: the address has the given length and is not kept.
    let connected = unsafe {
        libc::connect(
            std::os::fd::AsRawFd::as_raw_fd(&socket),
            (&raw const address).cast(),
            length,
        )
    };
    if connected < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(UnixStream::from(socket))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::path::Path;
    use std::time::{Duration, Instant};

    use super::connect;
    use crate::endpoint::Endpoint;

    /// Starts a monitor that sends each client one of the answers, and ends after the last one.
    fn monitor(path: &Path, answers: &[&str]) -> std::thread::JoinHandle<Vec<String>> {
        let listener = UnixListener::bind(path).unwrap();
        let answers: Vec<String> = answers.iter().map(|&answer| answer.to_owned()).collect();
        std::thread::spawn(move || {
            let mut asked = Vec::new();
            for answer in answers {
                let (mut client, _) = listener.accept().unwrap();
                let mut line = [0; 13];
                client.read_exact(&mut line).unwrap();
                asked.push(String::from_utf8_lossy(&line).into_owned());
                let _ = client.write_all(answer.as_bytes());
            }
            asked
        })
    }

    fn hybrid(path: &Path) -> Endpoint {
        let address = format!("hvsock://{}:1024", path.display());
        Endpoint::at(&address, "ttrpc", 2).unwrap()
    }

    #[test]
    fn a_monitor_is_told_the_port_and_the_rest_is_the_guests() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vm.sock");
        // The guest does not listen at first.
        let monitor = monitor(&path, &["", "OK 1073741824\nfrom within"]);
        let mut stream = connect(&hybrid(&path)).unwrap();
        let mut said = [0; 11];
        stream.read_exact(&mut said).unwrap();
        assert_eq!(&said, b"from within");
        assert_eq!(monitor.join().unwrap(), ["CONNECT 1024\n"; 2]);
    }

    #[test]
    fn what_is_no_monitor_is_not_spoken_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vm.sock");
        let long = "O".repeat(4096);
        let monitor = monitor(&path, &["NO\n", &long]);
        for _ in 0..2 {
            let error = connect(&hybrid(&path)).unwrap_err().to_string();
            assert!(error.contains("unexpected response to CONNECT"), "{error}");
        }
        monitor.join().unwrap();
    }

    /// No process listens; without a vsock loopback none could.
    #[test]
    fn a_guest_that_is_not_there_is_not_waited_for() {
        let nowhere = Endpoint::at("ttrpc+vsock://1:4123456", "", 3).unwrap();
        let begun = Instant::now();
        assert!(connect(&nowhere).is_err());
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
