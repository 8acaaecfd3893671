//! A Controller behind a socket: a program of its own that makes the sandboxes of many pods, and
//! says for each where its tasks are served.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use orlop_ttrpc::code::UNIMPLEMENTED;

use super::{
    ANSWER_LIMIT, Asked, BOOT_LIMIT, Controller, GRACE, LIMIT, SandboxState, resources,
    sandbox_state,
};
use crate::arguments::Settings;
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::launch;
use crate::proto::{Writer, fields};
use crate::rpc::Client;
use crate::spec::Spec;
use crate::state_dir::PodDir;
use crate::task::{Any, Endpoint, Tasks};

/// What a sandbox is told to be may be its shim, or the first process in that.
const GENERATIONS: usize = 2;

const SERVICE: &str = "containerd.services.sandbox.v1.Controller";

/// A controller, by its address and its name there.
pub(super) struct Proxy<'s> {
    pub(super) address: &'s Path,
    pub(super) name: &'s str,
    pub(super) settings: &'s Settings,
}

impl Proxy<'_> {
    fn itself(&self) -> Endpoint {
        Endpoint::of_controller(self.address)
    }

    fn of(&self, pod: &PodDir) -> Writer {
        Writer::default().text(1, &pod.id).text(10, self.name)
    }

    fn call(&self, method: &str, request: Writer, limit: Option<Duration>) -> Result<Vec<u8>> {
        let named = |error| {
            let at = self.address.display();
            Error::Failed(format!("the sandbox controller at {at}: {error}"))
        };
        let mut client = Client::connect(&self.itself()).map_err(named)?;
        match client.call(SERVICE, method, &request.done(), limit) {
            // Its code tells what to make of it.
            Err(error @ Error::Refused { .. }) => Err(error),
            answer => answer.map_err(named),
        }
    }
}

impl Controller for Proxy<'_> {
    /// Whoever is no controller is asked for nothing, and there is nothing to be undone.
    fn bootstrap(&self, _: &PodDir) -> Result<Endpoint> {
        is_one(self.address, self.name, ANSWER_LIMIT)?;
        Ok(self.itself())
    }

    fn create(&self, pod: &PodDir, _: &Endpoint, asked: &Asked) -> Result<()> {
        let spec = Any {
            kind: "types.containerd.io/opencontainers/runtime-spec/1/Spec",
            value: Spec::text(&pod.bundle())?,
        };
        let mut sandbox = self.of(pod).message(3, &spec.encode());
        if self.settings.shim.is_absolute() {
            let program = self.settings.shim.to_string_lossy();
            let mut runtime = Writer::default().text(1, &program);
            if let Some(options) = launch::options(self.settings)? {
                runtime = runtime.message(2, &options.encode());
            }
            sandbox = sandbox.message(2, &runtime.done());
        }
        let request = asked.write(self.of(pod), 3).message(6, &sandbox.done());
        self.call("Create", request, Some(BOOT_LIMIT)).map(drop)
    }

    fn start(&self, pod: &PodDir, _: &Endpoint) -> Result<Endpoint> {
        let answer = self.call("Start", self.of(pod), Some(BOOT_LIMIT))?;
        let garbled = || Error::Garbled("the controller's response to Start".into());
        let (mut pid, mut version, mut address) = (0, 0, String::new());
        for field in fields(&answer) {
            let field = field.ok_or_else(garbled)?;
            match field.number {
                2 => pid = field.as_number() as u32,
                5 => address = field.as_text(),
                6 => version = field.as_number() as u32,
                _ => {}
            }
        }
        let endpoint = if address.is_empty() {
            bootstrapped(pod, pid)
        } else {
            Endpoint::at(&address, "", version)
        };
        let mut endpoint = endpoint.ok_or_else(|| {
            Error::Failed(format!(
                "the controller reported the task address {address:?}; only ttrpc and gRPC over \
                 unix sockets or vsock are supported"
            ))
        })?;
        endpoint.pid = server_of(pod, &endpoint, pid)?;
        Ok(endpoint)
    }

    fn wait(&self, pod: &PodDir, _: &Endpoint) -> Result<()> {
        self.call("Wait", self.of(pod), None).map(drop)
    }

    fn platform(&self, pod: &PodDir, _: &Endpoint) -> Result<Option<String>> {
        let answer = self.call("Platform", self.of(pod), Some(LIMIT))?;
        Ok(sandbox_state::platform(&answer))
    }

    fn status(&self, pod: &PodDir, _: &Endpoint) -> Result<SandboxState> {
        let request = self.of(pod).number(2, 1);
        let answer = self.call("Status", request, Some(ANSWER_LIMIT))?;
        Ok(SandboxState::of(&answer))
    }

    fn metrics(&self, pod: &PodDir, _: &Endpoint) -> Result<Option<Figures>> {
        let answer = self.call("Metrics", self.of(pod), Some(ANSWER_LIMIT))?;
        Ok(sandbox_state::metrics(&answer))
    }

    fn update(&self, pod: &PodDir, _: &Endpoint, request: &[u8]) -> Result<()> {
        let sandbox = self.of(pod).message(7, &resources::extension(request));
        let request = Writer::default()
            .text(1, &pod.id)
            .text(2, self.name)
            .message(3, &sandbox.done())
            .text(4, "extensions");
        self.call("Update", request, Some(LIMIT)).map(drop)
    }

    fn stop(&self, pod: &PodDir, _: &Endpoint) -> Result<()> {
        let request = self.of(pod).number(2, GRACE.as_secs());
        Error::unless_gone(self.call("Stop", request, Some(LIMIT)))
    }

    fn shutdown(&self, pod: &PodDir, _: &Endpoint) {
        let _ = self.call("Shutdown", self.of(pod), Some(GRACE));
    }
}

