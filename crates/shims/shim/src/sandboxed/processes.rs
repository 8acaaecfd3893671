//! PID namespaces of containers in a sandbox.
//!
//! runsc does not open PID namespaces: it identifies each by its path in the specifications. A namespace without a
//! path is the container's own. A container without a PID namespace sees all processes in the sandbox, whose first
//! process is the pod's.

use std::path::PathBuf;

use crate::error::Result;
use crate::processes::{PID, Whose, note, note_stands, noted, whose};
use crate::spec::Spec;
use crate::state_dir::{StateDir, TaskDir};

/// The record of the path by which runsc knows a container's PID namespace; null for the sandbox's.
const KNOWN: &str = "processes";

/// Rewrites the specification of a container for runsc.
pub(super) fn settle(state: &StateDir, task: &TaskDir, spec: Spec) -> Result<Spec> {
    let told = note_stands(task)?;
    let known: Option<PathBuf> = match whose(state, &task.pod(state)?, &spec)? {
        Whose::Surroundings | Whose::Pods => None,
        Whose::Own => Some(told),
        Whose::Of(other) => noted(&other.dir, KNOWN)?,
        Whose::Unnoted(path) => Some(path),
    };
    note(&task.dir, KNOWN, &known)?;
    Ok(spec.with_namespace(PID, known.as_deref()))
}
