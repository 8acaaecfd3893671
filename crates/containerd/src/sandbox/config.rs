//! A pod as the kubelet asks for it: `runtime.v1.PodSandboxConfig`, as far as the pod itself is concerned.

use std::fmt::Write as _;

use orlop_ttrpc::{all, bytes, field, number, text};

use crate::Result;
use crate::files::unknown;
use crate::pod::{Space, Wanted};

/// `runtime.v1.NamespaceMode`.
const POD: u64 = 0;
const NODE: u64 = 2;

/// What the pod's containers find in `/etc/resolv.conf`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Dns {
    servers: Vec<String>,
    searches: Vec<String>,
    options: Vec<String>,
}

impl Dns {
    pub(super) fn of(config: &[u8]) -> Option<Self> {
        let dns = field(config, 4)?.as_bytes();
        let texts = |number| all(dns, number).map(|field| field.as_text()).collect();
        Some(Self {
            servers: texts(1),
            searches: texts(2),
            options: texts(3),
        })
    }

    /// As resolv.conf(5) has it; nothing where nothing is asked for.
    pub(super) fn text(&self) -> Option<String> {
        let mut lines = String::new();
        for (word, values) in [("search", &self.searches), ("options", &self.options)] {
            if !values.is_empty() {
                let _ = writeln!(lines, "{word} {}", values.join(" "));
            }
        }
        for server in &self.servers {
            let _ = writeln!(lines, "nameserver {server}");
        }
        (!lines.is_empty()).then_some(lines)
    }
}

/// What the pod is to be, in this network namespace and with so much shared memory.
pub(super) fn wanted(id: &str, config: &[u8], network: &str, shm_size: u64) -> Result<Wanted> {
    let linux = bytes(config, 8);
    let spaces = bytes(bytes(linux, 2), 1);
    let users = bytes(spaces, 5);
    if number(users, 1) == POD && !(bytes(users, 2).is_empty() && bytes(users, 3).is_empty()) {
        return Err(unknown(
            "a pod with its own user namespace needs sandboxer = \"podsandbox\" in containerd's \
             configuration of the runtime handler, not \"shim\"",
        ));
    }
    let mode = |number_| number(spaces, number_);
    let own_unless_hosts = |mode| match mode {
        NODE => Space::Hosts,
        _ => Space::Own,
    };
    let is_hosts_network = mode(1) == NODE;
    let sysctls = all(linux, 3);
    let sysctls = sysctls.map(|entry| (text(entry.as_bytes(), 1), text(entry.as_bytes(), 2)));
    let parent = text(linux, 1);
    Ok(Wanted {
        network: match network {
            _ if is_hosts_network => Space::Hosts,
            "" => Space::Own,
            path => Space::At(path.into()),
        },
        ipc: own_unless_hosts(mode(3)),
        // As containerd has it.
        uts: own_unless_hosts(mode(1)),
        // Containers have their own unless they share the pod's.
        pid: if mode(2) == POD {
            Space::Own
        } else {
            Space::Hosts
        },
        hostname: text(config, 2),
        sysctls: sysctls.collect(),
        cgroups_path: match parent.as_str() {
            "" => String::new(),
            slice if slice.strip_suffix(".slice").is_some() => {
                let name = slice.rsplit('/').next().unwrap_or(slice);
                format!("{name}:cri-containerd:{id}")
            }
            parent => format!("{parent}/{id}"),
        },
        shm: (mode(3) != NODE).then_some(shm_size),
    })
}

#[cfg(test)]
mod tests {
    use orlop_ttrpc::Writer;

    use super::{Dns, wanted};
    use crate::pod::Space;

    fn config() -> Vec<u8> {
        let spaces = Writer::default().number(2, 1).done();
        let security = Writer::default().message(1, &spaces).done();
        let sysctl = Writer::default().text(1, "net.a").text(2, "1").done();
        let linux = Writer::default()
            .text(1, "/pods/p")
            .message(2, &security)
            .message(3, &sysctl);
        let dns = Writer::default()
            .text(1, "10.0.0.1")
            .text(2, "a")
            .text(2, "b");
        Writer::default()
            .text(2, "web")
            .message(4, &dns.done())
            .message(8, &linux.done())
            .done()
    }

    #[test]
    fn fuzzed_pods_do_not_break_the_reader() {
        orlop_testkit::Fuzz::new()
            .example(config())
            .words([&[0xff; 9][..], &[0x42, 0xff, 0x7f], b".slice", b"/"])
            .run(|input| {
                let _ = wanted("p1", input, "", 7);
                let _ = Dns::of(input).map(|dns| dns.text());
            });
    }

    #[test]
    fn a_pod_is_what_is_asked_for() {
        let config = config();
        let pod = wanted("p1", &config, "/netns/x", 7).unwrap();
        assert_eq!(pod.network, Space::At("/netns/x".into()));
        assert_eq!((&pod.ipc, &pod.pid), (&Space::Own, &Space::Hosts));
        assert_eq!((&*pod.hostname, &*pod.cgroups_path), ("web", "/pods/p/p1"));
        assert_eq!(pod.sysctls, [("net.a".into(), "1".into())]);
        assert_eq!(pod.shm, Some(7));
        let dns = Dns::of(&config).unwrap().text().unwrap();
        assert_eq!(dns, "search a b\nnameserver 10.0.0.1\n");
    }

    #[test]
    fn users_of_its_own_are_refused() {
        let range = Writer::default().number(1, 65536).done();
        let users = Writer::default().message(2, &range).done();
        let spaces = Writer::default().message(5, &users).done();
        let security = Writer::default().message(1, &spaces).done();
        let linux = Writer::default().message(2, &security).done();
        let config = Writer::default().message(8, &linux).done();
        assert!(wanted("p", &config, "", 7).is_err());
    }
}
