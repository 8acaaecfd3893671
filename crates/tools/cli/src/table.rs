//! The macro behind the table of commands.

use std::process::ExitCode;

/// Generates the clap enum and the dispatch from a table of commands. A row has the help line, aliases, the variant,
/// and the module with `Args` and `run`. Rows of `both` are in the lists of orlop and crictl, rows of `crictl` in
/// crictl's only.
macro_rules! commands {
    (
        both { $($(#[$about:meta])* $variant:ident = $module:ident,)* }
        crictl { $($(#[$own_about:meta])* $own:ident = $own_module:ident,)* }
    ) => {
        /// The client commands.
        #[derive(Debug, clap::Subcommand)]
        pub enum Command {
            $($(#[$about])* $variant($module::Args),)*
        }

        impl Command {
            pub(crate) async fn call(
                self,
                session: &$crate::connect::Session,
            ) -> anyhow::Result<std::process::ExitCode> {
                match self {
                    $(Self::$variant(args) => {
                        $module::run(args, session).await.map($crate::table::End::code)
                    })*
                }
            }
        }

        /// Commands of crictl only, which need no runtime.
        #[derive(Debug, clap::Subcommand)]
        pub(crate) enum CrictlsOwn {
            $($(#[$own_about])* $own($own_module::Args),)*
        }

        impl CrictlsOwn {
            pub(crate) fn call(
                self,
                flags: &$crate::connect::ClientFlags,
            ) -> anyhow::Result<std::process::ExitCode> {
                match self {
                    $(Self::$own(args) => {
                        $own_module::run(args, flags).map($crate::table::End::code)
                    })*
                }
            }
        }

        /// Modules, in the order of the lists.
        #[cfg(test)]
        pub(crate) const MODULES: &[&str] =
            &[$(stringify!($module),)* $(stringify!($own_module),)*];
    };
}

/// Conversion of a successful result to an exit code.
pub(crate) trait End {
    fn code(self) -> ExitCode;
}

impl End for () {
    fn code(self) -> ExitCode {
        ExitCode::SUCCESS
    }
}

impl End for ExitCode {
    fn code(self) -> ExitCode {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use clap::{Command, Subcommand};

    use crate::commands::{self, CrictlsOwn, MODULES};

    #[test]
    fn each_command_has_its_file_and_each_file_its_command() {
        let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/src/commands");
        let files: BTreeSet<String> = fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != "mod.rs")
            .map(|name| name.strip_suffix(".rs").unwrap_or(&name).to_owned())
            .collect();
        let modules: BTreeSet<String> = MODULES.iter().map(|&name| name.to_owned()).collect();
        assert_eq!(files, modules);
    }

    #[test]
    fn a_command_is_called_as_its_file() {
        let root = CrictlsOwn::augment_subcommands(commands::Command::augment_subcommands(
            Command::new("any"),
        ));
        let names: Vec<String> = root
            .get_subcommands()
            .map(|command| command.get_name().replace('-', "_"))
            .collect();
        assert_eq!(names, MODULES);
    }
}
