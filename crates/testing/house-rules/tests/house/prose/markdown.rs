//! The prose of a Markdown document: paragraphs, list items, headings and table cells, without code blocks.

/// A passage of prose.
#[derive(Debug, PartialEq)]
pub struct Passage {
    /// Line where it starts.
    pub line: usize,
    pub text: String,
}

impl Passage {
    fn new(line: usize, text: &str) -> Self {
        let text = text.to_owned();
        Self { line, text }
    }
}

pub fn passages(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut open: Option<Passage> = None;
    let mut in_code = false;
    for (line, text) in text
        .lines()
        .enumerate()
        .map(|(at, text)| (at + 1, text.trim()))
    {
        if text.starts_with("```") {
            passages.extend(open.take());
            in_code = !in_code;
        } else if in_code {
        } else if text.is_empty() {
            passages.extend(open.take());
        } else if text.starts_with('|') {
            passages.extend(open.take());
            passages.extend(cells(text).map(|text| Passage { line, text }));
        } else if let Some(text) = heading(text) {
            passages.extend(open.take());
            passages.push(Passage::new(line, text));
        } else if let Some(text) = item(text) {
            passages.extend(open.replace(Passage::new(line, text)));
        } else {
            let text = text.trim_start_matches("> ");
            match &mut open {
                Some(passage) => {
                    passage.text.push(' ');
                    passage.text.push_str(text);
                }
                None => {
                    open = Some(Passage::new(line, text));
                }
            }
        }
    }
    passages.extend(open);
    passages
}

/// Returns the help texts in code blocks: descriptions of commands and flags, without their names.
pub fn help_texts(text: &str) -> Vec<Passage> {
    let mut passages = Vec::new();
    let mut open: Option<Passage> = None;
    let mut in_code = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            in_code = !in_code;
        }
        // Two spaces separate a name from its description; other flags are on separate lines.
        let description = line
            .rsplit_once("  ")
            .map(|(_, description)| description.trim());
        let ends = line.is_empty()
            || line.starts_with(['-', '`', '['])
            || line.ends_with(':')
            || description.is_some();
        if ends || line.starts_with("Usage: ") {
            passages.extend(open.take());
        }
        match (description, &mut open) {
            _ if !in_code => {}
            (Some(text), _) => {
                open = Some(Passage::new(at + 1, text));
            }
            _ if ends || line.starts_with("Usage: ") => {}
            (None, Some(passage)) => {
                passage.text.push(' ');
                passage.text.push_str(line);
            }
            (None, None) => {
                open = Some(Passage::new(at + 1, line));
            }
        }
    }
    passages.extend(open);
    passages
}

fn heading(line: &str) -> Option<&str> {
    line.starts_with('#')
        .then(|| line.trim_start_matches('#').trim())
}

/// Returns the text of a list item's first line.
fn item(line: &str) -> Option<&str> {
    let bullet = ["- ", "* ", "+ "]
        .iter()
        .find_map(|bullet| line.strip_prefix(bullet));
    let number = || {
        let (number, text) = line.split_once(". ")?;
        let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
        digits.then_some(text)
    };
    bullet.or_else(number)
}

/// Returns the cells of a row. A bar in code does not end a cell.
fn cells(row: &str) -> impl Iterator<Item = String> {
    let mut cells = vec![String::new()];
    let mut in_code = false;
    let mut escaped = false;
    for c in row.chars() {
        match c {
            '`' => in_code = !in_code,
            '|' if !in_code && !escaped => {
                cells.push(String::new());
                continue;
            }
            _ => {}
        }
        escaped = c == '\\';
        cells.last_mut().expect("a cell").push(c);
    }
    let text = |cell: &String| cell.contains(char::is_alphabetic);
    cells.into_iter().filter(text)
}

#[test]
fn prose_is_taken_apart_and_code_is_left_out() {
    let text = "# A head\nOne\nparagraph.\n\n- an item\n  of two lines\n- another\n\n```sh\ncode\n```\n\
                | a `x|y` | b |\n|---|---|\n1. first\n";
    let found: Vec<(usize, String)> = passages(text)
        .into_iter()
        .map(|passage| (passage.line, passage.text.trim().to_owned()))
        .collect();
    let expected = [
        (1, "A head"),
        (2, "One paragraph."),
        (5, "an item of two lines"),
        (7, "another"),
        (12, "a `x|y`"),
        (12, "b"),
        (14, "first"),
    ];
    assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
}

#[test]
fn descriptions_are_found_in_help_texts() {
    let text = "## x\n\n```text\nRuns a pod\nin a sandbox\n\nUsage: x [OPTIONS]\n\nCommands:\n  ls  Lists\n      pods\n\n\
                Options:\n  -q, --quiet\n          Only IDs\n```\n";
    let found: Vec<_> = help_texts(text)
        .into_iter()
        .map(|passage| passage.text)
        .collect();
    assert_eq!(found, ["Runs a pod in a sandbox", "Lists pods", "Only IDs"]);
}
