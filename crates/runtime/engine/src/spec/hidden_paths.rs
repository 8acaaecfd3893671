//! Masked and read-only paths: as requested, none for a privileged container.

use orlop_cri_api::v1;

use super::{BaseSpec, Error};

/// Returns the masked and read-only paths; the base's if the request has none.
pub(super) fn lists(
    security: &v1::LinuxContainerSecurityContext,
    base: Option<&BaseSpec>,
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
    let or_base = |asked: &Vec<String>, of_base: fn(&BaseSpec) -> &[String]| match base {
        Some(base) if asked.is_empty() => of_base(base).to_vec(),
        _ => asked.clone(),
    };
    Ok((
        or_base(&security.masked_paths, BaseSpec::masked_paths),
        or_base(&security.readonly_paths, BaseSpec::readonly_paths),
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
        let (masked, readonly) = lists(&security, None).unwrap();
        assert_eq!(
            (masked.as_slice(), readonly.as_slice()),
            (
                &["/proc/kcore".to_owned()][..],
                &["/proc/sys".to_owned()][..]
            )
        );
        security.privileged = true;
        assert_eq!(lists(&security, None).unwrap(), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_relative_path_would_hide_nothing() {
        let security = v1::LinuxContainerSecurityContext {
            masked_paths: vec!["proc/kcore".into()],
            ..Default::default()
        };
        assert!(lists(&security, None).is_err());
    }
}
