//! Errors of calls: file and kernel errors as callers receive them.

use std::fmt::Display;
use std::path::Path;

use orlop_ttrpc::{Status, code};

/// The result of a call; the error is the status that its caller receives.
pub(crate) type Result<T, E = Status> = std::result::Result<T, E>;

/// Returns a function that adds the operation and the file to an error.
pub(crate) fn failed<E: Display>(doing: &str, path: &Path) -> impl FnOnce(E) -> Status + use<E> {
    let doing = format!("{doing} {}", path.display());
    move |error| Status::new(code::UNKNOWN, format!("{doing}: {error}"))
}

/// Returns a status without a more specific code.
pub(crate) fn unknown(problem: impl Into<String>) -> Status {
    Status::new(code::UNKNOWN, problem)
}

/// Returns a status for an invalid request.
pub(crate) fn invalid(problem: impl Into<String>) -> Status {
    Status::new(code::INVALID_ARGUMENT, problem)
}

/// Returns a status for an object in the wrong state.
pub(crate) fn too_soon(problem: impl Into<String>) -> Status {
    Status::new(code::FAILED_PRECONDITION, problem)
}

/// Returns a status for an object that does not exist.
pub(crate) fn not_found(problem: impl Into<String>) -> Status {
    Status::new(code::NOT_FOUND, problem)
}
