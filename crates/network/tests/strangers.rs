//! Plugins that do not answer keep those waiting who need them, and nobody else.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::{File, OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use orlop_network::{InProcess, Networks, Status};
use support::{Node, sh};
use tokio::time::timeout;

/// Twelve times what it takes, on a busy machine.
const SOON: Duration = Duration::from_secs(4);

/// A node whose network has a plugin that hangs at the verbs given, until it is released.
struct Hanging {
    node: Node,
    networks: Networks,
    fifo: PathBuf,
}

impl Hanging {
    fn at(verbs: &str) -> Self {
        let node = Node::new();
        let conf = r#"{"cniVersion": "1.1.0", "name": "net", "plugins": [{"type": "hangs"}]}"#;
        node.write_conf("10-net.conflist", conf);
        let (fifo, program) = (node.path("fifo"), node.path("hangs"));
        sh(&format!("mkfifo {}", fifo.display()));
        let script = format!(
            "#!/bin/sh\n\
             case $CNI_COMMAND in {verbs}) [ -p {fifo} ] && read -r _ <{fifo} ;; esac\n\
             case $CNI_COMMAND in ADD) echo '{{\"cniVersion\": \"1.1.0\", \
             \"ips\": [{{\"address\": \"10.1.0.2/16\"}}]}}' ;; esac\n\
             exit 0\n",
            fifo = fifo.display()
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let mut config = node.config(InProcess::Never);
        config.bin_dirs = vec![node.dir.path().to_owned()];
        let networks = Networks::open(config).unwrap();
        Self {
            node,
            networks,
            fifo,
        }
    }

    /// Lets all that hang go on.
    fn release(&self) -> File {
        let mut options = OpenOptions::new();
        let open = options.read(true).write(true).open(&self.fifo).unwrap();
        std::fs::remove_file(&self.fifo).unwrap();
        open
    }
}

#[test]
fn pods_are_detached_and_listed_while_all_attachments_hang() {
    let hanging = Hanging::at("ADD");
    let networks = &hanging.networks;
    let pods: Vec<_> = (0..70)
        .map(|n| hanging.node.pod(&format!("pod{n}")))
        .collect();
    hanging.node.block(async {
        let mut attaching = Vec::new();
        for pod in &pods {
            let (networks, pod) = (networks.clone(), pod.attachment.clone());
            attaching.push(tokio::spawn(async move { networks.attach(pod).await }));
        }
        // All that may run do.
        while networks.list().await.unwrap().len() < 48 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let other = hanging.node.pod("other");
        let detached = timeout(SOON, networks.detach(&other.attachment, None)).await;
        detached
            .expect("the detaching waits for attachments")
            .unwrap();
        let status = timeout(SOON, networks.status()).await;
        assert!(status.expect("the status waits for attachments").is_ready());
        let listed = timeout(SOON, networks.list()).await;
        listed.expect("the list waits for attachments").unwrap();
        drop(hanging.release());
        for attached in attaching {
            attached.await.unwrap().unwrap();
        }
    });
}

#[test]
fn that_plugins_do_not_say_how_they_are_is_told_in_time() {
    let hanging = Hanging::at("STATUS");
    let networks = &hanging.networks;
    hanging.node.block(async {
        let asked = (0..6).map(|_| {
            let networks = networks.clone();
            tokio::spawn(async move { timeout(SOON * 2, networks.status()).await })
        });
        for answer in asked.collect::<Vec<_>>() {
            let status = answer.await.unwrap().expect("no answer");
            let Status::NotReady { message, .. } = status else {
                panic!("{status:?}");
            };
            assert!(message.contains("STATUS"), "{message}");
        }
        drop(hanging.release());
        let end = tokio::time::Instant::now() + SOON * 4;
        while !networks.status().await.is_ready() {
            assert!(tokio::time::Instant::now() < end, "it never got well");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}
