//! Creates a pod's sandbox: the kubelet's `createPodSandbox`.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use orlop_cri_api::v1;
use orlop_kubelet_rules::cri_config::{
    HostResolver, NodeFacts, SandboxInput, Values, hosts_file, node_hosts_file, pod_dns,
    sandbox_config,
};
use orlop_kubelet_rules::status::SandboxStatus;
use orlop_kubelet_rules::userns;

use super::life::Life;
use super::problem::Problem;
use crate::event::Severity;
use crate::pod_input::Objects;
use crate::text_file::read_text;

/// The ConfigMaps and Secrets in a pod's namespace.
pub(super) struct OfNamespace {
    objects: Arc<Objects>,
    namespace: String,
}

impl Values for OfNamespace {
    fn config_map(&self, name: &str) -> Option<&BTreeMap<String, Vec<u8>>> {
        self.objects.config_map(&self.namespace, name)
    }

    fn secret(&self, name: &str) -> Option<&BTreeMap<String, Vec<u8>>> {
        self.objects.secret(&self.namespace, name).map(|s| &s.data)
    }
}

/// Size limit of the node's resolver and hosts files in bytes.
const OF_NODE: u64 = 1 << 20;

/// Rewrites a file in place if its content differs. Containers mount the file itself, so a rename
/// would not reach them; they can also write to it without limit.
fn rewrite(path: &Path, text: &str) -> io::Result<()> {
    if orlop_fs::read_file(path, text.len() as u64).is_ok_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    std::fs::write(path, text)
}

/// The kubelet's message, with the requirements added.
fn no_user_namespaces(handler: &str) -> String {
    let who = match handler {
        "" => "runtime".to_owned(),
        name => format!("RuntimeClass handler {name:?}"),
    };
    format!(
        "can't set `spec.hostUsers: false`, {who} does not support user namespaces: it needs \
         id-mapped mounts (runc 1.2, crun 1.9, containerd 2.0 or later)"
    )
}

impl Life {
    pub(super) fn values(&self) -> OfNamespace {
        OfNamespace {
            objects: self.wished.input.objects.clone(),
            namespace: self.wished.pod.metadata.namespace.clone(),
        }
    }

    /// Returns the properties of the node and the pod that the pod can see.
    pub(super) fn facts(&self) -> NodeFacts {
        let mut facts = self.ctx.facts.clone();
        facts.pod_ips = if self.wished.pod.spec.host_network {
            facts.host_ips.clone()
        } else {
            self.seen.observation.status.pod_ips()
        };
        facts
    }

    /// Builds the sandbox configuration for the runtime.
    pub(super) async fn sandbox_config(
        &mut self,
        attempt: u32,
    ) -> Result<v1::PodSandboxConfig, Problem> {
        let user_namespace = self.user_namespace().await?;
        let dns = &self.ctx.options.dns;
        let host = if dns.resolv_conf.as_os_str().is_empty() {
            HostResolver::default()
        } else {
            // A small file of the node, read again because it changes with the network.
            let path = dns.resolv_conf.clone();
            let read = orlop_pool::blocking(move || read_text(&path, OF_NODE));
            let text = read.await.ok().and_then(Result::ok).unwrap_or_default();
            HostResolver::parse(&text)
        };
        let resolver = pod_dns(&self.wished.pod, &dns.servers, &dns.domain, &host);
        let input = SandboxInput {
            attempt,
            pod_logs_dir: self.ctx.options.pod_logs_dir.display().to_string(),
            cgroup_parent: self.ctx.cgroups.parent(&self.wished.pod),
            domain: dns.domain.clone(),
            dns: resolver.config,
            user_namespace: Some(user_namespace),
        };
        let asked_for_cluster = resolver.without_cluster && !dns.domain.is_empty();
        if asked_for_cluster {
            let message = "kubelet does not have ClusterDNS IP configured and cannot create Pod \
                           using \"ClusterFirst\" policy. Falling back to \"Default\" policy.";
            self.say(
                None,
                Severity::Warning,
                "MissingClusterDNS",
                message.to_owned(),
            );
        }
        if resolver.truncated {
            let message = "Nameserver or search limits were exceeded, some have been omitted";
            self.say(
                None,
                Severity::Warning,
                "DNSConfigForming",
                message.to_owned(),
            );
        }
        Ok(sandbox_config(&self.wished.pod, &input))
    }

