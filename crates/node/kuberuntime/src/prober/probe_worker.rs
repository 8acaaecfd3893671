//! Probe tasks: each one runs one probe of one container, like a `worker` of the kubelet's prober.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use orlop_cri_api::client::ClientError;
use orlop_kubelet_rules::Timestamp;
use orlop_kubelet_rules::actions::ProbeResult;
use orlop_kubelet_rules::pod::{Container, Pod, Probe};
use orlop_kubelet_rules::probe::{Due, ProbeKind, ProbeWorker, Seen};
use orlop_kubelet_rules::status::ContainerState;

use super::{get, grpc_health, http_target, port_number, tcp_connect};
use crate::clock::now;
use crate::context::Context;
use crate::event::{Event, Severity};
use crate::mailbox::Mailbox;
use crate::metrics::ProbeLabels;

/// How often a check that could not run is tried.
const TRIES: u32 = 3;

/// The probe and container that a task checks.
pub(crate) struct Subject {
    pub(crate) kind: ProbeKind,
    pub(crate) word: &'static str,
    pub(crate) pod: Arc<Pod>,
    pub(crate) container: Container,
    pub(crate) probe: Probe,
}

impl Subject {
    fn labels(&self) -> ProbeLabels<'_> {
        ProbeLabels {
            kind: self.word,
            container: &self.container.name,
            pod: &self.pod.metadata.name,
            namespace: &self.pod.metadata.namespace,
            uid: &self.pod.metadata.uid,
        }
    }
}

/// Removes the counters of the probe when its task ends.
struct Forget<'a>(&'a Context, &'a Subject);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        self.0.metrics.forget_probe(&self.1.labels());
    }
}

/// Runs the probe at its period, and at once when the container has restarted.
pub(crate) async fn run(ctx: Arc<Context>, mailbox: Arc<Mailbox>, subject: Subject) {
    let _forget = Forget(&ctx, &subject);
    let period = Duration::from_secs(u64::from(subject.probe.period_seconds.max(1)));
    let mut worker = ProbeWorker::new(subject.kind, subject.probe.clone());
    let mut changes = mailbox.seen();
    if is_old(&mailbox, &subject) {
        // After a restart of the manager, spread the first probes over at most two seconds.
        let spread = period.min(Duration::from_secs(2)).mul_f64(rand::random());
        tokio::time::sleep(spread).await;
    }
    loop {
        changes.borrow_and_update();
        let (seen, ip) = look(&mailbox, &subject);
        let (due, publish) = worker.due(&seen, now());
        if let (Some(result), Some(id)) = (publish, &seen.container_id) {
            mailbox.note_result(id, subject.kind, result);
        }
        let mut delay = period;
        match due {
            Due::Stop => return,
            Due::Wait => {
                if let Some(since) = seen.running_since {
                    let wait = Duration::from_secs(u64::from(subject.probe.initial_delay_seconds));
                    let until = since.after(wait).since(now());
                    if !until.is_zero() {
                        delay = delay.min(until);
                    }
                }
            }
            Due::Check => {
                if let Some(id) = &seen.container_id {
                    let result = check(&ctx, &subject, id, ip).await;
                    if let Some(verdict) = result.and_then(|result| worker.record(result)) {
                        mailbox.note_result(id, subject.kind, verdict);
                    }
                }
            }
        }
        let tick = tokio::time::sleep(delay);
        tokio::pin!(tick);
        loop {
            tokio::select! {
                () = &mut tick => break,
                changed = changes.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    let (fresh, _) = look(&mailbox, &subject);
                    if is_news(&seen, &fresh) {
                        break;
                    }
                }
            }
        }
    }
}

/// Whether a change is worth an early check.
fn is_news(before: &Seen, after: &Seen) -> bool {
    before.container_id != after.container_id
        || before.running_since != after.running_since
        || before.started != after.started
        || before.pod_finished != after.pod_finished
        || before.pod_deleted != after.pod_deleted
}

fn is_old(mailbox: &Mailbox, subject: &Subject) -> bool {
    let (seen, _) = look(mailbox, subject);
    seen.running_since
        .is_some_and(|since| now().since(since) > Duration::from_secs(5))
}

