//! What calls come to: errors of files and of the kernel, as callers are told them.

use std::fmt::Display;
use std::path::Path;

use orlop_ttrpc::{Status, code};

/// What a call comes to: an error is what its caller is told.
pub(crate) type Result<T, E = Status> = std::result::Result<T, E>;

/// Names what was being done to a file.
pub(crate) fn failed<E: Display>(doing: &str, path: &Path) -> impl FnOnce(E) -> Status + use<E> {
    let doing = format!("{doing} {}", path.display());
    move |error| Status::new(code::UNKNOWN, format!("{doing}: {error}"))
}

/// A failure of no better kind.
pub(crate) fn unknown(problem: impl Into<String>) -> Status {
    Status::new(code::UNKNOWN, problem)
}

/// What is asked makes no sense.
pub(crate) fn invalid(problem: impl Into<String>) -> Status {
    Status::new(code::INVALID_ARGUMENT, problem)
}

/// Not in this state.
pub(crate) fn too_soon(problem: impl Into<String>) -> Status {
    Status::new(code::FAILED_PRECONDITION, problem)
}

/// There is nothing of that name.
pub(crate) fn not_found(problem: impl Into<String>) -> Status {
    Status::new(code::NOT_FOUND, problem)
}
