//! Hints after a failed call.

use orlop_cri_api::client::ClientError;
use tonic::Code;

/// Returns a hint for the user, if there is one that the error itself does not contain.
pub(crate) fn on(error: &anyhow::Error) -> Option<&'static str> {
    let call = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<ClientError>())?;
    Some(match call {
        ClientError::Deadline { .. } => {
            "the runtime listens but does not answer in time; increase --timeout, or check the log \
             of the runtime"
        }
        ClientError::Call { status, .. } => match status.code() {
            Code::NotFound => {
                "to list the existing objects, run `orlop ps -a`, `orlop pods` or `orlop images`"
            }
            Code::Unimplemented => {
                "the runtime is too old for this call or does not support it; run `orlop version` \
                 to see its name and version"
            }
            Code::Unavailable => {
                "the runtime closed the connection during the call; check that it is running, and \
                 try again"
            }
            _ => return None,
        },
        ClientError::Incomplete { .. } => {
            "the runtime uses another version of the CRI; run `orlop version` to see its name and \
             version"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::Context;
    use orlop_cri_api::Rpc;

    use super::*;

    #[test]
    fn who_waited_in_vain_is_told_of_the_flag() {
        let call = ClientError::Deadline {
            rpc: Rpc::Version,
            after: Duration::from_secs(2),
        };
        let error = Err::<(), _>(call).context("cannot ask").unwrap_err();
        assert!(on(&error).unwrap().contains("--timeout"));
        let call = ClientError::Call {
            rpc: Rpc::Version,
            status: Box::new(tonic::Status::unimplemented("unknown method")),
        };
        assert!(on(&call.into()).unwrap().contains("orlop version"));
        assert_eq!(on(&anyhow::anyhow!("something else")), None);
    }
}
