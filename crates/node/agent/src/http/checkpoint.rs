//! `/checkpoint`: writes a container checkpoint to an archive below the agent's directory, as the
//! kubelet does.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::time::Duration;

use http::StatusCode;
use orlop_cri_api::client::ClientError;
use orlop_kuberuntime::manager::{PodView, RequestError};
use serde_json::json;

use super::answer::{self, Answer};
use super::query::Query;
use crate::shared::Shared;

/// The directory of the archives, below the agent's directory.
const DIRECTORY: &str = "checkpoints";

/// Checkpoints a container, and answers with the path of the archive.
pub(super) async fn answer(
    shared: &Shared,
    pod: &PodView,
    container: &str,
    query: &Query,
) -> Answer {
    let timeout = match query.number::<u64>("timeout") {
        Ok(timeout) => timeout.map(Duration::from_secs),
        Err(problem) => return answer::text(StatusCode::BAD_REQUEST, format!("{problem}\n")),
    };
    let dir = shared.options().root_dir.join(DIRECTORY);
    let making = dir.clone();
    let made = orlop_pool::blocking(move || {
        let mut private = DirBuilder::new();
        private.mode(0o700).recursive(true).create(making)
    });
    if let Err(error) = made.await.map_err(io::Error::other).flatten() {
        let text = format!("cannot create {}: {error}\n", dir.display());
        return answer::text(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    let now = jiff::Zoned::now().strftime("%Y-%m-%dT%H:%M:%S%:z");
    let (name, namespace) = (&pod.name, &pod.namespace);
    let location = dir.join(format!(
        "checkpoint-{name}_{namespace}-{container}-{now}.tar"
    ));
    let written = shared
        .manager()
        .checkpoint(&pod.uid, container, &location, timeout)
        .await;
    match written {
        Ok(()) => answer::json(&json!({ "items": [location] })),
        // A runtime without support answers "not found".
        Err(RequestError::Runtime(ClientError::Call { status, .. }))
            if status.code() == tonic::Code::Unimplemented =>
        {
            answer::text(StatusCode::NOT_FOUND, format!("{}\n", status.message()))
        }
        Err(error) => answer::failure(&error),
    }
}
