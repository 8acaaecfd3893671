//! Progress of a pull: bars on a terminal, else a line per change. It is written to standard error, so that scripts see
//! the usual output. Only orlop reports progress; with other runtimes nothing is shown.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use orlop_cri_api::images::images_client::ImagesClient;
use orlop_cri_api::images::{LayerProgress, PullProgress, PullStage, WatchPullsRequest};
use rustix::termios::tcgetwinsize;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::output::{short_bytes, short_id};

const BAR: usize = 30;
/// Minimum time to compute a speed; over shorter times it fluctuates.
const SPEED_INTERVAL: Duration = Duration::from_millis(300);

/// Time that a pull waits for its watch to start, and for the last progress at its end.
const PATIENCE: Duration = Duration::from_secs(1);

/// Watches the pulls of an image until it is dropped.
pub(crate) struct Progress {
    task: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts the watch. A pull that starts afterwards is seen from its start.
    pub(crate) async fn watch(mut client: ImagesClient<Channel>, image: &str) -> Self {
        let request = WatchPullsRequest {
            image: image.to_owned(),
            until_done: true,
        };
        // Another runtime responds that the call is unknown; other errors are reported by the pull itself.
        let answer = timeout(PATIENCE, client.watch_pulls(request)).await;
        let stream = answer.ok().and_then(Result::ok);
        Self {
            task: stream.map(|stream| tokio::spawn(show(stream.into_inner()))),
        }
    }

