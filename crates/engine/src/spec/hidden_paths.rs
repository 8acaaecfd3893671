//! Masked and read-only paths: as requested, none for a privileged container.

use orlop_cri::v1;

use super::Error;

/// Masked and read-only paths.
pub(super) fn lists(
    security: &v1::LinuxContainerSecurityContext,
) -> Result<(Vec<String>, Vec<String>), Error> {
    if security.privileged {
        return Ok((Vec::new(), Vec::new()));
    }
    for (paths, field) in [
        (&security.masked_paths, "masked_paths"),
        (&security.readonly_paths, "readonly_paths"),
    ] {
        if let Some(bad) = paths
            .iter()
            .find(|path| !path.starts_with('/') || path.contains('\0'))
        {
            let field = format!("config.linux.security_context.{field}");
            return Err(Error::invalid(
                field,
                format!("{bad:?} is not an absolute path"),
            ));
        }
    }
    Ok((
        security.masked_paths.clone(),
        security.readonly_paths.clone(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileged_containers_see_everything() {
        let mut security = v1::LinuxContainerSecurityContext {
            masked_paths: vec!["/proc/kcore".into()],
            readonly_paths: vec!["/proc/sys".into()],
            ..Default::default()
        };
        let (masked, readonly) = lists(&security).unwrap();
        assert_eq!(
            (masked.as_slice(), readonly.as_slice()),
            (
                &["/proc/kcore".to_owned()][..],
                &["/proc/sys".to_owned()][..]
            )
        );
        security.privileged = true;
        assert_eq!(lists(&security).unwrap(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_relative_path_would_hide_nothing() {
        let security = v1::LinuxContainerSecurityContext {
            masked_paths: vec!["proc/kcore".into()],
            ..Default::default()
        };
        assert!(lists(&security).is_err());
    }
}
