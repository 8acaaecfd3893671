//! Creates a container.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use orlop_keeper_protocol::{ContainerState, Create, Created, Failure, FailureKind};
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::attachment::Input;
use crate::calls::Streams;
use crate::child::Process;
use crate::clock::now_ns;
use crate::connection::ReplyTo;
use crate::console::Console;
use crate::container::Container;
use crate::failure::{failure, kind_of};
use crate::keeper::Keeper;
use crate::log::{Log, Place};
use crate::null::nothing;
use crate::oom::OomWatch;
use crate::pipe::{nonblocking, pipe};
use crate::purpose::{Making, Purpose};
use crate::reactor::{Interest, Source, Stream, Watch};
use crate::read::read_start;
use crate::text::text;

impl Keeper {
    pub(super) fn create(
        &mut self,
        request: Create,
        fds: Vec<OwnedFd>,
        to: ReplyTo,
    ) -> Result<(), Failure> {
        let id = request.container;
        check_id(&id)?;
        let known = self.container_key(&id);
        if let Some(container) = known.and_then(|key| self.containers.get(&key))
            && container.state != ContainerState::Absent
        {
            let message = format!("container {id} already exists");
            return Err(failure(FailureKind::Exists, message));
        }
        let log = if request.log_path.as_os_str().is_empty() {
            None
        } else {
            let (path, line_max) = (request.log_path, request.log_line_max as usize);
            let place = Place::new(&path, &request.log_dir);
            let log = place.and_then(|place| Log::open(place, request.log_policy, line_max));
            let mut log = log.map_err(|error| {
                let message = format!("cannot open log {}: {error}", path.display());
                failure(kind_of(&error, FailureKind::Failed), message)
            })?;
            log.limit_rate(request.log_rate);
            log.limit_size(request.log_size);
            Some(log)
        };
        self.remove_record(&id);
        let _ = std::fs::remove_file(&request.pid_file);

        let mut container = Container::new(id.clone());
        container.state = ContainerState::Creating;
        container.tty = request.tty;
        container.stdin_once = request.stdin_once;
        container.oom_cgroup = request.oom_cgroup;
        container.log = log;
        let key = known.unwrap_or_else(|| self.key());
        let streams = if request.tty {
            Ok(Streams::Own)
        } else if request.streams {
            let three = fds.try_into().map(Streams::Passed);
            three.map_err(|_| io::Error::other("three file descriptors are required"))
        } else {
            self.make_streams(key, &mut container, request.stdin)
        };
        let streams = streams.map_err(|error| {
            let message = format!("cannot create the streams of container {id}: {error}");
            failure(kind_of(&error, FailureKind::Failed), message)
        })?;
        if let Some(old) = self.containers.remove(&key) {
            container.mounts = old.mounts;
        }
        self.containers.insert(key, container);
        let making = Making {
            container: key,
            pid_file: request.pid_file,
            size: window(request.rows, request.columns),
            running: request.running,
            fifo: request.fifo,
            attaches: request.attaches,
        };
        let purpose = Purpose::Create(making);
        let called = self.start_call(request.call, streams, request.tty, purpose, to);
        match called {
            // Starts the writer now, because the runtime takes a while.
            Ok(_) => self.have_writer(key),
            Err(_) => self.unmake(key),
        }
        called.map(drop)
    }

    /// Handles the end of the runtime's call. A client that has given up wants no running container.
    pub(super) fn created(
        &mut self,
        making: Making,
        console: Option<Console>,
        outcome: Result<(), Failure>,
        awaited: bool,
    ) -> Result<Created, Failure> {
        let key = making.container;
        // The runtime's own output is not the container's.
        self.drain(key);
        let chatter = self
            .containers
            .get_mut(&key)
            .map(|container| std::mem::take(&mut container.chatter))
            .unwrap_or_default();
        let made = outcome
            .map_err(|mut failure| {
                if failure.runtime_output.is_empty() {
                    failure.runtime_output = text(&chatter);
                }
                failure
            })
            .and_then(|()| self.settle_created(&making, console))
            .and_then(|created| {
                if awaited {
                    self.go_at_once(&making, created)
                } else {
                    Ok(created)
                }
            });
        if made.is_err() {
            self.unmake(key);
            if let Ok(pid) = read_pid(&making.pid_file) {
                self.kill_stray(pid);
            }
        }
        made
    }

