//! Lifecycle hooks: postStart and preStop.

use std::net::IpAddr;
use std::time::Duration;

use orlop_kubelet_rules::pod::{Container, LifecycleHandler};

use crate::context::Context;
use crate::event::Severity;
use crate::prober::{HttpError, HttpTarget, get, http_target};

/// The container that a hook belongs to.
pub(crate) struct HookSite<'a> {
    pub(crate) container_id: &'a str,
    pub(crate) container: &'a Container,
    pub(crate) pod_ip: Option<IpAddr>,
    /// Emits events for the pod's owner.
    pub(crate) tell: &'a (dyn Fn(Severity, &'static str, String) + Send + Sync),
}

/// Runs a hook. `limit` is the timeout of a command: the runtime then kills it. Zero means no
/// timeout.
pub(crate) async fn run_hook(
    ctx: &Context,
    hook: &LifecycleHandler,
    site: &HookSite<'_>,
    limit: Duration,
) -> Result<(), String> {
    if let Some(exec) = &hook.exec {
        let run = ctx
            .runtime
            .exec_sync(site.container_id, exec.command.clone(), limit);
        let answer = run.await.map_err(|error| error.to_string())?;
        if answer.exit_code == 0 {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&answer.stderr);
        let said: String = said.trim().chars().take(1000).collect();
        return Err(format!(
            "command {:?} exited with {}: {said}",
            exec.command.join(" "),
            answer.exit_code
        ));
    }
    if let Some(action) = &hook.http_get {
        let target = http_target(action, site.container, site.pod_ip, "kube-lifecycle/1.0")?;
        return ask(ctx, target, site).await;
    }
    if let Some(sleep) = &hook.sleep {
        tokio::time::sleep(Duration::from_secs(sleep.seconds)).await;
        return Ok(());
    }
    Err("the hook has no exec, httpGet or sleep action".to_owned())
}

/// Sends an HTTP request. If HTTPS fails against an HTTP server, it retries with HTTP, for old
/// manifests.
async fn ask(ctx: &Context, mut target: HttpTarget, site: &HookSite<'_>) -> Result<(), String> {
    const LIMIT: Duration = Duration::from_mins(1);
    let answer = match get(target.clone(), LIMIT).await {
        Err(HttpError::NotTls { .. }) => {
            target.secure = false;
            let secret = |name: &str| name.eq_ignore_ascii_case("authorization");
            target.headers.retain(|(name, _)| !secret(name));
            let place = format!("{}:{}", target.host, target.port);
            let answer = get(target, LIMIT).await;
            if answer.is_ok() {
                ctx.metrics.hook_fell_back_to_http();
                let message = format!(
                    "request to HTTPS lifecycle hook {place} got HTTP response, retry with HTTP \
                     succeeded"
                );
                (site.tell)(Severity::Warning, "LifecycleHTTPFallback", message);
            }
            answer
        }
        done => done,
    };
    // Any answer is a success: the kubelet ignores the status of a hook.
    answer.map(drop).map_err(|error| error.to_string())
}
