//! `ResizePty`: sets the size of a terminal.

use std::sync::Arc;

use orlop_ttrpc::number;
use orlop_wire::Resize;

use super::names;
use crate::Result;
use crate::keeper::LIMIT;
use crate::shim::Shim;

pub(super) fn call(shim: &Arc<Shim>, request: &[u8]) -> Result<Vec<u8>> {
    let (id, exec) = names(request);
    let (columns, rows) = (number(request, 3) as u16, number(request, 4) as u16);
    {
        let mut tasks = shim.tasks.lock();
        let process = tasks.process(&id, &exec)?;
        if let Some(terminal) = &process.terminal {
            terminal.resize(rows, columns)?;
        }
        if !exec.is_empty() || !process.streams.terminal {
            return Ok(Vec::new());
        }
    }
    let request = Resize {
        container: id,
        rows,
        columns,
    };
    shim.keeper()?
        .call("resizing a terminal", &request, &[], LIMIT)?;
    Ok(Vec::new())
}
