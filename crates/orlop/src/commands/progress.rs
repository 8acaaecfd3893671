//! How a pull gets on: bars on a terminal, a line per change elsewhere. On the standard error,
//! so that scripts get what they always got. Only orlop tells; with other runtimes it is silent.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use orlop_cri::images::images_client::ImagesClient;
use orlop_cri::images::{LayerProgress, PullProgress, PullStage, WatchPullsRequest};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::Streaming;
use tonic::transport::Channel;

use super::output::{short_bytes, short_id};

const BAR: usize = 30;

/// How long a pull waits for its watch to begin, and for the last of what it tells.
const PATIENCE: Duration = Duration::from_secs(1);

/// Watches the pulls of an image until it is dropped.
pub(super) struct Progress {
    task: Option<JoinHandle<()>>,
}

impl Progress {
    /// Begins to watch; a pull that is asked for after that is seen from its beginning.
    pub(super) async fn watch(mut client: ImagesClient<Channel>, image: &str) -> Self {
        let request = WatchPullsRequest {
            image: image.to_owned(),
            until_done: true,
        };
        // Another runtime says that it doesn't know the call; the pull itself reports what is
        // wrong.
        let answer = timeout(PATIENCE, client.watch_pulls(request)).await;
        let stream = answer.ok().and_then(Result::ok);
        Self {
            task: stream.map(|stream| tokio::spawn(show(stream.into_inner()))),
        }
    }

    /// Shows the end of a pull that has ended.
    pub(super) async fn finish(mut self) {
        if let Some(task) = &mut self.task {
            // It is nothing but a show: whoever is too slow for it misses its end.
            let _ = timeout(PATIENCE, task).await;
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn show(mut stream: Streaming<PullProgress>) {
    let mut painter = Painter::new(io::stderr().is_terminal());
    while let Ok(Some(progress)) = stream.message().await {
        let text = painter.paint(&progress);
        // Nobody reads any more: the pull goes on.
        if io::stderr().write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// Turns states into text.
struct Painter {
    bars: bool,
    /// Lines to go up before painting anew.
    painted: usize,
    stages: HashMap<String, i32>,
}

impl Painter {
    fn new(bars: bool) -> Self {
        Self {
            bars,
            painted: 0,
            stages: HashMap::new(),
        }
    }

    fn paint(&mut self, progress: &PullProgress) -> String {
        if self.bars {
            self.bars(progress)
        } else {
            self.lines(progress)
        }
    }

    /// All layers, over what was painted last.
    fn bars(&mut self, progress: &PullProgress) -> String {
        let mut text = String::new();
        if self.painted > 0 {
            let _ = write!(text, "\x1b[{}A", self.painted);
        }
        for layer in &progress.layers {
            let _ = writeln!(text, "\x1b[2K{}", bar(layer));
        }
        self.painted = progress.layers.len();
        text
    }

    /// The layers whose stage has changed.
    fn lines(&mut self, progress: &PullProgress) -> String {
        let mut text = String::new();
        for layer in &progress.layers {
            let before = self.stages.insert(layer.digest.clone(), layer.stage);
            if before != Some(layer.stage) && layer.stage() != PullStage::Waiting {
                let _ = writeln!(
                    text,
                    "{} {} {}",
                    short_id(&layer.digest),
                    stage(layer.stage()),
                    short_bytes(layer.size)
                );
            }
        }
        text
    }
}

fn bar(layer: &LayerProgress) -> String {
    let id = short_id(&layer.digest);
    let name = stage(layer.stage());
    if layer.stage() != PullStage::Downloading || layer.size == 0 {
        return format!("{id}  {name:<11} {}", short_bytes(layer.size));
    }
    let fetched = layer.fetched.min(layer.size);
    let full =
        usize::try_from(u128::from(fetched) * BAR as u128 / u128::from(layer.size)).unwrap_or(BAR);
    format!(
        "{id}  {name:<11} [{}{}] {}/{}",
        "=".repeat(full),
        " ".repeat(BAR - full),
        short_bytes(fetched),
        short_bytes(layer.size)
    )
}

fn stage(stage: PullStage) -> &'static str {
    match stage {
        PullStage::Waiting => "waiting",
        PullStage::Resolving => "resolving",
        PullStage::Downloading => "downloading",
        PullStage::Unpacking => "unpacking",
        PullStage::Done => "done",
        PullStage::Exists => "exists",
        PullStage::Failed => "failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(stage: PullStage, fetched: u64) -> PullProgress {
        PullProgress {
            layers: vec![LayerProgress {
                digest: "sha256:0123456789abcdef".into(),
                stage: stage.into(),
                size: 2_000_000,
                fetched,
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    #[test]
    fn bars_grow_in_place() {
        let mut painter = Painter::new(true);
        let half = painter.paint(&progress(PullStage::Downloading, 1_000_000));
        assert!(
            half.contains(&format!("[{}{}] 1MB/2MB", "=".repeat(15), " ".repeat(15))),
            "{half}"
        );
        let done = painter.paint(&progress(PullStage::Done, 9_000_000));
        assert!(
            done.starts_with("\x1b[1A\x1b[2K0123456789abc  done"),
            "{done:?}"
        );
    }

    #[test]
    fn lines_tell_changes_only() {
        let mut painter = Painter::new(false);
        assert_eq!(painter.paint(&progress(PullStage::Waiting, 0)), "");
        assert_eq!(
            painter.paint(&progress(PullStage::Downloading, 1)),
            "0123456789abc downloading 2MB\n"
        );
        assert_eq!(painter.paint(&progress(PullStage::Downloading, 2)), "");
        assert_eq!(
            painter.paint(&progress(PullStage::Done, 2)),
            "0123456789abc done 2MB\n"
        );
    }
}