fn look(mailbox: &Mailbox, subject: &Subject) -> (Seen, Option<IpAddr>) {
    let seen = mailbox.seen();
    let seen = seen.borrow();
    let status = &seen.observation.status;
    let newest = status.newest(&subject.container.name);
    let running_since = newest
        .filter(|c| c.state == ContainerState::Running)
        .map(|c| c.started_at.unwrap_or(Timestamp(0)));
    let started = match newest {
        Some(c) if subject.container.startup_probe.is_some() => {
            mailbox.result(&c.id, ProbeKind::Startup) == Some(ProbeResult::Success)
        }
        _ => true,
    };
    let found = Seen {
        container_id: newest.map(|c| c.id.clone()),
        running_since,
        terminated: newest.is_some_and(|c| c.state == ContainerState::Exited),
        started,
        pod_finished: seen.finished,
        pod_deleted: seen.deleted,
        restart_policy: subject.pod.spec.restart_policy,
    };
    (found, status.pod_ips().first().copied())
}

/// Runs one check; `None` if the result is unknown.
async fn check(
    ctx: &Context,
    subject: &Subject,
    id: &str,
    pod_ip: Option<IpAddr>,
) -> Option<ProbeResult> {
    let ip = if subject.pod.spec.host_network {
        ctx.options.node.addresses.first().copied()
    } else {
        pod_ip
    };
    let begun = Instant::now();
    let mut outcome = Err("not tried".to_owned());
    for _ in 0..TRIES {
        outcome = once(ctx, subject, id, ip).await;
        if outcome.is_ok() {
            break;
        }
    }
    let (result, word, message) = match outcome {
        Ok(Ok(())) => (Some(ProbeResult::Success), "successful", None),
        Ok(Err(why)) => (
            Some(ProbeResult::Failure),
            "failed",
            Some(format!("{} probe failed: {why}", subject.word)),
        ),
        Err(why) => (
            None,
            "unknown",
            Some(format!("{} probe errored: {why}", subject.word)),
        ),
    };
    ctx.metrics.probed(&subject.labels(), word, begun.elapsed());
    if let Some(message) = message {
        let meta = &subject.pod.metadata;
        let reason = if result.is_none() {
            "ProbeWarning"
        } else {
            "Unhealthy"
        };
        ctx.event(Event {
            time: now(),
            severity: Severity::Warning,
            reason,
            message,
            uid: meta.uid.clone(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            container: Some(subject.container.name.clone()),
        });
    }
    result
}

/// Runs the check once; the outer error means that it could not run.
async fn once(
    ctx: &Context,
    subject: &Subject,
    id: &str,
    ip: Option<IpAddr>,
) -> Result<Result<(), String>, String> {
    let probe = &subject.probe;
    let limit = Duration::from_secs(u64::from(probe.timeout_seconds.max(1)));
    let container = &subject.container;
    if let Some(exec) = &probe.exec {
        let run = ctx.runtime.exec_sync(id, exec.command.clone(), limit);
        return match run.await {
            Ok(answer) if answer.exit_code == 0 => Ok(Ok(())),
            Ok(answer) => {
                let mut said = answer.stdout;
                said.extend(answer.stderr);
                said.truncate(10 * 1024);
                Ok(Err(String::from_utf8_lossy(&said).into_owned()))
            }
            Err(error @ ClientError::CommandTimedOut { .. }) => {
                Ok(Err(format!("command timed out: {error}")))
            }
            Err(error) => Err(error.to_string()),
        };
    }
    if let Some(action) = &probe.http_get {
        let target = http_target(action, container, ip, "kube-probe/1.0")?;
        return Ok(match get(target, limit).await {
            Ok(answer) if answer.is_fine() => Ok(()),
            Ok(answer) => Err(format!(
                "HTTP probe failed with statuscode: {}",
                answer.status
            )),
            Err(error) => Err(error.to_string()),
        });
    }
    let own = || {
        ip.map(|ip| ip.to_string())
            .ok_or("the pod has no IP address yet")
    };
    if let Some(action) = &probe.tcp_socket {
        let host = if action.host.is_empty() {
            own()?
        } else {
            action.host.clone()
        };
        let port = port_number(&action.port, container)?;
        return Ok(tcp_connect(&host, port, limit).await);
    }
    if let Some(action) = &probe.grpc {
        return Ok(grpc_health(&own()?, action.port, &action.service, limit).await);
    }
    Err("missing probe handler: neither exec, httpGet, tcpSocket nor grpc".to_owned())
}
