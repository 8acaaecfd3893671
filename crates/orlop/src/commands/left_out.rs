//! Commands that a build without their cargo feature does not have. Their errors name the feature.

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::bail;

/// Defines the arguments of such commands.
macro_rules! left_out {
    ($($name:ident($($inherited:ty)?) = $command:literal of $feature:literal,)*) => {$(
        /// Not in this build.
        #[cfg(not(feature = $feature))]
        #[derive(Debug, clap::Args)]
        pub(crate) struct $name {
            #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
            _arguments: Vec<OsString>,
        }

        #[cfg(not(feature = $feature))]
        impl $name {
            pub(crate) fn run(self $(, _: $inherited)?) -> anyhow::Result<ExitCode> {
                bail!(
                    "this build has no command `orlop {}`; use a build with the cargo feature `{}`",
                    $command,
                    $feature
                )
            }
        }
    )*};
}

left_out! {
    NodeArgs(crate::service_manager::Inherited) = "node" of "node",
    UpArgs(crate::service_manager::Inherited) = "up" of "node",
    ApplyArgs() = "apply" of "node",
    DeleteArgs() = "delete" of "node",
    MigrateArgs() = "migrate" of "migrate",
}
