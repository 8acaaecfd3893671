//! A line for each stack.

use std::io::{self, Write};

use super::lines::lines;
use crate::{Names, Profile};

pub(super) fn write(profile: &Profile, names: &Names, into: &mut dyn Write) -> io::Result<()> {
    for (line, count) in lines(profile, names) {
        let line: Vec<String> = line.iter().map(|name| plain(name)).collect();
        writeln!(into, "{} {count}", line.join(";"))?;
    }
    Ok(())
}

/// What parts functions from each other is none of a name's.
fn plain(name: &str) -> String {
    name.replace(';', ":").replace(char::is_control, "?")
}