    /// Shows the final progress after the pull.
    pub(crate) async fn finish(mut self) {
        if let Some(task) = &mut self.task {
            // Progress is not essential: if it is too slow, its end is not shown.
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
    let terminal = io::stderr().is_terminal();
    let mut painter = Painter::new(terminal);
    while let Ok(Some(progress)) = stream.message().await {
        if terminal && let Ok(size) = tcgetwinsize(io::stderr()) {
            painter.room = (usize::from(size.ws_row), usize::from(size.ws_col));
        }
        let text = painter.paint(&progress, Instant::now());
        // Nobody reads the output any more, but the pull continues.
        if io::stderr().write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// Formats progress as text.
struct Painter {
    bars: bool,
    /// Rows and columns of the terminal; zero if unknown.
    room: (usize, usize),
    /// Lines to move up before the next redraw.
    painted: usize,
    layers: HashMap<String, Known>,
}

/// Previous state of a layer.
#[derive(Default)]
struct Known {
    stage: i32,
    fetched: u64,
    at: Option<Instant>,
    /// Smoothed bytes per second.
    speed: f64,
}

impl Known {
    fn look(&mut self, layer: &LayerProgress, now: Instant) {
        if let Some(at) = self.at {
            let seconds = now.duration_since(at).as_secs_f64();
            if seconds < SPEED_INTERVAL.as_secs_f64() {
                return;
            }
            let speed = layer.fetched.saturating_sub(self.fetched) as f64 / seconds;
            self.speed = if self.speed == 0.0 {
                speed
            } else {
                0.7 * self.speed + 0.3 * speed
            };
        }
        (self.fetched, self.at) = (layer.fetched, Some(now));
    }
}

impl Painter {
    fn new(bars: bool) -> Self {
        Self {
            bars,
            room: (0, 0),
            painted: 0,
            layers: HashMap::new(),
        }
    }

    fn paint(&mut self, progress: &PullProgress, now: Instant) -> String {
        if self.bars {
            self.bars(progress, now)
        } else {
            self.lines(progress)
        }
    }

    /// Redraws a line per layer. If the terminal has too few rows, only active layers and a summary of the others are
    /// drawn.
    fn bars(&mut self, progress: &PullProgress, now: Instant) -> String {
        let mut lines = Vec::new();
        for layer in &progress.layers {
            let known = self.layers.entry(layer.digest.clone()).or_default();
            known.look(layer, now);
            lines.push((layer, bar(layer, known.speed)));
        }
        let (rows, columns) = self.room;
        let most = if rows < 3 { usize::MAX } else { rows - 1 };
        let mut summary = None;
        if lines.len() > most {
            let is_done = |layer: &LayerProgress| {
                matches!(
                    layer.stage(),
                    PullStage::Done | PullStage::Exists | PullStage::Begun
                )
            };
            let done = lines.iter().filter(|(layer, _)| is_done(layer)).count();
            summary = Some(format!("{done} of {} layers complete", lines.len()));
            lines.sort_by_key(|(layer, _)| match layer.stage() {
                PullStage::Downloading | PullStage::Unpacking => 0,
                PullStage::Waiting | PullStage::Resolving => 1,
                _ => 2,
            });
            lines.truncate(most - 1);
        }
        let mut text = String::new();
        if self.painted > 0 {
            let _ = write!(text, "\x1b[{}A", self.painted);
        }
        let shown = lines.into_iter().map(|(_, line)| line).chain(summary);
        let mut painted = 0;
        for line in shown {
            // A wrapped line would take two rows.
            let line: String = match columns {
                0 => line,
                columns => line.chars().take(columns).collect(),
            };
            let _ = writeln!(text, "\x1b[2K{line}");
            painted += 1;
        }
        // If there are fewer lines than before, the old ones are cleared.
        text.push_str("\x1b[J");
        self.painted = painted;
        text
    }

    /// Returns lines for the layers whose stage has changed.
    fn lines(&mut self, progress: &PullProgress) -> String {
        let mut text = String::new();
        for layer in &progress.layers {
            let known = self.layers.entry(layer.digest.clone());
            let is_new = matches!(known, std::collections::hash_map::Entry::Vacant(_));
            let before = std::mem::replace(&mut known.or_default().stage, layer.stage);
            if (is_new || before != layer.stage) && layer.stage() != PullStage::Waiting {
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

/// Draws a bar: `=` is unpacked, `-` is downloaded but not unpacked.
fn bar(layer: &LayerProgress, speed: f64) -> String {
    let id = short_id(&layer.digest);
    let name = stage(layer.stage());
    let moves = matches!(layer.stage(), PullStage::Downloading | PullStage::Unpacking);
    if !moves || layer.size == 0 {
        return format!("{id}  {name:<11} {}", short_bytes(layer.size));
    }
    let part = |bytes: u64| {
        let bytes = u128::from(bytes.min(layer.size));
        usize::try_from(bytes * BAR as u128 / u128::from(layer.size)).unwrap_or(BAR)
    };
    let fetched = part(layer.fetched);
    let unpacked = part(layer.unpacked).min(fetched);
    let mut line = format!(
        "{id}  {name:<11} [{}{}{}] {}/{}",
        "=".repeat(unpacked),
        "-".repeat(fetched - unpacked),
        " ".repeat(BAR - fetched),
        short_bytes(layer.fetched.min(layer.size)),
        short_bytes(layer.size)
    );
    if layer.stage() == PullStage::Downloading && speed > 0.0 {
        let _ = write!(line, " {}/s", short_bytes(speed as u64));
    }
    line
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
        PullStage::Begun => "mounted",
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
    fn bars_grow_in_place_and_tell_what_is_unpacked_and_how_fast() {
        let (mut painter, start) = (Painter::new(true), Instant::now());
        let mut half = progress(PullStage::Downloading, 1_000_000);
        half.layers[0].unpacked = 400_000;
        let first = painter.paint(&half, start);
        let bar = format!("[{}{}{}]", "=".repeat(6), "-".repeat(9), " ".repeat(15));
        assert!(first.contains(&format!("{bar} 1MB/2MB\n")), "{first}");
        half.layers[0].fetched = 1_500_000;
        let later = painter.paint(&half, start + Duration::from_millis(500));
        assert!(later.contains("1.5MB/2MB 1MB/s\n"), "{later}");
        let done = painter.paint(&progress(PullStage::Done, 9_000_000), start);
        assert!(
            done.starts_with("\x1b[1A\x1b[2K0123456789abc  done"),
            "{done:?}"
        );
    }

    #[test]
    fn a_layer_that_comes_later_is_mounted_and_not_downloaded() {
        let begun = progress(PullStage::Begun, 20);
        let text = Painter::new(true).paint(&begun, Instant::now());
        assert!(
            text.contains("0123456789abc  mounted     2MB\n"),
            "{text:?}"
        );
        let text = Painter::new(false).paint(&begun, Instant::now());
        assert_eq!(text, "0123456789abc mounted 2MB\n");
    }

    #[test]
    fn bars_fit_the_terminal() {
        let mut painter = Painter::new(true);
        painter.room = (5, 30);
        let mut many = progress(PullStage::Done, 0);
        for n in 0..20 {
            let mut layer = many.layers[0].clone();
            layer.digest = format!("sha256:{n:064}");
            layer.set_stage(match n {
                15 => PullStage::Downloading,
                _ => PullStage::Done,
            });
            many.layers.push(layer);
        }
        let text = painter.paint(&many, Instant::now());
        assert_eq!(text.lines().filter(|line| line.contains("[2K")).count(), 4);
        assert!(text.contains("downloading"), "{text}");
        assert!(text.contains("20 of 21 layers complete"), "{text}");
        let longest = text.split("\x1b[2K").skip(1);
        assert!(longest.map(|line| line.trim_end().len()).max() <= Some(30 + "\x1b[J".len()));
        let again = painter.paint(&many, Instant::now());
        assert!(again.starts_with("\x1b[4A"), "{again:?}");
    }

    #[test]
    fn lines_tell_changes_only() {
        let (mut painter, now) = (Painter::new(false), Instant::now());
        let mut paint = |stage, fetched| painter.paint(&progress(stage, fetched), now);
        assert_eq!(paint(PullStage::Waiting, 0), "");
        assert_eq!(
            paint(PullStage::Downloading, 1),
            "0123456789abc downloading 2MB\n"
        );
        assert_eq!(paint(PullStage::Downloading, 2), "");
        assert_eq!(paint(PullStage::Done, 2), "0123456789abc done 2MB\n");
    }
}
