//! A host port for SCTP leads to its pod.

use std::fs::File;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use orlop_network::Protocol;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};
use rustix::net::{accept, bind, connect, listen, recv, send, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::support::{Node, by_chains, outside};

const CONF: &str = r#"{
    "cniVersion": "1.0.0", "name": "net",
    "plugins": [
        {"type": "bridge", "bridge": "br0", "isGateway": true, "ipMasq": true,
         "ipam": {
            "type": "host-local", "dataDir": "DATA",
            "ranges": [[{"subnet": "10.77.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
        {"type": "portmap", "capabilities": {"portMappings": true}},
        {"type": "firewall"}
    ]}"#;

#[test]
fn a_port_for_sctp_leads_to_the_pod() {
    leads(CONF);
}

#[test]
fn a_port_for_sctp_mapped_by_chains_leads_to_the_pod() {
    leads(&by_chains(CONF));
}

fn leads(conf: &str) {
    if let Err(errno) = new_socket() {
        orlop_testkit::skip!("this kernel has no SCTP: {errno}");
    }
    let (node, networks) = Node::with(conf);
    let mut server = node.pod("server");
    server.map(9999, 99, Protocol::Sctp);
    let network = node.attach(&networks, &server);
    let outside = outside(&node);

    let answers = within(server.netns(), || {
        let socket = new_socket()?;
        bind(&socket, &"0.0.0.0:99".parse::<SocketAddrV4>().unwrap())?;
        listen(&socket, 1)?;
        Ok(socket)
    });
    let answers = answers.unwrap();
    let answering = std::thread::spawn(move || {
        let asked = accept(&answers)?;
        send(&asked, b"from the pod", SendFlags::NOSIGNAL).map(|_| asked)
    });
    let ask = || {
        within(outside.netns(), || {
            let socket = new_socket()?;
            connect(
                &socket,
                &"192.168.50.1:9999".parse::<SocketAddrV4>().unwrap(),
            )?;
            let mut answer = [0; 64];
            let (_, length) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
            Ok(String::from_utf8_lossy(&answer[..length]).into_owned())
        })
    };
    assert_eq!(ask().unwrap(), "from the pod");
    drop(answering.join().unwrap().unwrap());
    node.detach(&networks, &server, &network);
    ask().unwrap_err();
}

/// One that waits for nothing longer than a test can.
fn new_socket() -> rustix::io::Result<OwnedFd> {
    let socket = socket(AddressFamily::INET, SocketType::STREAM, Some(ipproto::SCTP))?;
    for timeout in [Timeout::Recv, Timeout::Send] {
        set_socket_timeout(&socket, timeout, Some(Duration::from_secs(20)))?;
    }
    Ok(socket)
}

/// Does something in a network namespace, on a thread of its own.
fn within<T: Send>(
    netns: &Path,
    act: impl FnOnce() -> rustix::io::Result<T> + Send,
) -> rustix::io::Result<T> {
    let act = || {
        let namespace = File::open(netns).unwrap();
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        act()
    };
    std::thread::scope(|scope| scope.spawn(act).join().unwrap())
}
