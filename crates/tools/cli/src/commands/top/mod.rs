//! `top`: a live view of pods and containers.

mod keys;
mod paint;
mod plain;
mod sample;
mod screen;
mod view;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::bail;
use tokio::io::AsyncReadExt;
use tokio::signal::unix::{SignalKind, signal};

use crate::connect::Session;
use crate::input::Span;
use crate::output::FormatFlags;
use keys::{Key, Keys};
use sample::Sampler;
use screen::Screen;
use view::{Act, View};

/// Arguments of `top`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show only rows whose container, pod or namespace name contains this text
    #[arg(value_name = "TEXT")]
    filter: Option<String>,

    /// Time between two updates
    #[arg(short, long, value_name = "TIME", default_value = "2s")]
    interval: Span,

    /// Column to sort by
    #[arg(short, long, value_name = "COLUMN", default_value = "cpu")]
    sort: view::Column,

    /// List containers without their pods
    #[arg(short, long)]
    containers: bool,

    /// Print a table for each update instead of the full-screen view (the default without a
    /// terminal)
    #[arg(short, long)]
    batch: bool,

    /// Exit after N updates; without the full-screen view the default is 1, and 0 means no limit
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,

    #[command(flatten)]
    format: FormatFlags,
}

/// Minimum interval; shorter ones mostly measure themselves.
const SHORTEST: Duration = Duration::from_millis(200);

pub(super) async fn run(args: Args, session: &Session) -> anyhow::Result<()> {
    let interval = args.interval.0.max(SHORTEST);
    let images = session.quick_image_connection().await?.orlop_images();
    let sampler = Sampler::new(session.runtime().await?, images);
    let mut view = View::new(args.sort, !args.containers, args.filter.clone());
    let format = args.format.or_table()?;
    let interactive = std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
    if args.batch || !interactive || !matches!(format, crate::output::Format::Table) {
        return plain::run(
            sampler,
            &mut view,
            interval,
            args.count.unwrap_or(1),
            &format,
        )
        .await;
    }
    let mut live = Live {
        session,
        sampler,
        view,
        interval,
        left: args.count.filter(|count| *count > 0),
    };
    live.run().await
}

/// The full-screen view.
struct Live<'a> {
    session: &'a Session,
    sampler: Sampler,
    view: View,
    interval: Duration,
    left: Option<u64>,
}

impl Live<'_> {
    async fn run(&mut self) -> anyhow::Result<()> {
        let mut screen = Screen::take()?;
        let mut input = orlop_streaming::terminal::input(std::io::stdin())?;
        let mut keys = Keys::default();
        let mut resized = signal(SignalKind::window_change())?;
        let mut told_to_end = signal(SignalKind::terminate())?;
        let mut hung_up = signal(SignalKind::hangup())?;
        let mut ticks = tokio::time::interval(self.interval);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut buffer = [0; 256];
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if !self.view.paused {
                        self.look().await;
                        if self.left == Some(0) {
                            return Ok(());
                        }
                    }
                }
                read = input.read(&mut buffer) => {
                    let read = read?;
                    if read == 0 {
                        return Ok(());
                    }
                    for key in keys.take(&buffer[..read]) {
                        match self.view.press(key) {
                            Act::Nothing => {}
                            Act::Quit => return Ok(()),
                            Act::Look => ticks.reset_immediately(),
                            Act::Faster | Act::Slower => {
                                self.change_pace(key);
                                ticks = tokio::time::interval(self.interval);
                            }
                            Act::Logs(id) => {
                                let pods = ["logs", "--follow", "--tail", "200", &id];
                                self.aside(&mut screen, &pods).await?;
                            }
                            Act::Exec(id) => {
                                self.aside(&mut screen, &["exec", "-it", &id, "sh"]).await?;
                            }
                        }
                    }
                }
                _ = resized.recv() => {}
                _ = told_to_end.recv() => return Ok(()),
                _ = hung_up.recv() => return Ok(()),
            }
            let (width, height) = screen.size();
            let endpoint = self.session.endpoint_shown();
            let frame = paint::frame(&mut self.view, &endpoint, self.interval, width, height);
            screen.show(&frame)?;
        }
    }

    async fn look(&mut self) {
        match self.sampler.look().await {
            Ok(node) => {
                self.view.take(node);
                self.left = self.left.map(|left| left - 1);
            }
            // The last data stays on the screen, marked as outdated, until the runtime responds.
            Err(error) => self.view.trouble = Some(format!("{error:#}")),
        }
    }

    fn change_pace(&mut self, key: Key) {
        self.interval = match key {
            Key::Char('+') => (self.interval / 2).max(SHORTEST),
            _ => (self.interval * 2).min(Duration::from_mins(1)),
        };
    }

    /// Runs another orlop command on the screen, and returns when it ends.
    async fn aside(&self, screen: &mut Screen, words: &[&str]) -> anyhow::Result<()> {
        screen.leave();
        let own = std::env::current_exe()?;
        let mut command = tokio::process::Command::new(own);
        command.args(self.session.flags_again()).args(words);
        println!("-- {} (press ctrl-c to return) --", words.join(" "));
        // An interrupt is meant for that command, but reaches this process as well.
        let mut interrupts = signal(SignalKind::interrupt())?;
        let status = command.status().await;
        while let Ok(Some(())) =
            tokio::time::timeout(Duration::from_millis(1), interrupts.recv()).await
        {}
        match status {
            Ok(status) if !status.success() && status.code().is_some() => {
                println!("-- the command exited with {status}; press enter --");
                let mut line = [0; 64];
                let mut input = orlop_streaming::terminal::input(std::io::stdin())?;
                let _ = tokio::time::timeout(Duration::from_mins(10), input.read(&mut line)).await;
            }
            Ok(_) => {}
            Err(error) => bail!("cannot run {}: {error}", words[0]),
        }
        screen.take_again()
    }
}