    /// Returns the pod's user namespace: the node's, or its own with its range of ids.
    async fn user_namespace(&mut self) -> Result<v1::UserNamespace, Problem> {
        if self.wished.pod.spec.host_users != Some(false) {
            return Ok(userns::options(None));
        }
        if self.made.id_range.is_none() {
            let fail = |why: String| {
                let message = format!("Failed to create pod sandbox: {why}");
                Problem::new("FailedCreatePodSandBox", message)
            };
            let handler = self.runtime_handler()?;
            let able = self.ctx.handler(&handler);
            if !able.is_some_and(|handler| handler.user_namespaces) {
                return Err(fail(no_user_namespaces(&handler)));
            }
            let (ranges, uid) = (self.ctx.user_namespaces.clone(), self.mailbox.uid.clone());
            let got = orlop_pool::blocking(move || ranges.get(&uid)).await;
            let got = got.map_err(|error| fail(error.to_string()))?;
            self.made.id_range = Some(got.map_err(|error| fail(error.to_string()))?);
        }
        Ok(userns::options(self.made.id_range))
    }

    /// Returns the handler of the RuntimeClass. Without such an object, a handler of that name is
    /// used.
    pub(super) fn runtime_handler(&self) -> Result<String, Problem> {
        let Some(name) = self
            .wished
            .pod
            .spec
            .runtime_class_name
            .as_deref()
            .filter(|n| !n.is_empty())
        else {
            return Ok(String::new());
        };
        if let Some(class) = self.wished.input.objects.runtime_class(name) {
            return Ok(class.handler.clone());
        }
        if self.ctx.handler(name).is_some() {
            return Ok(name.to_owned());
        }
        let message = format!(
            "RuntimeClass {name:?} not found; define it in the same manifest source as the pod, or \
             use the name of a runtime handler"
        );
        Err(Problem::new("FailedCreatePodSandBox", message))
    }

    pub(super) async fn create_sandbox(&mut self, attempt: u32) -> Result<String, Problem> {
        let config = self.sandbox_config(attempt).await?;
        let handler = self.runtime_handler()?;
        let logs = config.log_directory.clone();
        let made = orlop_pool::blocking(move || {
            std::fs::create_dir_all(&logs).map_err(|e| format!("cannot create {logs}: {e}"))
        });
        let fail = |why: String| {
            let message = format!("Failed to create pod sandbox: {why}");
            Problem::new("FailedCreatePodSandBox", message)
        };
        made.await.map_err(|e| fail(e.to_string()))?.map_err(fail)?;
        let begun = Instant::now();
        let ran = self.ctx.runtime.run_pod_sandbox(config, &handler).await;
        let code = ran
            .as_ref()
            .err()
            .map(|error| format!("{:?}", error.code()));
        let metrics = &self.ctx.metrics;
        metrics.ran_sandbox(&handler, begun.elapsed(), code.as_deref());
        if self.wished.pod.spec.host_users == Some(false) {
            metrics.ran_user_namespaced(code.is_some());
        }
        let id = ran.map_err(|error| fail(error.to_string()))?;
        // The containers' files and variables need its addresses.
        let answer = self.ctx.runtime.pod_sandbox_status(&id, false).await?;
        if let Some(status) = &answer.status {
            let mut sandboxes = self.seen.observation.status.sandboxes().to_vec();
            sandboxes.push(SandboxStatus::from(status));
            let mut seen = (*self.seen.observation).clone();
            let containers = seen.status.containers().to_vec();
            seen.status = orlop_kubelet_rules::status::PodStatus::new(sandboxes, containers);
            self.seen.observation = seen.into();
            self.show();
        }
        Ok(id)
    }

    /// Writes the pod's hosts file if its content differs.
    pub(super) async fn write_hosts(&mut self) -> Result<(), Problem> {
        let pod = self.wished.pod.clone();
        let path = self.dirs.hosts();
        let ips = self.seen.observation.status.pod_ips();
        let domain = self.ctx.options.dns.domain.clone();
        let work = move || {
            let text = if pod.spec.host_network {
                let of_node = read_text(Path::new("/etc/hosts"), OF_NODE).unwrap_or_default();
                node_hosts_file(&pod, &of_node)
            } else {
                hosts_file(&pod, &ips, &domain)
            };
            rewrite(&path, &text).map_err(|e| format!("cannot write {}: {e}", path.display()))
        };
        let written = orlop_pool::blocking(work).await;
        let fail = |why: String| Problem::new("FailedMount", why);
        written.map_err(|e| fail(e.to_string()))?.map_err(fail)
    }
}

#[cfg(test)]
mod tests {
    use orlop_testkit::most_memory;

    use super::*;

    #[test]
    fn hosts_that_a_container_wrote_without_end_are_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("etc-hosts");
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(768 << 20).unwrap();
        let before = most_memory();
        rewrite(&path, "127.0.0.1 localhost\n").unwrap();
        let took = most_memory() - before;
        assert!(took < 64 << 20, "{took} bytes");
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, "127.0.0.1 localhost\n");
    }
}
