//! Exec and attach sessions, from the upgrade to the status.

use std::sync::Arc;
use std::time::Duration;

use super::context::Context;
use super::streams::{Streams, Wanted, over_spdy, over_websocket};
use super::tokens::Pending;
use super::upgrade::Plan;
use crate::flow::Transport;
use crate::protocol::Version;
use crate::session::{BackendError, ExitOutcome};
use crate::status::Status;

/// How long a client may take to read the remaining data and close.
pub(super) const LINGER: Duration = Duration::from_secs(10);
/// How long a backend may take to return after its client has disconnected.
const AFTERMATH: Duration = Duration::from_secs(30);

pub(super) async fn serve(
    request: Pending,
    plan: Plan,
    transport: Transport,
    context: &Arc<Context>,
) {
    let wanted = match &request {
        Pending::Exec(exec) => Wanted {
            stdin: exec.stdin,
            stdout: exec.stdout,
            stderr: exec.stderr,
            tty: exec.tty,
        },
        Pending::Attach(attach) => Wanted {
            stdin: attach.stdin,
            stdout: attach.stdout,
            stderr: attach.stderr,
            tty: attach.tty,
        },
        Pending::PortForward(_) => return,
    };
    let limits = context.config().session_limits();
    let creation = context.config().creation_timeout;
    let (version, setup) = match plan {
        Plan::RemoteSpdy(version) => {
            let setup = over_spdy(transport, version, wanted, limits);
            (version, tokio::time::timeout(creation, setup).await)
        }
        Plan::RemoteWebSocket(version, encoding) => {
            let setup = over_websocket(transport, version, encoding, wanted, limits);
            (version, tokio::time::timeout(creation, setup).await)
        }
        Plan::PortForwardSpdy | Plan::PortForwardTunnel | Plan::PortForwardWebSocket(_) => return,
    };
    match setup {
        Ok(Some(streams)) => run(request, version, streams, context).await,
        Ok(None) => tracing::debug!("a streaming client disconnected before it opened its streams"),
        Err(_) => tracing::debug!(?creation, "a streaming client did not open its streams"),
    }
}

async fn run(request: Pending, version: Version, streams: Streams, context: &Arc<Context>) {
    let Streams {
        mut session,
        mut status,
        mut wire,
    } = streams;
    // Cancelled by the end of the connection and by the server's shutdown.
    let gone = wire.closed().child_token();
    session.gone = gone.clone();
    let work = async {
        match request {
            Pending::Exec(exec) => exec_status(context.backend.exec(exec, session).await),
            Pending::Attach(attach) => attach_status(context.backend.attach(attach, session).await),
            Pending::PortForward(_) => None,
        }
    };
    let aftermath = async {
        tokio::select! {
            () = gone.cancelled() => {}
            () = context.stop.cancelled() => gone.cancel(),
        }
        tokio::time::sleep(AFTERMATH).await;
    };
    let result = tokio::select! {
        result = work => result,
        () = wire.welcome_latecomers() => None,
        () = aftermath => {
            tracing::warn!("a session did not end after its client disconnected; dropping it");
            None
        }
    };
    if let Some(result) = result {
        let message = result.encode(version.has_status());
        if let Err(error) = status.write(&message).await {
            tracing::debug!(%error, "a client disconnected before it received the result");
        }
    }
    drop(status);
    tokio::select! {
        () = wire.finish(LINGER) => {}
        () = context.stop.cancelled() => {}
    }
}

fn exec_status(result: Result<ExitOutcome, BackendError>) -> Option<Status> {
    match result {
        Ok(ExitOutcome::Exited(code)) => Some(Status::exited(code)),
        Ok(ExitOutcome::Abandoned) => None,
        Err(error) => Some(failed("error executing command in container", &*error)),
    }
}

fn attach_status(result: Result<(), BackendError>) -> Option<Status> {
    Some(match result {
        Ok(()) => Status::exited(0),
        Err(error) => failed("error attaching to container", &*error),
    })
}

fn failed(what: &str, error: &(dyn std::error::Error + Send + Sync + 'static)) -> Status {
    Status::internal_error(&format!("{what}: {}", orlop_text::with_causes(error)))
}
