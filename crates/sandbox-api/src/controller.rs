//! `containerd.services.sandbox.v1.Controller`.

use std::path::Path;
use std::time::Duration;

use orlop_ttrpc::{Value, Writer, any, bytes, text, whole_fields};
use tonic::Status;

use crate::sandboxes::{Sandbox, Sandboxes};
use crate::service::{Answer, BoxFuture, Call, Methods, service};
use crate::shim::{self, is_gone};

/// What is done at once takes no longer.
const LIMIT: Duration = Duration::from_secs(10);
/// Making and ending a pod.
const LONG: Duration = Duration::from_mins(1);
/// What the end of a sandbox is called whose shim has died.
const LOST: u64 = 255;
/// The version of the task service at the address that is answered.
const VERSION: u64 = 3;

/// Makes sandboxes for a containerd.
#[derive(Clone, Debug)]
pub struct Controller(Sandboxes);

service!(Controller, "containerd.services.sandbox.v1.Controller");

impl Controller {
    /// One that keeps them here.
    pub fn new(sandboxes: Sandboxes) -> Self {
        Self(sandboxes)
    }
}

impl Methods for Controller {
    fn answer(self, call: Call) -> BoxFuture<Answer> {
        Box::pin(async move {
            let sandbox = self.0.get(&call.namespace, &text(&call.message, 1))?;
            let message = &call.message[..];
            match call.method.as_str() {
                "Create" => create(&sandbox, message).await,
                "Start" => start(&sandbox).await,
                "Platform" => pass_on(&sandbox, "Platform", &of(&sandbox), Some(LIMIT)).await,
                "Stop" => stop(&sandbox, message).await,
                "Wait" => wait(&sandbox).await,
                "Status" => status(&sandbox, message).await,
                "Shutdown" => shutdown(&sandbox).await,
                "Metrics" => pass_on(&sandbox, "SandboxMetrics", &of(&sandbox), Some(LIMIT)).await,
                // A pod's size is that of the cgroup above it, which is not this one's to change.
                other => Err(Status::unimplemented(format!(
                    "orlop does not implement {other}"
                ))),
            }
        })
    }
}

fn of(sandbox: &Sandbox) -> Vec<u8> {
    Writer::default().text(1, &sandbox.id).done()
}

async fn pass_on(
    sandbox: &Sandbox,
    method: &str,
    message: &[u8],
    limit: Option<Duration>,
) -> Answer {
    let called = shim::call(&sandbox.socket()?, method, message, limit).await;
    called.map_err(|status| match status.code() {
        // Nobody is there any more: to who asks, there is no such sandbox.
        tonic::Code::Unavailable => Status::not_found(status.message()),
        _ => status,
    })
}

async fn create(sandbox: &Sandbox, message: &[u8]) -> Answer {
    sandbox.make()?;
    let made = bring_up(sandbox, message).await;
    if let Err(status) = made {
        end(sandbox).await?;
        return Err(status);
    }
    Ok(of(sandbox))
}

async fn bring_up(sandbox: &Sandbox, message: &[u8]) -> Result<(), Status> {
    // The handler's options, of the runtime that the sandbox is described with.
    let runtime = bytes(bytes(message, 6), 2);
    let options = any(runtime, 2).map_or_else(Vec::new, |any| {
        Writer::default()
            .text(1, &any.kind)
            .bytes(2, any.value)
            .done()
    });
    let socket = sandbox.shim().start(&options).await?;
    sandbox.note(&socket)?;
    let mut request = Writer::default()
        .text(1, &sandbox.id)
        .text(2, &sandbox.dir.to_string_lossy());
    // Mounts, options, network namespace and annotations stand in both in the same order.
    for field in whole_fields(message) {
        if let (2..=5, Value::Bytes(value)) = (field.number, &field.value) {
            request = request.message(field.number + 1, value);
        }
    }
    let socket = Path::new(&socket);
    let created = shim::call(socket, "CreateSandbox", &request.done(), Some(LONG)).await;
    created.map(drop)
}

async fn start(sandbox: &Sandbox) -> Answer {
    let started = pass_on(sandbox, "StartSandbox", &of(sandbox), Some(LONG)).await?;
    let mut answer = Writer::default().text(1, &sandbox.id);
    for field in whole_fields(&started) {
        answer = match (field.number, &field.value) {
            (1, Value::Number(pid)) => answer.number(2, *pid),
            (2, Value::Bytes(created)) => answer.message(3, created),
            (3, Value::Bytes(spec)) => answer.message(7, spec),
            _ => answer,
        };
    }
    Ok(answer.text(5, &address(sandbox)?).number(6, VERSION).done())
}

/// Where the sandbox's tasks are served.
fn address(sandbox: &Sandbox) -> Result<String, Status> {
    Ok(format!("ttrpc+unix://{}", sandbox.socket()?.display()))
}

async fn stop(sandbox: &Sandbox, message: &[u8]) -> Answer {
    let request = Writer::default()
        .text(1, &sandbox.id)
        .number(2, orlop_ttrpc::number(message, 2));
    match pass_on(sandbox, "StopSandbox", &request.done(), Some(LONG)).await {
        Err(status) if !is_gone(&status) => Err(status),
        _ => Ok(Vec::new()),
    }
}

/// A sandbox whose shim dies has ended: what is left of it is ended, too.
async fn wait(sandbox: &Sandbox) -> Answer {
    match shim::call(&sandbox.socket()?, "WaitSandbox", &of(sandbox), None).await {
        Err(status) if status.code() == tonic::Code::Unavailable => {
            let id = &sandbox.id;
            tracing::warn!(sandbox = id, "cannot reach the shim: {}", status.message());
            // Best effort: its shutdown tries again.
            let _ = sandbox.shim().delete().await;
            Ok(Writer::default().number(1, LOST).done())
        }
        waited => waited,
    }
}

async fn status(sandbox: &Sandbox, message: &[u8]) -> Answer {
    let request = Writer::default()
        .text(1, &sandbox.id)
        .number(2, orlop_ttrpc::number(message, 2));
    let mut answer = pass_on(sandbox, "SandboxStatus", &request.done(), Some(LIMIT)).await?;
    // The fields are the same, but for these.
    let address = Writer::default()
        .text(8, &address(sandbox)?)
        .number(9, VERSION);
    answer.extend(address.done());
    Ok(answer)
}

async fn shutdown(sandbox: &Sandbox) -> Answer {
    match pass_on(sandbox, "ShutdownSandbox", &of(sandbox), Some(LONG)).await {
        // It may be gone before its answer is here, and has ended all then; else it is ended now.
        Err(status) if !is_gone(&status) => return Err(status),
        _ => end(sandbox).await?,
    }
    Ok(Vec::new())
}

/// Ends what is left of a sandbox, and forgets it.
async fn end(sandbox: &Sandbox) -> Result<(), Status> {
    if sandbox.dir.is_dir() {
        sandbox.shim().delete().await?;
    }
    sandbox.remove()
}
