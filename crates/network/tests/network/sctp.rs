//! A host port for SCTP leads to its pod.

use std::fs::File;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use orlop_network::{PortMapping, Protocol};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketType, ipproto};
use rustix::net::{accept, bind, connect, listen, recv, send, socket};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::support::{Node, sh};

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
    let chains = CONF.replace(
        r#""type": "portmap","#,
        r#""type": "portmap", "backend": "iptables","#,
    );
    assert_ne!(chains, CONF);
    leads(&chains);
}

fn leads(conf: &str) {
    if let Err(errno) = new_socket() {
        orlop_testkit::skip!("this kernel has no SCTP: {errno}");
    }
    let (node, networks) = Node::with(conf);
    let [mut server, outside] = ["server", "outside"].map(|id| node.pod(id));
    server.attachment.port_mappings = vec![PortMapping {
        host_port: 9999,
        container_port: 99,
        protocol: Protocol::Sctp,
        host_ip: None,
    }];
    let network = node
        .block(networks.attach(server.attachment.clone()))
        .unwrap();
    // A machine outside, which knows nothing of the pod's address.
    let (peer, ns) = (std::process::id(), outside.netns().display().to_string());
    let ns = ns.rsplit('/').next().unwrap();
    sh(&format!(
        "ip link add out0 type veth peer name out1 && ip link set out1 netns /proc/{peer}/fd/{ns}"
    ));
    sh("ip addr add 192.168.50.1/24 dev out0; ip link set out0 up");
    outside.sh("ip addr add 192.168.50.2/24 dev out1");
    outside.sh("ip link set out1 up");

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
    node.block(networks.detach(&server.attachment, Some(&network)))
        .unwrap();
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
