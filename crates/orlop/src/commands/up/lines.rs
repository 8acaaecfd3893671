//! Output of `up` without a terminal: one line for each change.

use std::collections::BTreeMap;
use std::io::{self, Write};

use orlop_agent::AgentHandle;
use orlop_kuberuntime::manager::{Change, Severity};
use tokio_util::sync::CancellationToken;

use super::super::node::summary_line;

/// Prints changes until it is stopped. The first line is the location of the page, if there is one.
pub(super) async fn show(
    handle: &AgentHandle,
    page: Option<&str>,
    stop: &CancellationToken,
) -> io::Result<()> {
    if let Some(page) = page {
        let _ = writeln!(io::stdout(), "{page}");
    }
    let mut watch = handle.manager().watch();
    let mut last: BTreeMap<String, String> = BTreeMap::new();
    for pod in handle.manager().pods() {
        tell(handle, &pod.uid, &mut last)?;
    }
    loop {
        let change = tokio::select! {
            () = stop.cancelled() => return Ok(()),
            change = watch.next() => change,
        };
        match change {
            None => return Ok(()),
            Some(Err(missed)) => writeln!(io::stdout(), "(changes that were not shown: {missed})")?,
            Some(Ok(Change::Pod { uid })) => tell(handle, &uid, &mut last)?,
            Some(Ok(Change::Gone { uid })) => {
                if let Some(line) = last.remove(&uid) {
                    let name = line.split(' ').next().unwrap_or_default();
                    writeln!(io::stdout(), "{name} was removed")?;
                }
            }
            Some(Ok(Change::Event(event))) => {
                if event.severity == Severity::Warning {
                    writeln!(
                        io::stdout(),
                        "{}/{}: {}: {}",
                        event.namespace,
                        event.name,
                        event.reason,
                        event.message.replace(char::is_control, " ")
                    )?;
                }
            }
        }
    }
}

/// Prints the status of a pod if it changed.
fn tell(handle: &AgentHandle, uid: &str, last: &mut BTreeMap<String, String>) -> io::Result<()> {
    let Some(pod) = handle.manager().pod(uid) else {
        return Ok(());
    };
    let (ready, all) = pod.ready_containers;
    let ip = pod.ips.first().map(ToString::to_string).unwrap_or_default();
    let line = format!(
        "{}/{} {} {ready}/{all} ready, {} restarts {ip}",
        pod.namespace,
        pod.name,
        summary_line(&pod.summary, &pod.reason),
        pod.restarts,
    );
    let line = line.trim_end().to_owned();
    if last.get(uid) != Some(&line) {
        writeln!(io::stdout(), "{line}")?;
        last.insert(uid.to_owned(), line);
    }
    Ok(())
}
