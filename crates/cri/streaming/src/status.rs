//! Result of a session as Kubernetes' `metav1.Status`.

use serde::{Deserialize, Serialize};

/// The result of an exec or attach, as sent on the error stream from version 4 on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Status {
    #[serde(default)]
    metadata: Empty,
    #[serde(default)]
    pub(crate) status: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<u16>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Empty {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Details {
    #[serde(default)]
    causes: Vec<Cause>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Cause {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    reason: String,
    #[serde(default)]
    message: String,
}

const SUCCESS: &str = "Success";
const FAILURE: &str = "Failure";
const NON_ZERO_EXIT: &str = "NonZeroExitCode";
const EXIT_CODE: &str = "ExitCode";

impl Status {
    /// Creates the status of a command that exited with `code`.
    pub(crate) fn exited(code: i32) -> Self {
        if code == 0 {
            return Self::new(SUCCESS);
        }
        let cause = Cause {
            reason: EXIT_CODE.to_owned(),
            message: code.to_string(),
        };
        Self {
            message: format!("command terminated with non-zero exit code: exit status {code}"),
            reason: NON_ZERO_EXIT.to_owned(),
            details: Some(Details {
                causes: vec![cause],
            }),
            ..Self::new(FAILURE)
        }
    }

    /// Creates the status of a session that failed on the server.
    pub(crate) fn internal_error(error: &str) -> Self {
        let cause = Cause {
            reason: String::new(),
            message: error.to_owned(),
        };
        Self {
            message: format!("Internal error occurred: {error}"),
            reason: "InternalError".to_owned(),
            details: Some(Details {
                causes: vec![cause],
            }),
            code: Some(500),
            ..Self::new(FAILURE)
        }
    }

    fn new(status: &str) -> Self {
        Self {
            metadata: Empty {},
            status: status.to_owned(),
            message: String::new(),
            reason: String::new(),
            details: None,
            code: None,
        }
    }

    /// Returns the exit code, if the status is an exit.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        if self.status == SUCCESS {
            return Some(0);
        }
        if self.reason != NON_ZERO_EXIT {
            return None;
        }
        let causes = &self.details.as_ref()?.causes;
        causes
            .iter()
            .find(|cause| cause.reason == EXIT_CODE)?
            .message
            .parse()
            .ok()
    }

    /// Encodes the status for a peer; before version 4 it is text, and only for failures.
    pub(crate) fn encode(&self, structured: bool) -> Vec<u8> {
        if structured {
            serde_json::to_vec(self).unwrap_or_default()
        } else {
            self.message.clone().into_bytes()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(status: &Status) -> serde_json::Value {
        serde_json::from_slice(&status.encode(true)).expect("JSON")
    }

    #[test]
    fn exits_are_told_as_kubernetes_clients_expect() {
        assert_eq!(
            Status::exited(0).encode(true),
            br#"{"metadata":{},"status":"Success"}"#
        );
        assert_eq!(
            json(&Status::exited(7)),
            serde_json::json!({
                "metadata": {},
                "status": "Failure",
                "message": "command terminated with non-zero exit code: exit status 7",
                "reason": "NonZeroExitCode",
                "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
            })
        );
        assert_eq!(Status::exited(0).encode(false), b"");
    }

    #[test]
    fn exit_codes_are_read_back() {
        for code in [0, 1, 137] {
            assert_eq!(Status::exited(code).exit_code(), Some(code));
        }
        assert_eq!(
            Status::internal_error("no such container").exit_code(),
            None
        );
        let foreign: Status = serde_json::from_str(
            r#"{"kind":"Status","metadata":{},"status":"Failure","reason":"NonZeroExitCode",
                "details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#,
        )
        .expect("fields of no interest are passed over");
        assert_eq!(foreign.exit_code(), Some(3));
    }
}
