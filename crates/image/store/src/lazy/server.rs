//! The server process of lazy layers on this node: connects to it, starts it, or replaces it if it dies.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use orlop_lazy::{Answers, Event, Place, Server};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use super::LazySettings;
use crate::store::Layout;
use crate::{Digest, Error, Result};

/// Pause between two attempts to start a replacement.
const PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// An event of the server, and the channel to answer it.
pub(super) type Told = (Event, Answers);

/// The server process, which is started on demand.
pub(super) struct Serving {
    home: Home,
    timeout: Duration,
    tell: mpsc::UnboundedSender<Told>,
    state: Arc<Mutex<State>>,
}

/// The server's program, directories, cgroups and OOM score.
#[derive(Clone)]
struct Home {
    place: Place,
    cgroups: Vec<PathBuf>,
    oom_score_adj: Option<i32>,
}

impl Home {
    /// Moves a server to its own cgroups and sets its OOM score, so that it is independent of the daemon.
    fn settle(&self, server: &Server) {
        let pid = server.pid().to_string();
        for cgroup in &self.cgroups {
            let made = std::fs::create_dir_all(cgroup);
            let moved = made.and_then(|()| std::fs::write(cgroup.join("cgroup.procs"), &pid));
            if let Err(error) = moved {
                tracing::warn!(cgroup = %cgroup.display(), %error, "cannot move the lazy layer server; it stays in the daemon's cgroup");
            }
        }
        if let Some(score) = self.oom_score_adj {
            let path = format!("/proc/{pid}/oom_score_adj");
            if let Err(error) = std::fs::write(path, score.to_string()) {
                tracing::debug!(score, %error, "cannot set oom_score_adj of the lazy layer server; it keeps the daemon's value");
            }
        }
    }
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// Whether events are no longer received.
    closed: bool,
}

struct Running {
    server: Arc<Server>,
    answers: Answers,
    /// The layers that the server serves.
    layers: HashSet<Digest>,
}

impl Serving {
    pub(super) fn new(
        settings: &LazySettings,
        layout: &Layout,
        tell: mpsc::UnboundedSender<Told>,
    ) -> Self {
        Self {
            home: Home {
                place: Place {
                    program: settings.program.clone(),
                    directory: settings.run_dir.clone(),
                    mount_point: layout.lazy(),
                    by_journal: false,
                },
                cgroups: settings.cgroups.clone(),
                oom_score_adj: settings.oom_score_adj,
            },
            timeout: settings.timeout,
            tell,
            state: Arc::default(),
        }
    }

    /// Connects to the server of an earlier process. Returns whether there is one. Blocks.
    pub(super) fn find(&self) -> Result<bool> {
        let mut state = self.state.lock();
        let found = Server::connect(&self.home.place.directory).map_err(failed)?;
        let Some(server) = found else {
            return Ok(false);
        };
        let layers = server.list().map_err(failed)?;
        let layers = layers
            .iter()
            .filter_map(|layer| Digest::from_hex(&layer.key).ok());
        let layers = layers.collect();
        self.listen(&mut state, server, layers)?;
        Ok(true)
    }

    /// Registers a layer and its directory with the server. Blocks.
    pub(super) fn add(&self, key: &Digest, dir: &Path, bytes: u64) -> Result<()> {
        let mut state = self.state.lock();
        self.start(&mut state)?;
        let Some(running) = &mut state.running else {
            return Ok(());
        };
        if running.layers.contains(key) {
            return Ok(());
        }
        let added = running.server.add(&key.hex(), dir, bytes, self.timeout);
        added.map_err(failed)?;
        running.layers.insert(*key);
        Ok(())
    }

    /// Starts the server if none is running. Blocks.
    pub(super) fn prepare(&self) -> Result<()> {
        self.start(&mut self.state.lock())
    }

    fn start(&self, state: &mut State) -> Result<()> {
        if state.running.is_some() || state.closed {
            return Ok(());
        }
        let server = Server::start(&self.home.place).map_err(failed)?;
        self.home.settle(&server);
        self.listen(state, server, HashSet::new())
    }

