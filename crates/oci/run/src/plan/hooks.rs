//! Hooks that run inside the container, prepared outside.

use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::path::Path;

use orlop_oci_types::Hook;
use rustix::fs::{MemfdFlags, memfd_create};

use super::text::c_string;
use crate::error::{Error, Result};
use crate::sys::Image;

/// A program that the container's process runs before its own.
#[derive(Debug)]
pub(crate) struct HookStep {
    pub(crate) index: u16,
    pub(crate) program: CString,
    pub(crate) args: Image,
    /// `None` if it inherits the environment of the container's process at that time.
    pub(crate) env: Option<Image>,
    /// The timeout in milliseconds; `None` for no limit.
    pub(crate) limit: Option<i32>,
}

/// The hooks of a stage, with their input and output.
#[derive(Debug, Default)]
pub(crate) struct HookSteps {
    pub(crate) steps: Vec<HookStep>,
    /// A memory file with the container's state, which the parent writes.
    pub(crate) state: Option<OwnedFd>,
    /// A memory file for the hooks' output, used in the error of a failed hook.
    pub(crate) output: Option<OwnedFd>,
}

impl HookSteps {
    /// Prepares a stage's hooks. A hook without an environment inherits that of the container's process, as with runc.
    pub(crate) fn new(hooks: &[Hook], stage: &str) -> Result<Self> {
        let steps = hooks.iter().enumerate().map(|(index, hook)| {
            let told = format!("hooks.{stage}[{index}]");
            check(hook).map_err(|error| error.within(&told))?;
            let strings = |list: &[String], what: &str| -> Result<Vec<CString>> {
                list.iter()
                    .map(|text| c_string(text.as_str(), &format!("{told}.{what}")))
                    .collect()
            };
            let mut args = strings(&hook.args, "args")?;
            if args.is_empty() {
                args.push(c_string(hook.path.as_str(), &told)?);
            }
            let env = match hook.env.as_slice() {
                [] => None,
                given => Some(Image::new(strings(given, "env")?)),
            };
            Ok(HookStep {
                index: index as u16,
                program: c_string(hook.path.as_str(), &told)?,
                args: Image::new(args),
                env,
                limit: limit(hook),
            })
        });
        let steps: Vec<HookStep> = steps.collect::<Result<_>>()?;
        if steps.is_empty() {
            return Ok(Self::default());
        }
        let file = |name| {
            memfd_create(name, MemfdFlags::CLOEXEC).map_err(|error| {
                Error::new(format!(
                    "hooks.{stage}: cannot create a file in memory: {error}"
                ))
            })
        };
        Ok(Self {
            steps,
            state: Some(file(c"state")?),
            output: Some(file(c"output")?),
        })
    }
}

/// Returns the timeout of a hook in milliseconds for `poll(2)`; `None` for no limit.
pub(crate) fn limit(hook: &Hook) -> Option<i32> {
    let milliseconds = hook.timeout?.saturating_mul(1000);
    Some(i32::try_from(milliseconds).unwrap_or(i32::MAX))
}

/// Checks that apply to every hook.
pub(crate) fn check(hook: &Hook) -> Result<()> {
    if !Path::new(&hook.path).is_absolute() {
        return Err(Error::new(format!("path: {:?} is not absolute", hook.path)));
    }
    match hook.timeout {
        Some(seconds) if seconds <= 0 => Err(Error::new(format!(
            "timeout: {seconds} is not greater than 0"
        ))),
        _ => Ok(()),
    }
}
