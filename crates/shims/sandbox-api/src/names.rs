//! Validation of names that become file names.

use tonic::Status;

/// Validates the name of a namespace or a sandbox.
pub(crate) fn checked(name: &str) -> Result<&str, Status> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_good = !name.is_empty()
        && name.len() <= 128
        && !name.starts_with('.')
        && name.bytes().all(is_plain);
    if is_good {
        return Ok(name);
    }
    Err(Status::invalid_argument(format!(
        "{name:?} is not a valid sandbox ID or namespace"
    )))
}

#[cfg(test)]
mod tests {
    use super::checked;

    #[test]
    fn names_are_no_paths() {
        assert!(checked("k8s.io").is_ok());
        for name in ["", ".", "..", "a/b", ".hidden", "a b", &"x".repeat(129)] {
            assert!(checked(name).is_err(), "{name}");
        }
    }
}
