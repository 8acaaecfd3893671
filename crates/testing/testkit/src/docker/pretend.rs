//! A fake Docker Engine. It serves the images and containers that a test defines, and records the containers that it is
//! asked to create, for cases that Debian's engine does not support.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Collected, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::serve::Background;

/// ID of a running pod sandbox, of the pod `pod` in the namespace `default`.
pub const PRETENDED_SANDBOX: &str =
    "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a";

/// A fake engine, stopped on drop.
#[derive(Debug)]
pub struct PretendedEngine {
    socket: PathBuf,
    there: Arc<Mutex<There>>,
    _accepting: Background,
}

/// Whether it responds to an inspection of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
    Yes,
    Never,
}

/// State of the engine.
#[derive(Debug)]
struct There {
    has_containerd_images: bool,
    /// Image IDs by the names and digests that can be pulled.
    brings: BTreeMap<String, String>,
    /// Names of images by ID.
    images: BTreeMap<String, BTreeSet<String>>,
    pulled: Vec<String>,
    created: Vec<Value>,
    /// Containers, and whether an inspection gets a response.
    containers: Vec<(Value, Told)>,
    /// Requested paths in order, without the API version.
    asked: Vec<String>,
    /// Sender of events.
    happens: tokio::sync::broadcast::Sender<Bytes>,
}

impl PretendedEngine {
    /// Starts an engine with its socket in `dir`, whose images are in containerd's store or in its own.
    pub fn start(dir: &Path, has_containerd_images: bool) -> Self {
        let socket = dir.join("docker.sock");
        let there = Arc::new(Mutex::new(There {
            has_containerd_images,
            brings: BTreeMap::new(),
            images: BTreeMap::new(),
            pulled: Vec::new(),
            created: Vec::new(),
            containers: Vec::new(),
            asked: Vec::new(),
            happens: tokio::sync::broadcast::Sender::new(64),
        }));
        let shared = Arc::clone(&there);
        let accepting = Background::at(&socket, move |stream| serve(stream, Arc::clone(&shared)));
        Self {
            socket,
            there,
            _accepting: accepting,
        }
    }

    /// Returns the path of its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Lets pulls of this name (`a.example/b@sha256:…`, or with a tag) return the image with this ID.
    pub fn brings(&self, name: &str, id: &str) {
        let brings = &mut self.there().brings;
        brings.insert(familiar(name), id.to_owned());
    }

    /// Adds a name to the image with this ID.
    pub fn has(&self, name: &str, id: &str) {
        self.there().call(id, name);
    }

    /// Removes a name.
    pub fn untag(&self, name: &str) {
        self.there().untag(name);
    }

    /// Returns the pulled images in order.
    pub fn pulled(&self) -> Vec<String> {
        self.there().pulled.clone()
    }

    /// Returns the names of an image; empty if it does not exist.
    pub fn names(&self, id: &str) -> Vec<String> {
        let there = self.there();
        let names = there.images.get(id).into_iter().flatten();
        names.cloned().collect()
    }

    /// Returns the configurations of the created containers in order.
    pub fn created(&self) -> Vec<Value> {
        self.there().created.clone()
    }

    /// Adds a container, which `GET /containers/ID/json` returns.
    pub fn keeps(&self, container: Value) {
        self.there().put(container, Told::Yes);
    }

    /// Adds a container that is listed, but whose inspection never gets a response.
    pub fn hangs_over(&self, container: Value) {
        self.there().put(container, Told::Never);
    }

    /// Sends an event to all listeners.
    pub fn happens(&self, event: &Value) {
        // There may be no listeners.
        let _ = self.there().happens.send(Bytes::from(format!("{event}\n")));
    }

    /// Returns how often this path (`/containers/ID/json`) was requested.
    pub fn asked(&self, path: &str) -> usize {
        let there = self.there();
        there.asked.iter().filter(|asked| *asked == path).count()
    }