/// Whether who listens there is a controller, as far as it says so; one that says nothing may be busy.
pub(crate) fn is_one(address: &Path, name: &str, limit: Duration) -> Result<()> {
    let at = address.display();
    let wrong = |what: String| {
        let remedy = "start the controller, or correct `address`";
        Err(Error::Failed(format!("{what}: {remedy}")))
    };
    match std::fs::metadata(address) {
        Ok(file) if !file.file_type().is_socket() => return wrong(format!("{at} is not a socket")),
        Err(error) => return wrong(format!("cannot find a controller at {at} ({error})")),
        Ok(_) => {}
    }
    let endpoint = Endpoint::of_controller(address);
    if endpoint.is_gone() {
        return wrong(format!("no process listens at {at}"));
    }
    // Nobody has a sandbox of that name; who makes any says so.
    let ask = Writer::default()
        .text(1, "orlop-asks")
        .text(10, name)
        .done();
    let called = Client::connect(&endpoint)
        .and_then(|mut client| client.call(SERVICE, "Status", &ask, Some(limit)));
    match called {
        Err(Error::Refused { code, .. }) if code == UNIMPLEMENTED => wrong(format!(
            "the process that listens at {at} does not serve {SERVICE}"
        )),
        Err(error @ (Error::Io { .. } | Error::Garbled(_))) => wrong(format!(
            "the process that listens at {at} does not speak gRPC ({error})"
        )),
        _ => Ok(()),
    }
}

/// Where tasks are served by a controller that does not say it. containerd's does not, but a shim that
/// was started by containerd works in its bundle, and there the answer is that it gave.
fn bootstrapped(pod: &PodDir, of: u32) -> Option<Endpoint> {
    let mut pid = of;
    for _ in 0..GENERATIONS {
        if pid <= 1 {
            return None;
        }
        let process = PathBuf::from(format!("/proc/{pid}"));
        let bundle = std::fs::read_link(process.join("cwd")).ok();
        if let Some(bundle) = bundle.filter(|bundle| bundle.ends_with(&pod.id)) {
            let answer = bundle.join("bootstrap.json");
            let answer = orlop_disk::read_file(answer, orlop_disk::SMALL_FILE).ok()?;
            return launch::parse(&answer).ok();
        }
        pid = parent_of(&process)?;
    }
    None
}

fn parent_of(process: &Path) -> Option<u32> {
    let stat = orlop_disk::read_text(process.join("stat"), orlop_disk::SMALL_FILE).ok()?;
    let (_, behind_name) = stat.rsplit_once(") ")?;
    behind_name.split(' ').nth(1)?.parse().ok()
}

/// The process that mounts for the tasks: it says so, or the controller does, or the kernel.
fn server_of(pod: &PodDir, endpoint: &Endpoint, told: u32) -> Result<u32> {
    // In a guest it has a number, too, which is none of ours.
    let says = Tasks::connect(endpoint)?
        .shim_pid(&pod.id)
        .ok()
        .filter(|_| endpoint.guest.is_none());
    let listens = UnixStream::connect(&endpoint.socket).ok();
    let listens = listens.and_then(|socket| rustix::net::sockopt::socket_peercred(socket).ok());
    let listens = listens.map(|peer| peer.pid.as_raw_nonzero().get() as u32);
    let possible = [says, Some(told), listens].into_iter().flatten();
    let alive = |pid: &u32| {
        *pid > 1
            && Endpoint {
                pid: *pid,
                ..endpoint.clone()
            }
            .is_alive()
    };
    let mut alive = possible.filter(alive);
    alive.next().ok_or_else(|| {
        let at = endpoint.place();
        Error::Failed(format!("cannot find the process that serves tasks at {at}"))
    })
}
