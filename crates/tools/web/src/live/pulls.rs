//! Running pulls.

use std::collections::BTreeMap;
use std::time::Duration;

use orlop_cri_api::client::Connection;
use orlop_cri_api::images::{PullProgress, PullStage, WatchPullsRequest};
use serde_json::json;
use tokio::sync::mpsc::Sender;
use tokio::time::{Instant, timeout_at};

use super::news::News;
use super::time::moment;
use crate::bounded::{MOST, cut};

/// Minimum interval between messages.
const PACE: Duration = Duration::from_millis(500);

/// Forwards the running pulls until the endpoint is gone.
pub(super) async fn watch(cri: Connection, to: Sender<News>) {
    let mut client = cri.orlop_images();
    let Ok(answer) = client.watch_pulls(WatchPullsRequest::default()).await else {
        return;
    };
    let mut progress = answer.into_inner();
    let mut pulls = Pulls::default();
    while let Ok(Some(first)) = progress.message().await {
        pulls.note(first);
        let end = Instant::now() + PACE;
        while let Ok(next) = timeout_at(end, progress.message()).await {
            let Ok(Some(next)) = next else { return };
            pulls.note(next);
        }
        if to
            .send(News::Pulls(pulls.told(Instant::now())))
            .await
            .is_err()
        {
            return;
        }
    }
}

/// Running pulls by number.
#[derive(Default)]
struct Pulls(BTreeMap<u64, Pull>);

struct Pull {
    now: PullProgress,
    before: Option<(Instant, u64)>,
    rate: Option<f64>,
}

impl Pulls {
    fn note(&mut self, progress: PullProgress) {
        let is_over = matches!(
            progress.stage(),
            PullStage::Done | PullStage::Exists | PullStage::Failed
        );
        if is_over {
            self.0.remove(&progress.id);
            return;
        }
        if let Some(pull) = self.0.get_mut(&progress.id) {
            pull.now = progress;
        } else if self.0.len() < MOST {
            let pull = Pull {
                before: None,
                rate: None,
                now: progress,
            };
            self.0.insert(pull.now.id, pull);
        }
    }

    fn told(&mut self, at: Instant) -> String {
        let told = self.0.values_mut().map(|pull| {
            let layers = &pull.now.layers;
            let sum = |value: fn(&orlop_cri_api::images::LayerProgress) -> u64| {
                layers.iter().map(value).fold(0, u64::saturating_add)
            };
            let (done, total) = (sum(|layer| layer.fetched), sum(|layer| layer.size));
            if let Some((then, before)) = pull.before {
                let passed = at.duration_since(then).as_secs_f64();
                if passed > 0.0 {
                    pull.rate = Some(done.saturating_sub(before) as f64 / passed);
                }
            }
            pull.before = Some((at, done));
            json!({
                "image": cut(&pull.now.image),
                "started": moment(pull.now.started_at),
                "done": done,
                "total": total,
                "rate": pull.rate.map(f64::round),
                "waiting": pull.now.waiters,
            })
        });
        json!({ "pulls": told.collect::<Vec<_>>() }).to_string()
    }
}

#[cfg(test)]
mod tests {
    use orlop_cri_api::images::LayerProgress;

    use super::*;

    #[test]
    fn pulls_have_a_speed_and_end() {
        let mut pulls = Pulls::default();
        let progress = |stage: PullStage, fetched| PullProgress {
            id: 1,
            image: "example/image".into(),
            stage: stage.into(),
            layers: vec![
                LayerProgress {
                    size: 1000,
                    fetched,
                    ..Default::default()
                };
                2
            ],
            ..Default::default()
        };
        let begin = Instant::now();
        let mut told = |progress: PullProgress, seconds| -> serde_json::Value {
            pulls.note(progress);
            serde_json::from_str(&pulls.told(begin + Duration::from_secs(seconds))).unwrap()
        };
        let first = told(progress(PullStage::Downloading, 100), 0);
        assert_eq!(first["pulls"][0]["rate"], serde_json::Value::Null);
        let next = told(progress(PullStage::Downloading, 400), 2);
        assert_eq!(next["pulls"][0]["rate"], 300.0);
        assert_eq!(next["pulls"][0]["done"], 800);
        assert_eq!(next["pulls"][0]["total"], 2000);
        assert_eq!(told(progress(PullStage::Done, 1000), 3)["pulls"], json!([]));
    }
}
