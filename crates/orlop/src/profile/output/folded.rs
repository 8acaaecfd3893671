//! Folded stacks: one line for each stack.

use std::fmt::Write as _;

use super::lines::lines;
use crate::profile::recording::Profile;

pub(super) fn write(profile: &Profile) -> String {
    let mut text = String::new();
    for (names, count) in lines(profile) {
        // A semicolon separates functions.
        let names: Vec<String> = names.iter().map(|name| name.replace(';', ":")).collect();
        let _ = writeln!(text, "{} {count}", names.join(";"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_stack_is_a_line() {
        assert_eq!(
            write(&super::super::example()),
            "worker;main;<Vec<T>>::push: x 1\nworker;main;<Vec<T>>::push: x;read 2\nworker;main;read 4\n"
        );
    }
}