    fn there(&self) -> std::sync::MutexGuard<'_, There> {
        self.there.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

async fn serve(stream: UnixStream, there: Arc<Mutex<There>>) {
    let answer = service_fn(|request: Request<Incoming>| {
        let there = Arc::clone(&there);
        async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map(Collected::to_bytes);
            let path = parts.uri.path();
            let is_told = {
                let mut there = there.lock().unwrap_or_else(PoisonError::into_inner);
                there.is_told(path)
            };
            if path.ends_with("/events") {
                return Ok::<_, Infallible>(Response::new(events(&there)));
            }
            if !is_told {
                std::future::pending::<()>().await;
            }
            let answer = {
                let mut there = there.lock().unwrap_or_else(PoisonError::into_inner);
                let query = parts.uri.query().unwrap_or_default();
                let body = body.unwrap_or_default();
                there.answer(&parts.method, path, query, &body)
            };
            let (status, body) = match answer {
                Some(body) => (StatusCode::OK, body),
                None => (StatusCode::NOT_FOUND, json!({ "message": "no such thing" })),
            };
            let body = Full::new(Bytes::from(body.to_string()));
            let mut response = Response::new(UnsyncBoxBody::new(body));
            *response.status_mut() = status;
            Ok(response)
        }
    });
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), answer)
        .await;
}

fn events(there: &Mutex<There>) -> Body {
    let there = there.lock().unwrap_or_else(PoisonError::into_inner);
    let happens = there.happens.subscribe();
    let frames = futures_util::stream::unfold(happens, |mut happens| async {
        let event = happens.recv().await.ok()?;
        Some((Ok(Frame::data(event)), happens))
    });
    UnsyncBoxBody::new(StreamBody::new(frames))
}

impl There {
    /// Adds or replaces a container.
    fn put(&mut self, container: Value, told: Told) {
        self.containers
            .retain(|(other, _)| other["Id"] != container["Id"]);
        self.containers.push((container, told));
    }

    /// Records a request; `false` if it never gets a response.
    fn is_told(&mut self, path: &str) -> bool {
        let path = path
            .get(1..)
            .and_then(|path| path.find('/'))
            .map_or(path, |at| &path[at + 1..]);
        self.asked.push(path.to_owned());
        let mut containers = self.containers.iter();
        !containers.any(|(container, told)| {
            let id = container["Id"].as_str().unwrap_or_default();
            *told == Told::Never && path == format!("/containers/{id}/json")
        })
    }

