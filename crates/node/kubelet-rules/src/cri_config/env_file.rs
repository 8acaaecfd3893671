//! Environment files that one container of a pod writes for another: `NAME='value'` lines, a subset
//! of shell syntax.

use std::collections::{BTreeMap, BTreeSet};

use crate::pod::{Container, FileKeyRef};

/// The environment files of a container, by volume and path: their text, `None` if the file is
/// missing, or why it cannot be read.
pub type EnvFiles = BTreeMap<(String, String), Result<Option<String>, String>>;

/// Lists the environment files of a container, by volume and path.
pub fn env_files(container: &Container) -> BTreeSet<(String, String)> {
    let sources = container.env.iter().filter_map(|it| it.value_from.as_ref());
    let references = sources.filter_map(|source| source.file_key_ref.as_ref());
    references
        .map(|it| (it.volume_name.clone(), it.path.clone()))
        .collect()
}

/// Returns a variable's value from its file. As in the kubelet, an empty value counts as missing.
pub(super) fn value_of(files: &EnvFiles, reference: &FileKeyRef) -> Result<Option<String>, String> {
    let FileKeyRef {
        volume_name,
        path,
        key,
        optional,
    } = reference;
    let place = || format!("the file {path:?} of the volume {volume_name:?}");
    let text = match files.get(&(volume_name.clone(), path.clone())) {
        Some(Ok(Some(text))) => text,
        Some(Ok(None)) | None if *optional => return Ok(None),
        Some(Ok(None)) | None => return Err(format!("{} does not exist", place())),
        Some(Err(why)) => return Err(format!("cannot read {}: {why}", place())),
    };
    let found = parse(text, key)
        .map_err(|(line, why)| format!("cannot parse {}: line {line}: {why}", place()))?;
    match found.filter(|value| !value.is_empty()) {
        None if !*optional => Err(format!(
            "environment variable key {key:?} not found in {}",
            place()
        )),
        found => Ok(found),
    }
}

/// Returns the first value of a name; the rest of the text is not parsed.
fn parse(text: &str, key: &str) -> Result<Option<String>, (usize, &'static str)> {
    const BLANKS: [char; 2] = [' ', '\t'];
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, value) = line.split_once('=').ok_or((number, "the = is missing"))?;
        if name.trim_end_matches(BLANKS).is_empty() {
            return Err((number, "the name before the = is missing"));
        }
        if name.ends_with(BLANKS) {
            return Err((number, "spaces before the = are not allowed"));
        }
        if value.starts_with(BLANKS) {
            // A shell reads this as an empty value followed by other text.
            if name == key {
                return Ok(None);
            }
            continue;
        }
        let mut rest = value
            .strip_prefix('\'')
            .ok_or((number, "the value must be in single quotes"))?;
        let mut value = String::new();
        let mut at = number;
        let after = loop {
            if let Some((end, after)) = rest.split_once('\'') {
                value.push_str(end);
                break after.trim_start_matches(BLANKS);
            }
            value.push_str(rest);
            value.push('\n');
            (rest, at) = lines
                .next()
                .ok_or((number, "the closing single quote is missing"))?;
        };
        if !(after.is_empty() || after.starts_with('#')) {
            return Err((at, "text after the closing quote is not allowed"));
        }
        if name == key {
            if value.contains('\0') {
                return Err((number, "a value must not contain a zero byte"));
            }
            return Ok(Some(value));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_a_shell_would() {
        let rows = [
            ("A='1'\nK='2'\nB='3'", Ok(Some("2"))),
            ("  \tK='2'\r\n", Ok(Some("2"))),
            ("# K='no'\n\n \nK='yes' # why\n", Ok(Some("yes"))),
            ("K='one\n  two\nthree'\n", Ok(Some("one\n  two\nthree"))),
            ("A='x\nK=no'\nK='y'", Ok(Some("y"))),
            ("K='$HOME \\n \"#=\" '", Ok(Some("$HOME \\n \"#=\" "))),
            ("K='1'\nK='2'\nnonsense", Ok(Some("1"))),
            ("K=''", Ok(Some(""))),
            ("K= 'x'", Ok(None)),
            ("A= 'x'\nK='y'", Ok(Some("y"))),
            ("A='x'", Ok(None)),
            ("", Ok(None)),
            ("nonsense\nK='1'", Err(1)),
            ("='1'", Err(1)),
            (" ='1'", Err(1)),
            ("A='1'\nK ='1'", Err(2)),
            ("K=1", Err(1)),
            ("K=\"1\"", Err(1)),
            ("K='1''2'", Err(1)),
            ("K='a\nb' c", Err(2)),
            ("K='1", Err(1)),
            ("K='1\0'", Err(1)),
        ];
        for (text, expected) in rows {
            let got = parse(text, "K");
            let got = got
                .as_ref()
                .map(Option::as_deref)
                .map_err(|(line, _)| *line);
            assert_eq!(got, expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_missing_matters_unless_it_is_optional() {
        let files = EnvFiles::from([
            (
                ("v".to_owned(), "e".to_owned()),
                Ok(Some("K='1'\nE=''".to_owned())),
            ),
            (("v".to_owned(), "gone".to_owned()), Ok(None)),
            (
                ("v".to_owned(), "bad".to_owned()),
                Err("it is not a regular file".to_owned()),
            ),
        ]);
        let rows = [
            ("e", "K", false, Ok(Some("1"))),
            ("e", "X", false, Err("\"X\" not found")),
            ("e", "X", true, Ok(None)),
            ("e", "E", false, Err("\"E\" not found")),
            ("e", "E", true, Ok(None)),
            ("gone", "K", false, Err("does not exist")),
            ("gone", "K", true, Ok(None)),
            ("bad", "K", true, Err("it is not a regular file")),
        ];
        for (path, key, optional, expected) in rows {
            let reference = FileKeyRef {
                volume_name: "v".to_owned(),
                path: path.to_owned(),
                key: key.to_owned(),
                optional,
            };
            match (value_of(&files, &reference), expected) {
                (Ok(got), Ok(expected)) => assert_eq!(got.as_deref(), expected, "{reference:?}"),
                (Err(got), Err(expected)) => assert!(got.contains(expected), "{got}"),
                (got, _) => panic!("{reference:?}: {got:?}"),
            }
        }
    }
}
