//! Routes requests to their handlers.

use http::{HeaderValue, Method, Request, StatusCode, header};
use hyper::body::Incoming;
use orlop_kuberuntime::manager::PodView;
use orlop_listen::is_for_this_node;
use serde_json::{Value, json};

use super::answer::{self, Answer};
use super::query::{Query, decode};
use super::stream::Verb;
use super::{cadvisor, checkpoint, control, logs, metrics, stats, stream};
use crate::access::{Access, Caller};
use crate::shared::{Shared, time};

/// The listener that received a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Door {
    /// HTTPS: everything, for authenticated clients.
    Guarded,
    /// Plain HTTP: read-only requests, for anybody.
    ReadOnly,
    /// Health checks only.
    Health,
    /// The control socket of root: everything, and control requests.
    Root,
}

/// Handles requests.
#[derive(Debug)]
pub(super) struct Router {
    shared: Shared,
    access: Access,
}

impl Router {
    pub(super) fn new(shared: Shared, access: Access) -> Self {
        Self { shared, access }
    }

    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        door: Door,
        trusted: bool,
    ) -> Answer {
        if door == Door::Guarded {
            let header = request.headers().get(header::AUTHORIZATION);
            let header = header.and_then(|value| value.to_str().ok());
            match self.access.caller(trusted, header) {
                Some(Caller::Named(user)) => {
                    tracing::debug!(user, path = request.uri().path(), "received a request");
                }
                Some(Caller::Trusted | Caller::Anonymous) => {}
                None => {
                    let mut answer = answer::text(StatusCode::UNAUTHORIZED, "Unauthorized\n");
                    let challenge = HeaderValue::from_static("Bearer");
                    answer
                        .headers_mut()
                        .insert(header::WWW_AUTHENTICATE, challenge);
                    return answer;
                }
            }
        }
        if door == Door::ReadOnly {
            let names = [self.shared.options().node_name.clone()];
            if !is_for_this_node(request.uri(), request.headers(), &names) {
                let text = "the Host header of the request is not a name of this node; use an IP \
                            address, localhost, the node's name or its host name\n";
                return answer::text(StatusCode::MISDIRECTED_REQUEST, text);
            }
        }
        let path = request.uri().path().to_owned();
        let parts: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(decode)
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        if let ["healthz", ..] = parts[..] {
            return self.health(&parts[1..], request.method());
        }
        if door == Door::Health {
            return answer::text(StatusCode::NOT_FOUND, "this port serves only /healthz\n");
        }
        if let Some(answer) = self.read(&parts, request.method()).await {
            return answer;
        }
        if door == Door::ReadOnly {
            let text = "404 page not found; this port is read-only\n";
            return answer::text(StatusCode::NOT_FOUND, text);
        }
        if let ["orlop", "v1", order] = parts[..] {
            return match door {
                Door::Root => control::answer(&self.shared, order, request).await,
                _ => answer::text(
                    StatusCode::FORBIDDEN,
                    "this endpoint is available only on the agent's control socket\n",
                ),
            };
        }
        self.enter(&parts, request, door).await
    }

    fn health(&self, parts: &[&str], method: &Method) -> Answer {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return not_allowed("GET");
        }
        match parts {
            [] | ["ping" | "log" | "syncloop"] => match self.shared.health() {
                Ok(()) => answer::text(StatusCode::OK, "ok"),
                Err(_) if parts == ["ping"] => answer::text(StatusCode::OK, "ok"),
                Err(why) => answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{why}\n")),
            },
            _ => not_found(),
        }
    }

    /// Handles read-only requests.
    async fn read(&self, parts: &[&str], method: &Method) -> Option<Answer> {
        let shared = &self.shared;
        let only_get = !matches!(*method, Method::GET | Method::HEAD);
        let is_known = matches!(
            parts,
            ["pods" | "metrics" | "stats"]
                | ["metrics", "cadvisor" | "probes" | "resource"]
                | ["stats", "summary"]
        );
        if is_known && only_get && parts[0] != "stats" {
            return Some(not_allowed("GET"));
        }
        Some(match parts {
            ["pods"] => answer::json(&pod_list(&shared.manager().pods())),
            ["metrics"] => answer::metrics(metrics::own(shared)),
            ["metrics", "probes"] => answer::metrics(shared.manager().probe_metrics()),
            ["metrics", "resource"] => answer::metrics(stats::resource_metrics(shared).await),
            ["metrics", "cadvisor"] => answer::metrics(cadvisor::metrics(shared).await),
            ["stats"] | ["stats", "summary"] => answer::json(&stats::summary(shared).await),
            _ => return None,
        })
    }

    /// Handles requests that access pods: logs, exec, attach and port-forward.
    async fn enter(&self, parts: &[&str], request: Request<Incoming>, door: Door) -> Answer {
        let shared = &self.shared;
        let query = Query::read(request.uri().query());
        if parts == ["configz"] {
            return answer::json(&json!({"kubeletconfig": configz(shared)}));
        }
        if parts == ["runningpods"] {
            return answer::json(&running_pods(&shared.manager().pods()));
        }
        if let ["logs", ..] = parts {
            let text = "the log files of the node are not served; enableSystemLogHandler has no \
                        effect on a standalone node\n";
            return answer::text(StatusCode::METHOD_NOT_ALLOWED, text);
        }
        let enters = matches!(
            parts,
            [
                "containerLogs" | "exec" | "attach" | "portForward" | "run" | "checkpoint",
                ..
            ]
        );
        if !enters {
            return not_found();
        }
        // A kubelet serves checkpoints even if its debugging handlers are disabled.
        let debugs = parts[0] != "checkpoint";
        if debugs && !shared.configuration().enable_debugging_handlers && door != Door::Root {
            let text = "Debug endpoints are disabled, because enableDebuggingHandlers is false\n";
            return answer::text(StatusCode::METHOD_NOT_ALLOWED, text);
        }
        // The path may contain a uid between the names of pod and container.
        let (namespace, name, uid, container) = match parts {
            [_, namespace, name] => (*namespace, *name, None, ""),
            ["portForward", namespace, name, uid] => (*namespace, *name, Some(*uid), ""),
            [_, namespace, name, container] => (*namespace, *name, None, *container),
            [_, namespace, name, uid, container] => (*namespace, *name, Some(*uid), *container),
            _ => return not_found(),
        };
        let pod = shared.manager().find_pod(namespace, name);
        let Some(pod) = pod.filter(|pod| uid.is_none_or(|uid| pod.uid == uid)) else {
            let text = format!("pod {name:?} of namespace {namespace:?} does not exist\n");
            return answer::text(StatusCode::NOT_FOUND, text);
        };
        if container.is_empty() && parts[0] != "portForward" {
            return answer::text(StatusCode::BAD_REQUEST, "the path has no container name\n");
        }
        match parts[0] {
            "containerLogs" => match *request.method() {
                Method::GET => logs::answer(shared, &pod, container, &query).await,
                _ => not_allowed("GET"),
            },
            "exec" => stream::answer(shared, Verb::Exec, &pod, container, &query, request).await,
            "attach" => {
                stream::answer(shared, Verb::Attach, &pod, container, &query, request).await
            }
            "portForward" => {
                stream::answer(shared, Verb::PortForward, &pod, container, &query, request).await
            }
            "checkpoint" => match *request.method() {
                Method::POST => checkpoint::answer(shared, &pod, container, &query).await,
                _ => not_allowed("POST"),
            },
            _ => match *request.method() {
                Method::POST => stream::run(shared, &pod, container, &query).await,
                _ => not_allowed("POST"),
            },
        }
    }
}

