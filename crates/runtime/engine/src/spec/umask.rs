//! The initial umask of a container.

use super::Error;
use super::handler_rules::UMASK;
use super::input::Known;

/// Returns the umask in an annotation, else the base's; `None` selects the runtime's default.
pub(super) fn asked(known: &Known<'_>) -> Result<Option<u32>, Error> {
    let rules = known.handler.rules;
    let defaults = &known.policy.default_annotations;
    let Some(wanted) = rules.acted_on(UMASK, known.pod_config, defaults) else {
        return Ok(rules.base.as_ref().and_then(super::BaseSpec::umask));
    };
    let mask =
        parse(wanted).map_err(|problem| Error::invalid(format!("annotation {UMASK}"), problem));
    mask.map(Some)
}

/// Parses the umask in an annotation.
pub(super) fn parse(wanted: &str) -> Result<u32, String> {
    let is_octal =
        (1..=4).contains(&wanted.len()) && wanted.bytes().all(|it| (b'0'..=b'7').contains(&it));
    let mask = u32::from_str_radix(wanted, 8).ok();
    mask.filter(|mask| is_octal && *mask <= 0o777)
        .ok_or_else(|| format!("{wanted:?} is not an octal mask; use a value such as 0027"))
}