    /// Removes a layer from the server. Its readers continue with the data on disk. Blocks.
    pub(super) fn remove(&self, key: &Digest) {
        let mut state = self.state.lock();
        let Some(running) = &mut state.running else {
            return;
        };
        if running.layers.remove(key)
            && let Err(error) = running.server.remove(&key.hex())
        {
            tracing::debug!(layer = %key, %error, "cannot remove a layer from the lazy layer server");
        }
    }

    /// Returns the layers that the server serves.
    pub(super) fn layers(&self) -> Vec<Digest> {
        let state = self.state.lock();
        let running = state.running.iter();
        running
            .flat_map(|running| &running.layers)
            .copied()
            .collect()
    }

    /// Returns whether a server is running.
    pub(super) fn is_running(&self) -> bool {
        self.state.lock().running.is_some()
    }

    /// Stops the server if it is not needed. It starts again on demand. Blocks.
    pub(super) fn end_unless(&self, is_needed: impl FnOnce() -> bool) {
        let mut state = self.state.lock();
        if state.running.is_some() && !is_needed() {
            Self::take_leave(&mut state, true);
        }
    }

    /// Stops listening. The server continues unless `end` is set. Blocks.
    pub(super) fn close(&self, end: bool) {
        let mut state = self.state.lock();
        state.closed = true;
        Self::take_leave(&mut state, end);
    }

    fn take_leave(state: &mut State, end: bool) {
        let Some(running) = state.running.take() else {
            return;
        };
        running.answers.close();
        if !end {
            return;
        }
        match Arc::into_inner(running.server).map(Server::stop) {
            None | Some(Ok(())) => {}
            Some(Err(error)) => {
                tracing::warn!(%error, "cannot stop the lazy layer server");
            }
        }
    }

    fn listen(&self, state: &mut State, server: Server, layers: HashSet<Digest>) -> Result<()> {
        let events = server.events().map_err(failed)?;
        let answers = events.answers();
        tracing::info!(pid = server.pid(), "serving lazy layers");
        state.running = Some(Running {
            server: Arc::new(server),
            answers: answers.clone(),
            layers,
        });
        let listener = Listener {
            home: self.home.clone(),
            tell: self.tell.clone(),
            state: Arc::clone(&self.state),
        };
        let started = thread::Builder::new()
            .name("lazy layers".to_owned())
            .spawn(move || listener.run(events));
        let started = started.map_err(|error| Error::io("starting a thread", error));
        started.map(drop)
    }
}

/// Thread that forwards the server's events, and replaces the server if it exits.
struct Listener {
    home: Home,
    tell: mpsc::UnboundedSender<Told>,
    state: Arc<Mutex<State>>,
}

impl Listener {
    fn run(self, mut events: orlop_lazy::Events) {
        loop {
            let answers = events.answers();
            while let Ok(event) = events.next() {
                if self.tell.send((event, answers.clone())).is_err() {
                    return;
                }
            }
            match self.succeed() {
                Some(next) => events = next,
                None => return,
            }
        }
    }

    /// Returns the events of the replacement server, or `None` if no server is needed.
    fn succeed(&self) -> Option<orlop_lazy::Events> {
        let mut pause = PAUSE;
        loop {
            {
                let mut state = self.state.lock();
                if state.closed {
                    return None;
                }
                let running = state.running.as_mut()?;
                match self.successor(running) {
                    Ok(events) => {
                        running.answers = events.answers();
                        return Some(events);
                    }
                    Err(error) => {
                        tracing::error!(
                            error = %orlop_text::with_causes(&error),
                            "the lazy layer server has exited and cannot be restarted; reads of data that is not cached wait"
                        );
                    }
                }
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn successor(&self, running: &mut Running) -> orlop_lazy::Result<orlop_lazy::Events> {
        // Only the connection may have ended.
        let server = if let Some(server) = Server::connect(&self.home.place.directory)? {
            server
        } else {
            let server = Server::succeed(&self.home.place, running.server.held())?;
            self.home.settle(&server);
            tracing::warn!(
                pid = running.server.pid(),
                successor = server.pid(),
                "the lazy layer server exited unexpectedly; started a new one"
            );
            server
        };
        running.server = Arc::new(server);
        running.server.events()
    }
}

fn failed(error: orlop_lazy::Error) -> Error {
    Error::store("serving lazy layers", error)
}
