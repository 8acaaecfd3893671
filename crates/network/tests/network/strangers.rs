//! Plugins that do not answer keep those waiting who need them, and nobody else.

use std::fs::{OpenOptions, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Duration;

use orlop_network::{ContainerId, Error, GcReport, InProcess, Networks, PodNetwork, Status};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

use crate::support::{Node, Pod, sh};

/// Twelve times what it takes, on a busy machine.
const SOON: Duration = Duration::from_secs(4);

fn conf_of(network: &str) -> String {
    format!(r#"{{"cniVersion": "1.1.0", "name": "{network}", "plugins": [{{"type": "hangs"}}]}}"#)
}

/// A node whose network has a plugin that hangs at the verbs given, until it is released.
struct Hanging {
    node: Node,
    networks: Networks,
    fifo: PathBuf,
}

impl Hanging {
    fn at(verbs: &str) -> Self {
        Self::with_limit(verbs, Duration::from_mins(1))
    }

    /// The plugin may hang for so long.
    fn with_limit(verbs: &str, limit: Duration) -> Self {
        let node = Node::new();
        node.write_conf("10-net.conflist", &conf_of("net"));
        let (fifo, program) = (node.path("fifo"), node.path("hangs"));
        sh(&format!("mkfifo {}", fifo.display()));
        let script = format!(
            "#!/bin/sh\n\
             cat >{dir}/$CNI_COMMAND.conf\n\
             echo \"$CNI_COMMAND $CNI_CONTAINERID\" >>{dir}/calls\n\
             case $CNI_COMMAND in {verbs}) [ -p {fifo} ] && read -r _ <{fifo} ;; esac\n\
             case $CNI_COMMAND in ADD) echo '{{\"cniVersion\": \"1.1.0\", \
             \"ips\": [{{\"address\": \"10.1.0.2/16\"}}]}}' ;; esac\n\
             exit 0\n",
            fifo = fifo.display(),
            dir = node.dir.path().display(),
        );
        std::fs::write(&program, script).unwrap();
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
        let mut config = node.config(InProcess::Never);
        config.bin_dirs = vec![node.dir.path().to_owned()];
        config.plugin_timeout = limit;
        let networks = Networks::open(config).unwrap();
        Self {
            node,
            networks,
            fifo,
        }
    }

    /// A pod for another network than the node's, with the same plugin.
    fn elsewhere(&self, id: &str) -> Pod {
        let dir = self.node.path("other.d");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::write(dir.join("10-other.conflist"), conf_of("other")).unwrap();
        let mut pod = self.node.pod(id);
        pod.attachment.conf_dir = Some(dir);
        pod
    }

    fn attach(&self, pod: &Pod) -> JoinHandle<Result<PodNetwork, Error>> {
        let (networks, pod) = (self.networks.clone(), pod.attachment.clone());
        tokio::spawn(async move { networks.attach(pod).await })
    }

    /// Collects what belongs to the pods named `lost…`.
    fn collect(&self) -> JoinHandle<Result<GcReport, Error>> {
        let networks = self.networks.clone();
        let is_valid = |id: &ContainerId| !id.as_str().starts_with("lost");
        tokio::spawn(async move { networks.gc(is_valid).await })
    }

    /// What the plugin was called for so far, each with the pod's id.
    fn calls(&self) -> Vec<String> {
        let calls = std::fs::read_to_string(self.node.path("calls")).unwrap_or_default();
        calls.lines().map(|line| line.trim().to_owned()).collect()
    }

    async fn until_called(&self, call: &str) {
        orlop_testkit::wait_until!(
            SOON * 4,
            self.calls().iter().any(|one| one == call),
            "no {call} came"
        );
    }

    /// Lets all that hang go on, and hangs no more.
    fn release(&self) {
        let mut options = OpenOptions::new();
        let Ok(open) = options.read(true).write(true).open(&self.fifo) else {
            return;
        };
        // Whoever has opened it reads its end when it is closed, and nobody opens it any more.
        std::fs::remove_file(&self.fifo).unwrap();
        drop(open);
    }
}

impl Drop for Hanging {
    /// A test that fails leaves no plugin behind.
    fn drop(&mut self) {
        self.release();
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
        hanging.release();
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
        hanging.release();
        orlop_testkit::wait_until!(
            SOON * 4,
            networks.status().await.is_ready(),
            "it never got well"
        );
    });
}

#[test]
fn a_plugin_that_hangs_while_it_collects_keeps_no_pod_of_another_network_waiting() {
    let hanging = Hanging::at("GC");
    let [same, other] = [hanging.node.pod("same"), hanging.elsewhere("other")];
    hanging.node.block(async {
        let first = hanging.collect();
        hanging.until_called("GC").await;
        let attached = timeout(SOON, hanging.attach(&other)).await;
        let attached = attached.expect("the other network's pod waits for the collecting");
        attached.unwrap().unwrap();
        let detached = hanging.networks.detach(&other.attachment, None);
        let detached = timeout(SOON, detached).await;
        detached.expect("its end waits, too").unwrap();
        // What the plugin was told of what there is has not this pod: it comes when that is over.
        let waiting = hanging.attach(&same);
        let second = hanging.collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let of_this_network = |call: &&String| !call.ends_with("other");
        let calls = hanging.calls();
        let calls: Vec<_> = calls.iter().filter(of_this_network).collect();
        assert_eq!(calls, ["GC"], "something is done beside the collecting");
        hanging.release();
        waiting.await.unwrap().unwrap();
        for report in [first, second] {
            let report = report.await.unwrap().unwrap();
            assert_eq!(report, GcReport::default());
        }
    });
}

#[test]
fn a_pod_waits_no_longer_for_a_plugin_that_collects_than_the_plugin_may_take() {
    const LIMIT: Duration = Duration::from_secs(2);
    let hanging = Hanging::with_limit("GC", LIMIT);
    // Its first plugin hangs, and so does its second.
    let twice = conf_of("net").replace("[{", r#"[{"type": "hangs"}, {"#);
    hanging.node.write_conf("10-net.conflist", &twice);
    let pod = hanging.node.pod("same");
    hanging.node.block(async {
        hanging.networks.reload().await.unwrap();
        let collecting = hanging.collect();
        hanging.until_called("GC").await;
        let begin = Instant::now();
        hanging.attach(&pod).await.unwrap().unwrap();
        let took = begin.elapsed();
        assert!(took < LIMIT + LIMIT / 2, "it was attached after {took:?}");
        let report = collecting.await.unwrap().unwrap();
        let [(network, problem)] = &report.failed[..] else {
            panic!("{report:?}");
        };
        assert_eq!(network, "net");
        assert!(problem.contains("timed out after 2s"), "{problem}");
    });
}

#[test]
fn pods_without_an_owner_whose_release_hangs_keep_no_new_pod_waiting() {
    let hanging = Hanging::at("DEL");
    let lost = ["lost-1", "lost-2"].map(|id| hanging.node.pod(id));
    let [same, other] = [hanging.node.pod("same"), hanging.elsewhere("other")];
    hanging.node.block(async {
        for pod in &lost {
            hanging.attach(pod).await.unwrap().unwrap();
        }
        let collecting = hanging.collect();
        hanging.until_called("DEL lost-1").await;
        let second = hanging.collect();
        for pod in [&same, &other] {
            let attached = timeout(SOON, hanging.attach(pod)).await;
            let attached = attached.expect("a new pod waits for the release of another");
            attached.unwrap().unwrap();
        }
        // Two that collect would leave no thread to ask the plugins how they are.
        assert!(hanging.networks.status().await.is_ready());
        hanging.release();
        let report = collecting.await.unwrap().unwrap();
        assert_eq!(report.released, ["lost-1", "lost-2"]);
        assert_eq!(second.await.unwrap().unwrap(), GcReport::default());
        let left = hanging.networks.list().await.unwrap();
        let left: Vec<_> = left.iter().map(|it| it.attachment.id.as_str()).collect();
        assert_eq!(left, ["other", "same"]);
    });
}

#[test]
fn what_is_collected_is_never_a_pod_whose_attachment_is_under_way() {
    let hanging = Hanging::at("ADD");
    let [slow, late] = ["slow", "late"].map(|id| hanging.node.pod(id));
    hanging.node.block(async {
        let attaching = hanging.attach(&slow);
        hanging.until_called("ADD slow").await;
        let collecting = hanging.collect();
        tokio::time::sleep(Duration::from_millis(300)).await;
        // Neither does one that comes now wait for it.
        let attaching_too = hanging.attach(&late);
        hanging.until_called("ADD late").await;
        let calls = hanging.calls();
        assert_eq!(calls, ["ADD slow", "ADD late"], "it collects beside an ADD");
        hanging.release();
        attaching.await.unwrap().unwrap();
        attaching_too.await.unwrap().unwrap();
        let report = collecting.await.unwrap().unwrap();
        assert_eq!(report, GcReport::default());
        let told = std::fs::read_to_string(hanging.node.path("GC.conf")).unwrap();
        for id in ["slow", "late"] {
            assert!(told.contains(&format!(r#""containerID":"{id}""#)), "{told}");
        }
    });
}

#[test]
fn nobody_collects_while_it_cannot_be_read_what_is_attached() {
    let hanging = Hanging::at("NOTHING");
    let [kept, torn] = [hanging.node.pod("kept"), hanging.node.pod("torn")];
    hanging.node.block(async {
        for pod in [&kept, &torn] {
            hanging.attach(pod).await.unwrap().unwrap();
        }
        // The plugin would take the address of the pod for garbage that it is not told of.
        let entry = hanging.node.path("state/attachments/torn.intent");
        std::fs::write(&entry, "{").unwrap();
        std::fs::remove_dir_all(hanging.node.path("cache")).unwrap();
        let report = hanging.collect().await.unwrap().unwrap();
        let [(network, problem)] = &report.failed[..] else {
            panic!("{report:?}");
        };
        assert_eq!(network, "net");
        assert!(problem.contains(entry.to_str().unwrap()), "{problem}");
        assert!(!hanging.calls().iter().any(|call| call == "GC"));

        // Once that pod is gone it is no more in the way.
        let detached = hanging.networks.detach(&torn.attachment, None).await;
        detached.unwrap();
        let report = hanging.collect().await.unwrap().unwrap();
        assert_eq!(report, GcReport::default());
        assert!(hanging.calls().iter().any(|call| call == "GC"));
    });
}
