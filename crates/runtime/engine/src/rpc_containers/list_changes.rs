//! `ListChanges`: lists the changes of a container to its root filesystem.

use std::os::unix::ffi::OsStrExt as _;

use futures_util::StreamExt as _;
use futures_util::stream;
use orlop_cri_api::extensions::{self as wire, ListChangesRequest, ListChangesResponse};
use orlop_fs::{Change, ChangeKind, changes};
use tokio::sync::mpsc;
use tonic::Status;

use crate::batches::Answers;
use crate::engine::Engine;
use crate::error::{Error, Result, status};
use crate::image::held_layers;

/// Number of changes in one message.
const BATCH: usize = 256;

/// Number of messages that are queued for a slow client.
const AHEAD: usize = 4;

/// Handles the `ListChanges` call.
pub async fn call(
    Engine(node): &Engine,
    request: ListChangesRequest,
) -> Result<Answers<ListChangesResponse>> {
    let container = node.containers.visible(&request.container_id)?;
    // The lease keeps them for as long as the container lives.
    let lower = held_layers(&node.images, container.id.as_str()).await?;
    let (sender, receiver) = mpsc::channel(AHEAD);
    // The thread walks as fast as the client reads.
    let thread = std::thread::Builder::new().name("orlop-changes".to_owned());
    let walking = thread.spawn(move || {
        let mut batch = Vec::with_capacity(BATCH);
        let walked = changes(&container.upper(), &lower, &mut |change| {
            batch.push(message(change));
            batch.len() < BATCH || send(&sender, &mut batch)
        });
        if let Err(source) = walked {
            let doing = format!("comparing the layers of container {}", container.id);
            let error = Error::io(doing)(source);
            let _ = sender.blocking_send(Err(status(&error)));
        } else if !batch.is_empty() {
            send(&sender, &mut batch);
        }
    });
    orlop_pool::started(walking).map_err(Error::io("starting a thread"))?;
    let answers = stream::unfold(receiver, |mut receiver| async {
        Some((receiver.recv().await?, receiver))
    });
    Ok(answers.boxed())
}

/// Sends a batch; returns false if the client has disconnected.
fn send(
    sender: &mpsc::Sender<Result<ListChangesResponse, Status>>,
    batch: &mut Vec<wire::Change>,
) -> bool {
    let changes = std::mem::replace(batch, Vec::with_capacity(BATCH));
    sender
        .blocking_send(Ok(ListChangesResponse { changes }))
        .is_ok()
}

fn message(change: Change) -> wire::Change {
    let kind = match change.kind {
        ChangeKind::Modified => wire::ChangeKind::Modified,
        ChangeKind::Added => wire::ChangeKind::Added,
        ChangeKind::Deleted => wire::ChangeKind::Deleted,
    };
    wire::Change {
        path: change.path.as_os_str().as_bytes().to_vec(),
        kind: kind.into(),
        mode: change.mode,
        size: change.size,
    }
}
