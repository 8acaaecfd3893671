//! Validation of responses. A runtime that omits a required field would confuse later code.

use super::ClientError;
use crate::Rpc;
use crate::v1::{ContainerStatus, PodSandboxStatus, RuntimeStatus, VersionResponse};

pub(super) fn present(rpc: Rpc, field: &'static str, ok: bool) -> Result<(), ClientError> {
    if ok {
        Ok(())
    } else {
        Err(ClientError::Incomplete { rpc, field })
    }
}

/// Checks that a text is not empty.
pub(super) fn filled(rpc: Rpc, field: &'static str, text: String) -> Result<String, ClientError> {
    present(rpc, field, !text.is_empty())?;
    Ok(text)
}

pub(super) fn version(answer: &VersionResponse) -> Result<(), ClientError> {
    let rpc = Rpc::Version;
    present(rpc, "version", !answer.version.is_empty())?;
    present(rpc, "runtime_name", !answer.runtime_name.is_empty())?;
    present(rpc, "runtime_version", !answer.runtime_version.is_empty())?;
    present(
        rpc,
        "runtime_api_version",
        !answer.runtime_api_version.is_empty(),
    )
}

pub(super) fn status(answer: Option<&RuntimeStatus>) -> Result<(), ClientError> {
    let has = |name: &str| {
        answer.is_some_and(|status| status.conditions.iter().any(|found| found.r#type == name))
    };
    present(Rpc::Status, "condition RuntimeReady", has("RuntimeReady"))?;
    present(Rpc::Status, "condition NetworkReady", has("NetworkReady"))
}

pub(super) fn pod(answer: Option<&PodSandboxStatus>) -> Result<(), ClientError> {
    let rpc = Rpc::PodSandboxStatus;
    let status = answer.ok_or(ClientError::Incomplete {
        rpc,
        field: "status",
    })?;
    present(rpc, "id", !status.id.is_empty())?;
    let metadata = status.metadata.as_ref().ok_or(ClientError::Incomplete {
        rpc,
        field: "metadata",
    })?;
    present(rpc, "metadata.name", !metadata.name.is_empty())?;
    present(rpc, "metadata.namespace", !metadata.namespace.is_empty())?;
    present(rpc, "metadata.uid", !metadata.uid.is_empty())?;
    present(rpc, "created_at", status.created_at != 0)
}

pub(super) fn container(answer: Option<&ContainerStatus>) -> Result<(), ClientError> {
    let rpc = Rpc::ContainerStatus;
    let status = answer.ok_or(ClientError::Incomplete {
        rpc,
        field: "status",
    })?;
    present(rpc, "id", !status.id.is_empty())?;
    let name = status
        .metadata
        .as_ref()
        .is_some_and(|metadata| !metadata.name.is_empty());
    present(rpc, "metadata.name", name)?;
    present(rpc, "created_at", status.created_at != 0)?;
    let image = status
        .image
        .as_ref()
        .is_some_and(|image| !image.image.is_empty());
    present(rpc, "image.image", image)?;
    present(rpc, "image_ref", !status.image_ref.is_empty())
}
