//! Container creation when the name is taken.
//!
//! Usually the name belongs to what an earlier attempt left: that container is removed, and the kubelet retries.
//! Occasionally the engine reserves a name for a container that it does not have; a randomised name is used then.

use crate::docker::types::{CreateBody, Created};
use crate::docker::{Docker, DockerError, Force};
use crate::names;

/// Creates a container.
pub(crate) async fn create(
    docker: &Docker,
    name: &str,
    body: &CreateBody,
) -> Result<Created, DockerError> {
    let error = match docker.create_container(name, body).await {
        Ok(created) => return Ok(created),
        Err(error) => error,
    };
    let Some(holder) = holder(&error) else {
        return Err(error);
    };
    tracing::info!(
        name,
        holder,
        "the container name is in use; removing the other container"
    );
    // Without force: a running container is in use.
    match docker.remove_container(&holder, Force::No).await {
        Ok(()) => Err(error),
        Err(gone) if gone.is_not_found() => {
            let name = names::randomised(name);
            docker.create_container(&name, body).await
        }
        Err(refused) => {
            tracing::warn!(name, holder, error = %refused, "cannot remove the container that uses the name");
            Err(error)
        }
    }
}

/// Extracts the id of the name's owner from the engine's message: `Conflict. The container name "/NAME" is already in
/// use by container "ID". You have to …`.
fn holder(error: &DockerError) -> Option<String> {
    if !error.is_conflict() {
        return None;
    }
    let text = error.to_string();
    let (_, rest) = text.split_once("is already in use by container ")?;
    let id: String = rest
        .trim_start_matches(['"', '\\'])
        .chars()
        .take_while(char::is_ascii_hexdigit)
        .collect();
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_name_is_read_from_the_refusal() {
        let refused = |status, message: &str| DockerError::Refused {
            status,
            message: message.to_owned(),
        };
        for text in [
            r#"Conflict. The container name "/k8s_a" is already in use by container "12ab". You have to remove it"#,
            r"Conflict. The name k8s_a is already in use by container 12ab. You have",
        ] {
            assert_eq!(holder(&refused(409, text)).as_deref(), Some("12ab"));
        }
        assert_eq!(
            holder(&refused(409, "removal is already in progress")),
            None
        );
        assert_eq!(
            holder(&refused(500, "is already in use by container 12ab")),
            None
        );
    }
}