    /// Lists the containers that have all labels of the filter.
    fn listed(&self, filters: Option<String>) -> Value {
        let filters: Value = filters
            .and_then(|filters| serde_json::from_str(&filters).ok())
            .unwrap_or_default();
        let wanted: Vec<&str> = filters["label"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let listed = self.containers.iter().map(|(container, _)| container);
        let listed = listed.filter(|container| {
            wanted.iter().all(|wanted| {
                let (key, value) = wanted.split_once('=').unwrap_or((wanted, ""));
                let found = container["Config"]["Labels"][key].as_str();
                found.is_some_and(|found| value.is_empty() || found == value)
            })
        });
        listed
            .map(|container| {
                json!({
                    "Id": container["Id"],
                    "Names": [container["Name"]],
                    "Labels": container["Config"]["Labels"],
                    "State": container["State"]["Status"],
                })
            })
            .collect()
    }

    fn container(&self, id: &str) -> Option<Value> {
        let mut containers = self.containers.iter();
        let found = containers.find(|(container, _)| container["Id"] == id);
        found.map(|(container, _)| container.clone())
    }

    fn answer(&mut self, method: &Method, path: &str, query: &str, body: &[u8]) -> Option<Value> {
        if path == "/version" {
            return Some(json!({ "Version": "28", "ApiVersion": "1.48", "MinAPIVersion": "1.24" }));
        }
        let (_, path) = path.trim_start_matches('/').split_once('/')?;
        let word = |name: &str| {
            let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            let mut found = pairs.filter(|(key, _)| *key == name);
            found.next().map(|(_, value)| unescaped(value))
        };
        let of_image = path.strip_prefix("images/");
        match (method, path) {
            (&Method::GET, "info") => Some(self.info()),
            (&Method::GET, "containers/json") => Some(self.listed(word("filters"))),
            (&Method::GET, "images/json") => {
                let ids: Vec<String> = self.images.keys().cloned().collect();
                Some(ids.iter().filter_map(|id| self.image(id)).collect())
            }
            (&Method::POST, "images/create") => self.pull(&word("fromImage")?, &word("tag")?),
            (&Method::POST, "containers/create") => {
                self.created.push(serde_json::from_slice(body).ok()?);
                let id = format!("{:064x}", self.created.len());
                Some(json!({ "Id": id, "Warnings": [] }))
            }
            (&Method::GET, _) if path == format!("containers/{PRETENDED_SANDBOX}/json") => {
                Some(sandbox())
            }
            (&Method::GET, _) if path.starts_with("containers/") => {
                let id = path.strip_prefix("containers/")?.strip_suffix("/json")?;
                self.container(id)
            }
            (&Method::GET, _) => {
                let name = unescaped(of_image?.strip_suffix("/json")?);
                let id = self.id_of(&name)?;
                self.image(&id)
            }
            (&Method::POST, _) => {
                let id = self.id_of(&unescaped(of_image?.strip_suffix("/tag")?))?;
                self.call(&id, &format!("{}:{}", word("repo")?, word("tag")?));
                Some(json!({}))
            }
            (&Method::DELETE, _) => {
                let name = unescaped(of_image?);
                let id = self.id_of(&name)?;
                let names = self.images.get_mut(&id)?;
                names.remove(&familiar(&name));
                if names.is_empty() {
                    self.images.remove(&id);
                }
                Some(json!([]))
            }
            _ => None,
        }
    }

    fn info(&self) -> Value {
        let status = if self.has_containerd_images {
            json!([["driver-type", "io.containerd.snapshotter.v1"]])
        } else {
            json!([["Backing Filesystem", "extfs"]])
        };
        json!({
            "Architecture": std::env::consts::ARCH,
            "CgroupDriver": "cgroupfs",
            "DefaultRuntime": "runc",
            "DriverStatus": status,
            "Runtimes": { "runc": {} },
        })
    }

    fn pull(&mut self, repository: &str, tag: &str) -> Option<Value> {
        let joint = if tag.contains(':') { '@' } else { ':' };
        let name = format!("{repository}{joint}{tag}");
        self.pulled.push(name.clone());
        let id = self.brings.get(&familiar(&name)).cloned()?;
        self.call(&id, &name);
        Some(json!({ "status": "done" }))
    }

    /// Moves a name to an image.
    fn call(&mut self, id: &str, name: &str) {
        self.untag(name);
        let names = self.images.entry(id.to_owned()).or_default();
        names.insert(familiar(name));
    }

    fn untag(&mut self, name: &str) {
        for names in self.images.values_mut() {
            names.remove(&familiar(name));
        }
    }

    fn id_of(&self, name: &str) -> Option<String> {
        let familiar = familiar(name);
        let mut images = self.images.iter();
        let is_begun = |id: &str| name.len() >= 12 && id["sha256:".len()..].starts_with(name);
        let found = images
            .find(|(id, names)| *id == name || names.contains(&familiar) || is_begun(id.as_str()));
        found.map(|(id, _)| id.clone())
    }

    fn image(&self, id: &str) -> Option<Value> {
        let names = self.images.get(id)?.iter();
        let (digests, tags): (Vec<_>, Vec<_>) = names.partition(|name| name.contains('@'));
        Some(json!({ "Id": id, "RepoTags": tags, "RepoDigests": digests }))
    }
}

fn sandbox() -> Value {
    json!({
        "Id": PRETENDED_SANDBOX,
        "Name": "/k8s_POD_pod_default_uid_0",
        "State": { "Running": true, "Status": "running" },
        "Config": { "Labels": { "io.kubernetes.docker.type": "podsandbox" } },
        "HostConfig": { "Runtime": "runc" },
    })
}

/// Shortens a name as engines do: without the parts that mean Docker Hub.
fn familiar(name: &str) -> String {
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    name.strip_prefix("library/").unwrap_or(name).to_owned()
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|it| std::str::from_utf8(it).ok());
        let code = code.and_then(|it| u8::from_str_radix(it, 16).ok());
        if let (b'%', Some(byte)) = (first, code) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
