//! Starting and calling our shim for a sandbox.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use orlop_containerd_api::Message;
use orlop_ttrpc::{LARGEST, REQUEST, code, parse_response, write_frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;
use tokio::time::timeout;
use tonic::{Code, Status};

const SERVICE: &str = "containerd.runtime.sandbox.v1.Sandbox";
/// The size of a frame header: the payload's length, and fields that do not matter with a single call.
const HEAD: usize = 10;
/// Timeout of the program.
const LIMIT: Duration = Duration::from_secs(30);

/// A sandbox's shim, identified by its directory.
#[derive(Clone, Debug)]
pub(crate) struct Shim<'a> {
    pub(crate) dir: &'a Path,
    pub(crate) namespace: &'a str,
    pub(crate) id: &'a str,
    /// An id that separates the sandboxes of one daemon from those of another.
    pub(crate) owner: &'a str,
}

impl Shim<'_> {
    /// Starts the shim and returns its address.
    pub(crate) async fn start(&self, options: &[u8]) -> Result<String, Status> {
        let printed = self.run("start", options).await?;
        let address = String::from_utf8_lossy(&printed);
        let address = address.trim().strip_prefix("unix://").map(str::to_owned);
        address.ok_or_else(|| Status::internal("the shim did not print the address of its socket"))
    }

    /// Makes the shim's program clean up after a dead shim.
    pub(crate) async fn delete(&self) -> Result<(), Status> {
        self.run("delete", &[]).await.map(drop)
    }

    async fn run(&self, action: &str, input: &[u8]) -> Result<Vec<u8>, Status> {
        let program = program()?;
        let named = |what: &str| format!("{what} {} {action}", program.display());
        let child = Command::new(&program)
            .args(["-namespace", self.namespace, "-address", self.owner])
            .args(["-id", self.id, action])
            .current_dir(self.dir)
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut child = orlop_pool::started(child).map_err(|error| {
            let message = format!("{}: {error}", named("starting"));
            if orlop_pool::NoThread::is_cause(&error) {
                return Status::resource_exhausted(message);
            }
            Status::internal(message)
        })?;
        let told = async {
            if let Some(mut stdin) = child.stdin.take() {
                // A program that does not read its input reports the reason.
                let _ = stdin.write_all(input).await;
            }
            child.wait_with_output().await
        };
        let output = timeout(LIMIT, told)
            .await
            .map_err(|_| Status::deadline_exceeded(format!("{} timed out", named("running"))))?
            .map_err(|error| Status::internal(format!("{}: {error}", named("running"))))?;
        if output.status.success() {
            return Ok(output.stdout);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Status::internal(said.trim().to_owned()))
    }
}

/// Returns the path of the shim, which is installed next to this program.
fn program() -> Result<PathBuf, Status> {
    let own = std::env::current_exe()
        .map_err(|error| Status::internal(format!("finding this program: {error}")))?;
    let program = own.with_file_name("containerd-shim-orlop-v1");
    if program.is_file() {
        return Ok(program);
    }
    Err(Status::failed_precondition(format!(
        "cannot find {}; install it beside orlop to serve sandboxes of containerd",
        program.display()
    )))
}

/// Calls a method of the Sandbox service; without a limit it waits forever. `Unavailable` means that the shim does not
/// run or has exited.
pub(crate) async fn call<R: Message + Default>(
    socket: &Path,
    method: &str,
    message: &impl Message,
    limit: Option<Duration>,
) -> Result<R, Status> {
    let message = message.encode_to_vec();
    let called = exchange(socket, method, message);
    let answer = match limit {
        None => called.await,
        Some(limit) => timeout(limit, called).await.map_err(|_| {
            Status::deadline_exceeded(format!(
                "the shim has not answered {method} within {limit:?}"
            ))
        })?,
    };
    let answer = answer.map_err(|error| {
        let at = socket.display();
        Status::unavailable(format!("calling {method} of the shim at {at}: {error}"))
    })?;
    let answer = parse_response(method, &answer).map_err(|error| match error {
        orlop_ttrpc::Error::Refused { code, message, .. } => Status::new(code.into(), message),
        error => Status::internal(error.to_string()),
    })?;
    R::decode(&*answer).map_err(|error| Status::internal(format!("{method}: {error}")))
}

async fn exchange(socket: &Path, method: &str, payload: Vec<u8>) -> std::io::Result<Vec<u8>> {
    let mut socket = UnixStream::connect(socket).await?;
    let request = orlop_ttrpc::Request {
        service: SERVICE.into(),
        method: method.into(),
        payload,
        ..orlop_ttrpc::Request::default()
    };
    let mut frame = Vec::new();
    write_frame(&mut frame, 1, REQUEST, &request.encode_to_vec())?;
    socket.write_all(&frame).await?;
    let mut head = [0; HEAD];
    socket.read_exact(&mut head).await?;
    let [a, b, c, d, ..] = head;
    let length = u32::from_be_bytes([a, b, c, d]) as usize;
    if length > LARGEST {
        return Err(std::io::Error::other("the response is larger than 4 MiB"));
    }
    let mut answer = vec![0; length];
    socket.read_exact(&mut answer).await?;
    Ok(answer)
}

/// Whether the shim does not run or does not know the sandbox.
pub(crate) fn is_gone(status: &Status) -> bool {
    status.code() == Code::Unavailable || status.code() as i32 == code::NOT_FOUND
}
