//! A line for each stack.

use std::io::{self, Write};

use super::lines::lines;
use crate::{Names, Profile};

pub(super) fn write(profile: &Profile, names: &Names, into: &mut dyn Write) -> io::Result<()> {
    let lines = lines(profile, names);
    for (line, count) in lines.iter() {
        let line: Vec<String> = line.iter().map(|it| plain(lines.name(*it))).collect();
        writeln!(into, "{} {count}", line.join(";"))?;
    }
    Ok(())
}

/// What parts functions from each other is none of a name's.
fn plain(name: &str) -> String {
    name.replace(';', ":").replace(char::is_control, "?")
}
