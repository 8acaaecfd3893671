//! Whose processes a container in a sandbox sees.
//!
//! runsc opens no PID namespace: it knows each by the path that specifications name it with. One
//! without a path is a container's alone, and who names none sees all that run in the sandbox, whose first
//! process is that of the pod.

use std::path::PathBuf;

use crate::error::Result;
use crate::processes::{PID, Whose, note, note_stands, noted, whose};
use crate::spec::Spec;
use crate::state_dir::{StateDir, TaskDir};

/// By which path runsc knows the namespace of a container; null for the sandbox's.
const KNOWN: &str = "processes";

/// The specification of a container that we are about to stand for, as runsc is to be told it.
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
