//! A pause container and one that joins it, by the engine's API and nothing else.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::UnixStream;

use crate::report::POD_UP;
use crate::{BUSYBOX, PAUSE};

/// The engine's API, in the oldest version that this project speaks.
pub(crate) struct Plain {
    socket: PathBuf,
}

impl Plain {
    pub(crate) fn new(socket: PathBuf) -> Self {
        Self { socket }
    }

    /// The whole life of two containers. The steps bear the names of those of a pod.
    pub(crate) async fn cycle(&self, name: &str) -> Vec<(&'static str, Duration)> {
        let mut times = Vec::new();
        let start = Instant::now();
        let mut last = start;
        let mut lap = |step| {
            times.push((step, last.elapsed()));
            last = Instant::now();
        };
        let body = json!({ "Image": PAUSE, "HostConfig": { "IpcMode": "shareable" } });
        let pause = self.create(&format!("pause-{name}"), &body).await;
        self.post(&format!("/containers/{pause}/start")).await;
        lap("RunPodSandbox");
        let join = format!("container:{pause}");
        let body = json!({
            "Image": BUSYBOX,
            "Cmd": ["sleep", "600"],
            "HostConfig": { "NetworkMode": join, "IpcMode": join },
        });
        let main = self.create(&format!("main-{name}"), &body).await;
        lap("CreateContainer");
        self.post(&format!("/containers/{main}/start")).await;
        lap("StartContainer");
        let up = start.elapsed();
        self.post(&format!("/containers/{main}/stop?t=0")).await;
        lap("StopContainer");
        self.call(Method::DELETE, &format!("/containers/{main}"), None)
            .await;
        lap("RemoveContainer");
        self.post(&format!("/containers/{pause}/stop")).await;
        lap("StopPodSandbox");
        self.call(Method::DELETE, &format!("/containers/{pause}"), None)
            .await;
        lap("RemovePodSandbox");
        times.push((POD_UP, up));
        times
    }

    async fn create(&self, name: &str, body: &Value) -> String {
        let path = format!("/containers/create?name={name}");
        let made = self.call(Method::POST, &path, Some(body)).await;
        let made: Value = serde_json::from_slice(&made).expect("JSON");
        made["Id"].as_str().expect("an id").to_owned()
    }

    async fn post(&self, path: &str) {
        self.call(Method::POST, path, None).await;
    }

    async fn call(&self, method: Method, path: &str, body: Option<&Value>) -> Bytes {
        let stream = UnixStream::connect(&self.socket).await.expect("connect");
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
            .await
            .expect("a connection");
        let connection = tokio::spawn(connection);
        let body = body.map_or_else(String::new, ToString::to_string);
        let request = Request::builder()
            .method(method)
            .uri(format!("/v1.41{path}"))
            .header("host", "docker")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))
            .expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        let status = response.status();
        let answer = response.into_body().collect().await.expect("an answer");
        connection.abort();
        let answer = answer.to_bytes();
        assert!(
            status.is_success() || status.as_u16() == 304,
            "{path}: {status} {answer:?}"
        );
        answer
    }
}
