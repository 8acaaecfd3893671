//! Follower of one container's log until the log ends.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::cursor::Cursor;
use super::file::{LogFile, format};
use super::lines::Lines;
use super::source::{From, Source};
use crate::docker::{Docker, DockerError, Follow, Reply};
use crate::engine_return::EngineReturn;

/// A request to a follower.
pub(super) enum Wish {
    /// Reopen the log file and report the result.
    Reopen(oneshot::Sender<io::Result<()>>),
    /// Stop after a whole line.
    Stop,
}

/// The source of the logs and the settings for writing them.
#[derive(Clone)]
pub(super) struct Engine {
    pub(super) docker: Arc<Docker>,
    /// Wakes readers that wait for the engine when it is back.
    pub(super) back: EngineReturn,
    /// Maximum line length in bytes; longer lines are split.
    pub(super) longest: usize,
}

/// Copies one container's log to its file.
pub(super) struct Follower {
    engine: Engine,
    source: Source,
    file: LogFile,
    cursor: Cursor,
}

/// The outcome of one round of reading.
enum End {
    /// The engine has sent the whole log.
    Complete,
    /// The connection broke, or the engine is unreachable.
    Broken,
    /// The engine is reachable and returned an error.
    Failed,
    /// There is nothing left to read, now or later.
    Over,
}

/// Lines are buffered up to this size before they are written.
const GATHERED: usize = 64 * 1024;
/// How often the engine may fail to return the log of a container that has ended.
const PATIENCE: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Follower {
    /// Opens the file and determines its position in the log.
    pub(super) async fn open(engine: &Engine, source: Source, from: From) -> io::Result<Self> {
        let path = source.path.clone();
        let opened = orlop_pool::blocking(move || {
            let file = LogFile::open(&path)?;
            let cursor = match from {
                From::File => Cursor::of_log(&path)?,
                From::Time(time) => Cursor::at(time),
            };
            io::Result::Ok((file, cursor))
        });
        let (file, cursor) = opened.await.map_err(io::Error::other)??;
        Ok(Self {
            engine: engine.clone(),
            source,
            file,
            cursor,
        })
    }

    /// Reads until the container has ended and its whole log is written.
    pub(super) async fn run(mut self, mut wishes: mpsc::Receiver<Wish>) {
        let mut pause = FIRST_PAUSE;
        let mut failures = 0;
        loop {
            let before = self.cursor.clone();
            let end = self.round(Follow::Yes, &mut wishes).await;
            if self.cursor != before {
                pause = FIRST_PAUSE;
            }
            match end {
                End::Over => return,
                End::Complete | End::Broken | End::Failed => {}
            }
            match self.engine.docker.container(&self.source.id).await {
                Ok(found) if !found.state.running => {
                    // The stream may have ended slightly before the log did.
                    match self.round(Follow::No, &mut wishes).await {
                        End::Complete | End::Over => return,
                        End::Broken => {}
                        End::Failed => failures += 1,
                    }
                    if failures >= PATIENCE {
                        tracing::warn!(
                            container = self.source.id,
                            "cannot read the rest of the container log from the engine"
                        );
                        return;
                    }
                }
                Err(error) if error.is_not_found() => return,
                _ => {}
            }
            // The engine is unreachable or restarts the container's log: retry later.
            tokio::select! {
                wish = wishes.recv() => match wish {
                    Some(wish) => if self.grant(wish).await.is_break() { return },
                    None => return,
                },
                () = sleep(pause) => pause = (pause * 2).min(LONGEST_PAUSE),
                () = self.engine.back.wait() => pause = FIRST_PAUSE,
            }
        }
    }

    async fn round(&mut self, follow: Follow, wishes: &mut mpsc::Receiver<Wish>) -> End {
        let since = self.cursor.ask();
        let reply = self
            .engine
            .docker
            .logs(&self.source.id, &since, follow)
            .await;
        match reply {
            Ok(reply) => self.copy(reply, wishes).await,
            Err(error) if error.is_not_found() => End::Over,
            Err(DockerError::Refused { status, message }) => self.refused(status, &message),
            Err(_) => End::Broken,
        }
    }

    fn refused(&self, status: u16, message: &str) -> End {
        let container = &self.source.id;
        match status {
            501 => tracing::warn!(
                container,
                message,
                "the engine cannot read the container log; use a log driver that supports reading",
            ),
            400..=499 => {
                tracing::warn!(
                    container,
                    message,
                    "the engine refused to return the container log"
                );
            }
            // The engine may be about to stop or lack a resource.
            _ => {
                tracing::debug!(
                    container,
                    message,
                    "the engine failed to return the container log"
                );
                return End::Failed;
            }
        }
        End::Over
    }

    async fn copy(&mut self, mut reply: Reply, wishes: &mut mpsc::Receiver<Wish>) -> End {
        let mut lines = Lines::new(self.source.terminal);
        loop {
            let piece = tokio::select! {
                piece = reply.next() => piece,
                wish = wishes.recv() => match wish {
                    Some(wish) => {
                        if self.grant(wish).await.is_break() {
                            return End::Over;
                        }
                        continue;
                    }
                    None => return End::Over,
                },
            };
            match piece {
                None => return End::Complete,
                Some(Err(_)) => return End::Broken,
                Some(Ok(bytes)) => lines.feed(&bytes),
            }
            // Data that has already arrived is written in the same batch.
            while let Ok(Some(Ok(bytes))) = timeout(Duration::ZERO, reply.next()).await {
                lines.feed(&bytes);
                if bytes.len() >= GATHERED {
                    break;
                }
            }
            if let Err(problem) = self.write(&mut lines).await {
                tracing::warn!(
                    container = self.source.id,
                    problem,
                    "cannot write the container log"
                );
                return End::Broken;
            }
        }
    }

    async fn write(&mut self, lines: &mut Lines) -> Result<(), String> {
        let longest = self.engine.longest;
        loop {
            let mut text = Vec::new();
            // The cursor advances only after the write, so that a failed write is read again.
            let mut cursor = self.cursor.clone();
            let mut problem = None;
            while text.len() < GATHERED {
                match lines.next() {
                    Ok(Some(piece)) => {
                        if cursor.is_new(&piece) {
                            format(&piece, longest, &mut text);
                        }
                    }
                    Ok(None) => break,
                    Err(words) => {
                        problem = Some(words);
                        break;
                    }
                }
            }
            let is_last = text.len() < GATHERED;
            if !text.is_empty() {
                self.file
                    .write(text)
                    .await
                    .map_err(|error| error.to_string())?;
            }
            self.cursor = cursor;
            match problem {
                Some(problem) => return Err(problem),
                None if is_last => return Ok(()),
                None => {}
            }
        }
    }

    async fn grant(&mut self, wish: Wish) -> std::ops::ControlFlow<()> {
        match wish {
            Wish::Reopen(tell) => {
                let _ = tell.send(self.file.reopen().await);
                std::ops::ControlFlow::Continue(())
            }
            Wish::Stop => std::ops::ControlFlow::Break(()),
        }
    }
}
