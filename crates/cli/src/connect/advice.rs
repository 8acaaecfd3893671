//! What to do next, after a call that failed.

use orlop_cri::client::ClientError;
use tonic::Code;

/// A hint for whoever typed the command, where there is one that the error doesn't give.
pub(crate) fn on(error: &anyhow::Error) -> Option<&'static str> {
    let call = error
        .chain()
        .find_map(|cause| cause.downcast_ref::<ClientError>())?;
    Some(match call {
        ClientError::Deadline { .. } => {
            "the runtime listens but is slow or hangs: wait longer with --timeout, or look at its log"
        }
        ClientError::Call { status, .. } => match status.code() {
            Code::NotFound => "`orlop ps -a`, `orlop pods` and `orlop images` list what there is",
            Code::Unimplemented => {
                "the runtime is too old for this, or not made for it: `orlop version` says who it is"
            }
            Code::Unavailable => {
                "the runtime went away during the call: see whether it is started again, and repeat it"
            }
            _ => return None,
        },
        ClientError::Incomplete { .. } => {
            "it speaks another version of the interface: `orlop version` says who it is"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::Context;
    use orlop_cri::Rpc;

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