fn not_found() -> Answer {
    answer::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn not_allowed(method: &'static str) -> Answer {
    let text = format!("405: Method Not Allowed; use {method}\n");
    let mut answer = answer::text(StatusCode::METHOD_NOT_ALLOWED, text);
    let allowed = HeaderValue::from_static(method);
    answer.headers_mut().insert(header::ALLOW, allowed);
    answer
}

/// Builds a `v1.PodList`.
fn pod_list(pods: &[std::sync::Arc<PodView>]) -> Value {
    let items: Vec<Value> = pods.iter().map(|pod| pod.to_json()).collect();
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
}

/// Lists the running pods with the data that the runtime has, as the kubelet does.
fn running_pods(pods: &[std::sync::Arc<PodView>]) -> Value {
    let mut items = Vec::new();
    for pod in pods {
        let statuses = [
            "initContainerStatuses",
            "containerStatuses",
            "ephemeralContainerStatuses",
        ];
        let running: Vec<Value> = statuses
            .iter()
            .flat_map(|list| pod.status[*list].as_array().into_iter().flatten())
            .filter(|status| !status["state"]["running"].is_null())
            .map(|status| {
                json!({"name": status["name"], "image": status["imageID"], "resources": {}})
            })
            .collect();
        if running.is_empty() {
            continue;
        }
        items.push(json!({
            "metadata": {
                "name": pod.name,
                "namespace": pod.namespace,
                "uid": pod.uid,
                "creationTimestamp": time(pod.start_time),
            },
            "spec": {"containers": running},
            "status": {},
        }));
    }
    json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items})
}

fn configz(shared: &Shared) -> Value {
    let mut value = serde_json::to_value(shared.configuration()).unwrap_or_default();
    value["kind"] = json!("KubeletConfiguration");
    value["apiVersion"] = json!("kubelet.config.k8s.io/v1beta1");
    value
}