    fn settle_created(
        &mut self,
        making: &Making,
        console: Option<Console>,
    ) -> Result<Created, Failure> {
        let key = making.container;
        let Some(container) = self.containers.get_mut(&key) else {
            return Err(failure(
                FailureKind::NotFound,
                "the container was deleted in the meantime",
            ));
        };
        let pid = read_pid(&making.pid_file)?;
        if container.tty {
            let terminal = console.and_then(|mut console| console.take_terminal());
            let Some(terminal) = terminal else {
                let message = "the runtime did not send a terminal";
                return Err(failure(FailureKind::RuntimeFailed, message));
            };
            set_size(&terminal, making.size);
            let taken = take_terminal(&self.reactor, key, container, terminal);
            taken.map_err(|error| {
                let message = format!("cannot take over the container's terminal: {error}");
                failure(FailureKind::Failed, message)
            })?;
        }
        container.pid = pid;
        container.created_ns = now_ns();
        container.state = ContainerState::Created;
        if making.running {
            container.started_ns = container.created_ns;
            container.state = ContainerState::Running;
        }
        let dir = &container.oom_cgroup;
        if !dir.as_os_str().is_empty() {
            match OomWatch::new(dir, key, &self.reactor) {
                Ok(watch) => container.oom = Some(watch),
                // The container runs without OOM reports.
                Err(error) => eprintln!(
                    "orlop-keeper: cannot watch {} for OOM kills: {error}",
                    dir.display()
                ),
            }
        }
        let created = Created {
            pid: pid as u32,
            created_ns: container.created_ns,
            started_ns: 0,
        };
        match self.adopt(pid, Process::Container(key)) {
            Ok(None) => Ok(created),
            Ok(Some(ended)) => {
                self.container_ended(key, ended.status);
                Ok(created)
            }
            Err(()) => {
                let message = format!("process {pid} of the runtime is not a child of the keeper");
                Err(failure(FailureKind::RuntimeFailed, message))
            }
        }
    }

    /// Kills a container that runs, or was to run, if no client knows the outcome. A container that waits for its start
    /// is kept.
    pub(super) fn end_unawaited(&mut self, key: u64) {
        if let Some(container) = self.containers.get(&key)
            && container.is_alive()
            && container.started_ns != 0
            && let Some(pid) = Pid::from_raw(container.pid)
        {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Releases the container at once, if that is possible and requested.
    fn go_at_once(&mut self, making: &Making, mut created: Created) -> Result<Created, Failure> {
        let key = making.container;
        let container = self.containers.get(&key);
        let waits = container.is_some_and(|container| container.state == ContainerState::Created);
        if making.fifo.as_os_str().is_empty() || !waits {
            return Ok(created);
        }
        // Before it runs, so that its start never comes after its end.
        let now = now_ns();
        if self.open_for(key, &making.fifo)?
            && let Some(container) = self.containers.get_mut(&key)
        {
            container.started_ns = now;
            container.state = ContainerState::Running;
            created.started_ns = now;
        }
        Ok(created)
    }

    /// Creates the container's pipes; the keeper keeps the other ends.
    fn make_streams(
        &self,
        key: u64,
        container: &mut Container,
        stdin: bool,
    ) -> io::Result<Streams> {
        let watch = |fd, source, interest| Watch::new(&self.reactor, fd, source, interest);
        let input = if stdin {
            let (theirs, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
            nonblocking(&ours)?;
            let ours = watch(ours, Source::Input(key), Interest::Nothing)?;
            container.input = Some(Input::new(ours));
            theirs
        } else {
            nothing()?
        };
        let (ours, out) = pipe()?;
        let source = Source::Output(key, Stream::Out);
        container.out = Some(watch(ours, source, Interest::Read)?);
        let (ours, err) = pipe()?;
        let source = Source::Output(key, Stream::Err);
        container.err = Some(watch(ours, source, Interest::Read)?);
        Ok(Streams::Passed([input, out, err]))
    }

    /// Resets a container that could not be created: only its mounts remain.
    fn unmake(&mut self, key: u64) {
        if let Some(container) = self.containers.get_mut(&key) {
            container.reset();
            if container.mounts.is_empty() {
                self.containers.remove(&key);
            }
        }
        self.processes
            .retain(|_, process| *process != Process::Container(key));
    }
}

/// Checks a container ID, which becomes a file name.
fn check_id(id: &str) -> Result<(), Failure> {
    if id.is_empty() || id.len() > 200 || id.starts_with('.') || id.contains('/') {
        let message = format!("{id:?} is not a valid container ID");
        return Err(failure(FailureKind::Invalid, message));
    }
    Ok(())
}

/// Reads the PID that a runtime wrote to a file.
pub(super) fn read_pid(path: &Path) -> Result<i32, Failure> {
    let read = File::open(path).and_then(|file| read_start(file, 32));
    let pid = read.ok().and_then(|said| text(&said).trim().parse().ok());
    pid.filter(|&pid| pid > 1).ok_or_else(|| {
        let message = format!(
            "the runtime did not write a process ID to {}",
            path.display()
        );
        failure(FailureKind::RuntimeFailed, message)
    })
}

pub(super) fn window(rows: u16, columns: u16) -> Winsize {
    Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    }
}

/// Sets a terminal's size, if one is given. Errors are ignored: programs handle any size.
pub(super) fn set_size(terminal: impl AsFd, size: Winsize) {
    if size.ws_row > 0 && size.ws_col > 0 {
        let _ = tcsetwinsize(terminal, size);
    }
}

fn take_terminal(
    reactor: &std::rc::Rc<crate::reactor::Reactor>,
    key: u64,
    container: &mut Container,
    terminal: OwnedFd,
) -> io::Result<()> {
    let copy = rustix::io::fcntl_dupfd_cloexec(&terminal, 3)?;
    let input = Watch::new(reactor, copy, Source::Input(key), Interest::Nothing)?;
    container.input = Some(Input::new(input));
    let source = Source::Output(key, Stream::Out);
    container.out = Some(Watch::new(reactor, terminal, source, Interest::Read)?);
    Ok(())
}
