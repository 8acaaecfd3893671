//! `man`: prints the manual page, generated from the commands' definitions.

use std::fmt::Write as _;

use super::VERBS;
use super::command::{Call, HELP, Verb};
use crate::args::{Flag, FlagsEnd, GLOBAL};
use crate::error::Result;

pub(super) const VERB: Verb = Verb {
    name: "man",
    about: "print the manual page",
    arguments: "",
    flags: &[HELP],
    flags_end: FlagsEnd::Nowhere,
    enters: false,
    failed: None,
    run,
};

fn run(_: &Call<'_>) -> Result<u8> {
    print!("{}", page());
    Ok(0)
}

fn page() -> String {
    let mut page = String::from(
        ".TH ORLOP-RUN 8 \"\" \"orlop\"\n.SH NAME\norlop-run \\- OCI container runtime\n\
         .SH SYNOPSIS\n.B orlop-run\n[\\fIflags\\fR] \\fIcommand\\fR [\\fIarguments\\fR]\n\
         .SH DESCRIPTION\n.B orlop-run\ncreates and runs containers from OCI bundles.\n\
         A bundle is a directory with a root filesystem and a\n.I config.json\nof the OCI runtime specification.\n\
         The command line is compatible with runc.\n.SH FLAGS\n",
    );
    flags(&mut page, GLOBAL);
    page.push_str(".SH COMMANDS\n");
    for verb in VERBS {
        let arguments = escape(verb.arguments);
        // Writing to a string cannot fail.
        let _ = writeln!(
            page,
            ".SS {} [\\fIflags\\fR] {arguments}\n{}.",
            verb.name,
            escape(verb.about)
        );
        flags(&mut page, verb.flags);
    }
    page.push_str(
        ".SH EXIT STATUS\n.B run\nand\n.B exec\nin the foreground exit with the status of the container's process.\n\
         .B exec\nexits with 255 if it cannot run the process.\n\
         Other failed commands exit with 1, and an unknown command with 3.\n\
         .SH SEE ALSO\n.BR orlop (1),\n.I docs/reference/orlop\\-run.md\n",
    );
    page
}

fn flags(page: &mut String, flags: &[Flag]) {
    for flag in flags {
        let short = flag
            .short
            .map_or_else(String::new, |short| format!("\\-{short}, "));
        let value = flag
            .value
            .map_or_else(String::new, |value| format!(" \\fI{}\\fR", escape(value)));
        let _ = writeln!(
            page,
            ".TP\n.B {short}\\-\\-{}{value}\n{}.",
            escape(flag.name),
            escape(flag.help)
        );
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_and_flag_is_told() {
        let page = page();
        for verb in VERBS {
            assert!(
                page.contains(&format!(".SS {} ", verb.name)),
                "{}",
                verb.name
            );
            for flag in verb.flags {
                assert!(
                    page.contains(&format!("\\-\\-{}", escape(flag.name))),
                    "{}",
                    flag.name
                );
            }
        }
        let starts_oddly = |line: &&str| line.starts_with('\'');
        assert_eq!(page.lines().find(starts_oddly), None);
    }
}
