//! `WatchPulls`: streams the progress of pulls.
//!
//! The image store is polled every [`PAUSE`], and only while a client watches a running pull. For a slow client it is
//! polled less often, so no messages pile up.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream;
use orlop_cri_api::images::{LayerProgress, PullProgress, PullStage, WatchPullsRequest};
use orlop_image_store::LayerState;
use tokio::sync::{broadcast, watch};
use tokio::time::Instant;

use crate::batches::Answers;
use crate::engine::Engine;
use crate::error::Result;
use crate::image::pulls::{Ended, UnderWay, full_name};
use crate::node::Node;

/// Interval between two polls.
const PAUSE: Duration = Duration::from_millis(150);

/// Handles the `WatchPulls` call.
pub async fn call(
    Engine(node): &Engine,
    request: WatchPullsRequest,
) -> Result<Answers<PullProgress>> {
    let watcher = Watcher {
        name: (!request.image.is_empty()).then(|| full_name(&request.image)),
        until_done: request.until_done,
        begun: node.pulls.begun(),
        ended: node.pulls.ended(),
        node: Arc::clone(node),
        told: HashMap::new(),
        ready: VecDeque::new(),
        busy: true,
        next_look: Instant::now(),
        over: false,
    };
    let answers = stream::unfold(watcher, |mut watcher| async move {
        let progress = watcher.next().await?;
        Some((Ok(progress), watcher))
    });
    Ok(answers.boxed())
}

struct Watcher {
    node: Arc<Node>,
    /// The full name of the image to watch; all pulls if `None`.
    name: Option<String>,
    until_done: bool,
    begun: watch::Receiver<()>,
    ended: broadcast::Receiver<Ended>,
    /// The last progress of each running pull that the client received.
    told: HashMap<u64, PullProgress>,
    ready: VecDeque<PullProgress>,
    /// Whether a pull was running at the last poll.
    busy: bool,
    next_look: Instant,
    over: bool,
}

impl Watcher {
    async fn next(&mut self) -> Option<PullProgress> {
        loop {
            if let Some(progress) = self.ready.pop_front() {
                return Some(progress);
            }
            if self.over {
                return None;
            }
            self.wait().await?;
        }
    }

    /// Waits for the end of a pull, the next poll or the next pull.
    async fn wait(&mut self) -> Option<()> {
        let ended = if self.busy {
            tokio::select! {
                biased;
                ended = self.ended.recv() => Some(ended),
                () = tokio::time::sleep_until(self.next_look) => None,
            }
        } else {
            tokio::select! {
                biased;
                ended = self.ended.recv() => Some(ended),
                begun = self.begun.changed() => begun.map(|()| None).ok()?,
            }
        };
        match ended {
            None => self.look().await,
            Some(Ok(ended)) => self.end(ended),
            // End events were missed: forget pulls that no longer run.
            Some(Err(broadcast::error::RecvError::Lagged(_))) => {
                let under_way = self.node.pulls.under_way();
                let known = self.told.len();
                self.told
                    .retain(|id, _| under_way.values().any(|pull| pull.id == *id));
                self.over = self.until_done && self.told.len() < known;
            }
            Some(Err(broadcast::error::RecvError::Closed)) => return None,
        }
        Some(())
    }

    async fn look(&mut self) {
        self.next_look = Instant::now() + PAUSE;
        let flights = self.node.images.pulls();
        let mut busy = false;
        for (name, pull) in self.node.pulls.under_way() {
            if !self.is_wanted(&name) {
                continue;
            }
            busy = true;
            // A short name is pulled under one of the full names that it stands for.
            let names = self.node.images.names_here(&pull.image).await;
            let names = names.unwrap_or_default().into_iter();
            let mut names = names.map(|name| name.to_string()).chain([name]);
            let flight = names.find_map(|name| flights.iter().find(|it| it.reference == name));
            let layers = flight.map(|flight| &flight.layers[..]).unwrap_or_default();
            let progress = progress(pull, layers);
            if self.told.get(&progress.id) != Some(&progress) {
                self.told.insert(progress.id, progress.clone());
                self.ready.push_back(progress);
            }
        }
        self.busy = busy;
    }

    fn end(&mut self, ended: Ended) {
        if !self.is_wanted(&ended.name) {
            return;
        }
        let mut progress = ended.progress;
        let last = self.told.remove(&progress.id);
        progress.layers = last.map(|last| last.layers).unwrap_or_default();
        if progress.stage() == PullStage::Done {
            progress.layers.iter_mut().for_each(finish);
        }
        self.over = self.until_done;
        self.ready.push_back(progress);
    }

    fn is_wanted(&self, name: &str) -> bool {
        self.name.as_deref().is_none_or(|wanted| wanted == name)
    }
}

fn progress(pull: UnderWay, layers: &[orlop_image_store::LayerProgress]) -> PullProgress {
    PullProgress {
        id: pull.id,
        image: pull.image,
        stage: stage(layers).into(),
        started_at: pull.started_at,
        layers: layers.iter().map(layer).collect(),
        waiters: pull.waiters,
        ..Default::default()
    }
}

/// Derives the stage of a pull from its layers.
fn stage(layers: &[orlop_image_store::LayerProgress]) -> PullStage {
    let is_any = |state| layers.iter().any(|layer| layer.state == state);
    if layers.is_empty() {
        PullStage::Resolving
    } else if layers
        .iter()
        .all(|layer| layer.state == LayerState::Waiting)
    {
        PullStage::Waiting
    } else if is_any(LayerState::Waiting) || is_any(LayerState::Downloading) {
        PullStage::Downloading
    } else {
        PullStage::Unpacking
    }
}

fn layer(layer: &orlop_image_store::LayerProgress) -> LayerProgress {
    let stage = match layer.state {
        LayerState::Waiting => PullStage::Waiting,
        LayerState::Downloading => PullStage::Downloading,
        LayerState::Unpacking | LayerState::Publishing => PullStage::Unpacking,
        LayerState::Done => PullStage::Done,
        LayerState::Present => PullStage::Exists,
        LayerState::Begun => PullStage::Begun,
    };
    LayerProgress {
        digest: layer.digest.to_string(),
        stage: stage.into(),
        size: layer.total,
        fetched: layer.downloaded,
        unpacked: layer.unpacked,
    }
}

/// Marks a layer of a completed pull as done, unless it is a lazy layer.
fn finish(layer: &mut LayerProgress) {
    match layer.stage() {
        PullStage::Begun => return,
        PullStage::Exists => {}
        _ => layer.set_stage(PullStage::Done),
    }
    layer.fetched = layer.size;
    layer.unpacked = layer.size;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_that_comes_as_it_is_read_is_not_told_as_downloaded() {
        let told = |stage| {
            let mut layer = LayerProgress {
                size: 100,
                fetched: 10,
                ..LayerProgress::default()
            };
            layer.set_stage(stage);
            finish(&mut layer);
            (layer.stage(), layer.fetched)
        };
        assert_eq!(told(PullStage::Downloading), (PullStage::Done, 100));
        assert_eq!(told(PullStage::Exists), (PullStage::Exists, 100));
        assert_eq!(told(PullStage::Begun), (PullStage::Begun, 10));
    }
}
