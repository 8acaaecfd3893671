//! The profile that a request names, in the current field or the older text field.

use orlop_cri_api::v1;
use orlop_cri_api::v1::security_profile::ProfileType;

use super::Error;

/// Prefix of the node's profiles, in the older form and, by habit, in the current one.
const LOCALHOST: &str = "localhost/";

/// The profile that a request names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wanted {
    /// No profile is named.
    Unset,
    /// The runtime's default.
    Default,
    /// No profile applies.
    Unconfined,
    /// A profile of the node, by path or name.
    Localhost(String),
}

/// Reads the current field, or the older text if that is absent.
pub(super) fn wanted(
    profile: Option<&v1::SecurityProfile>,
    older: &str,
    field: &str,
) -> Result<Wanted, Error> {
    let Some(profile) = profile else {
        return from_text(older, field);
    };
    let kind = ProfileType::try_from(profile.profile_type).map_err(|_| {
        let problem = format!("unknown profile type {}", profile.profile_type);
        Error::invalid(field, problem)
    })?;
    if kind != ProfileType::Localhost && !profile.localhost_ref.is_empty() {
        let problem = "localhost_ref is set, but the profile type is not Localhost";
        return Err(Error::invalid(field, problem));
    }
    match kind {
        ProfileType::RuntimeDefault => Ok(Wanted::Default),
        ProfileType::Unconfined => Ok(Wanted::Unconfined),
        ProfileType::Localhost => localhost(&profile.localhost_ref, field),
    }
}

fn from_text(text: &str, field: &str) -> Result<Wanted, Error> {
    match text {
        "" => Ok(Wanted::Unset),
        "runtime/default" | "docker/default" => Ok(Wanted::Default),
        "unconfined" => Ok(Wanted::Unconfined),
        _ if text.starts_with(LOCALHOST) => localhost(text, field),
        _ => {
            let problem = format!(
                "{text:?} is not a profile; use \"runtime/default\", \"unconfined\" or \
                 \"localhost/NAME\""
            );
            Err(Error::invalid(field, problem))
        }
    }
}

fn localhost(reference: &str, field: &str) -> Result<Wanted, Error> {
    let name = reference.strip_prefix(LOCALHOST).unwrap_or(reference);
    if name.is_empty() {
        return Err(Error::invalid(
            field,
            "the profile type is Localhost, but localhost_ref is empty",
        ));
    }
    Ok(Wanted::Localhost(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_mean_the_same() {
        let profile = |kind: ProfileType, reference: &str| v1::SecurityProfile {
            profile_type: kind.into(),
            localhost_ref: reference.into(),
        };
        let present = |kind, reference| wanted(Some(&profile(kind, reference)), "unconfined", "f");
        assert_eq!(wanted(None, "", "f").unwrap(), Wanted::Unset);
        assert_eq!(
            present(ProfileType::RuntimeDefault, "").unwrap(),
            Wanted::Default
        );
        assert_eq!(
            wanted(None, "docker/default", "f").unwrap(),
            Wanted::Default
        );
        assert_eq!(
            wanted(None, "runtime/default", "f").unwrap(),
            Wanted::Default
        );
        assert_eq!(
            present(ProfileType::Unconfined, "").unwrap(),
            Wanted::Unconfined
        );
        assert_eq!(wanted(None, "unconfined", "f").unwrap(), Wanted::Unconfined);
        let file = Wanted::Localhost("/p.json".into());
        assert_eq!(present(ProfileType::Localhost, "/p.json").unwrap(), file);
        assert_eq!(
            present(ProfileType::Localhost, "localhost//p.json").unwrap(),
            file
        );
        assert_eq!(wanted(None, "localhost//p.json", "f").unwrap(), file);
    }

    #[test]
    fn contradictions_are_refused() {
        let profile = |kind: i32, reference: &str| v1::SecurityProfile {
            profile_type: kind,
            localhost_ref: reference.into(),
        };
        for bad in [
            profile(0, "x"),
            profile(1, "x"),
            profile(2, ""),
            profile(9, ""),
        ] {
            assert!(wanted(Some(&bad), "", "f").is_err(), "{bad:?}");
        }
        assert!(wanted(None, "strict", "f").is_err());
        assert!(wanted(None, "localhost/", "f").is_err());
    }
}
