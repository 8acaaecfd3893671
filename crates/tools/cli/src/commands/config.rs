//! `crictl config`: options in crictl.yaml. Comments and the order of lines are kept.

use std::fmt::Write as _;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::{Context, bail};

use crate::connect::ClientFlags;
use crate::connect::settings::{DEFAULT, OPTIONS, Settings, entry};
use crate::output::{Table, stdout};

/// Arguments of `config`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Show the value of an option
    #[arg(long, value_name = "OPTION", conflicts_with_all = ["set", "list", "option"])]
    get: Option<String>,

    /// Set options
    #[arg(long, value_name = "OPTION=VALUE", value_delimiter = ',', conflicts_with_all = ["list", "option"])]
    set: Vec<String>,

    /// Show all options
    #[arg(long, conflicts_with = "option")]
    list: bool,

    /// Option to set
    #[arg(requires = "value")]
    option: Option<String>,

    /// Value of the option
    value: Option<String>,
}

pub(super) fn run(args: Args, flags: &ClientFlags) -> anyhow::Result<()> {
    let path = flags.config.as_deref();
    let path = path.unwrap_or_else(|| Path::new(DEFAULT));
    let text = match orlop_fs::read_text(path, orlop_fs::SMALL_FILE) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut settings = Settings::parse(&text)
        .with_context(|| format!("cannot use the client configuration {}", path.display()))?;
    let mut out = stdout();
    if let Some(option) = &args.get {
        writeln!(out, "{}", settings.get(option)?)?;
    } else if args.list {
        let mut table = Table::new(["KEY", "VALUE"]);
        for option in OPTIONS {
            table.row([option.to_owned(), settings.get(option)?]);
        }
        table.print(&mut out)?;
    } else {
        let mut changes: Vec<(&str, &str)> = Vec::new();
        for change in &args.set {
            changes.push(
                change
                    .split_once('=')
                    .with_context(|| format!("`{change}` is not in the form option=value"))?,
            );
        }
        if let (Some(option), Some(value)) = (&args.option, &args.value) {
            changes.push((option, value));
        }
        if changes.is_empty() {
            bail!("no action given; use --get OPTION, --set OPTION=VALUE or --list");
        }
        let mut text = text;
        for (option, value) in changes {
            settings.set(option, value)?;
            text = changed(&text, option, value);
        }
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory)
                .with_context(|| format!("cannot create {}", directory.display()))?;
        }
        fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    out.flush()?;
    Ok(())
}

/// Returns the text with one option set and everything else unchanged.
fn changed(text: &str, option: &str, value: &str) -> String {
    let value = if value.is_empty() { "\"\"" } else { value };
    let mut changed = String::new();
    let mut found = false;
    for line in text.lines() {
        if entry(line).is_some_and(|(key, _)| key == option) {
            found = true;
            let _ = writeln!(changed, "{option}: {value}");
        } else if line.trim() != "{}" {
            let _ = writeln!(changed, "{line}");
        }
    }
    if !found {
        let _ = writeln!(changed, "{option}: {value}");
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_an_option_keeps_everything_else() {
        let text = "# mine\ndebug: false\ntimeout: 2 # s\n";
        assert_eq!(
            changed(text, "debug", "true"),
            "# mine\ndebug: true\ntimeout: 2 # s\n"
        );
        assert_eq!(changed("", "image-endpoint", ""), "image-endpoint: \"\"\n");
        assert_eq!(changed("{}\n", "debug", "true"), "debug: true\n");
    }
}
