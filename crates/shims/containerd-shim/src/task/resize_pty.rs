//! `ResizePty`: sets the size of a terminal.

use std::sync::Arc;

use orlop_containerd_api::task::ResizePtyRequest;
use orlop_keeper_protocol::Resize;

use crate::error::Result;
use crate::keeper::LIMIT;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: ResizePtyRequest) -> Result<()> {
    let (id, exec) = (request.id, request.exec_id);
    let (columns, rows) = (request.width as u16, request.height as u16);
    {
        let mut tasks = shim.tasks.lock();
        let process = tasks.process(&id, &exec)?;
        if let Some(terminal) = &process.terminal {
            terminal.resize(rows, columns)?;
        }
        if !exec.is_empty() || !process.streams.terminal {
            return Ok(());
        }
    }
    let request = Resize {
        container: id,
        rows,
        columns,
    };
    shim.keeper()?
        .call("resizing a terminal", &request, &[], LIMIT)?;
    Ok(())
}
