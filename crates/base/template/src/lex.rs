//! Splits a template into literal text and actions of words.

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Piece {
    Text(String),
    Action(Vec<Word>),
}

/// A word of an action.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Word {
    /// `.`, `.a.b`: the keys.
    Field(Vec<String>),
    /// `$`, `$x`, `$x.a`: the name without `$`, and the keys.
    Variable(String, Vec<String>),
    /// A function or keyword.
    Name(String),
    Text(String),
    Number(serde_json::Number),
    Pipe,
    Open,
    /// `)`, and the keys of `(…).a`.
    Close(Vec<String>),
    Comma,
    Declare,
    Assign,
}

pub(crate) fn pieces(template: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = template;
    let mut trim = false;
    while let Some(start) = rest.find("{{") {
        let mut text = &rest[..start];
        if trim {
            text = text.trim_start();
        }
        let mut inside = &rest[start + 2..];
        if let Some(after) = inside
            .strip_prefix('-')
            .filter(|after| after.starts_with(char::is_whitespace))
        {
            inside = after;
            text = text.trim_end();
        }
        if !text.is_empty() {
            pieces.push(Piece::Text(text.to_owned()));
        }
        let inside = inside.trim_start();
        let (words, after) = if let Some(comment) = inside.strip_prefix("/*") {
            let end = comment
                .find("*/")
                .ok_or("unclosed comment: */ is missing")?;
            (Vec::new(), comment[end + 2..].trim_start())
        } else {
            words(inside)?
        };
        (trim, rest) = match after.strip_prefix("-}}") {
            Some(after) => (true, after),
            None => (
                false,
                after
                    .strip_prefix("}}")
                    .ok_or("unclosed action: }} is missing")?,
            ),
        };
        if !words.is_empty() {
            pieces.push(Piece::Action(words));
        }
    }
    let text = if trim { rest.trim_start() } else { rest };
    if !text.is_empty() {
        pieces.push(Piece::Text(text.to_owned()));
    }
    Ok(pieces)
}

/// Returns the words of an action, and the rest after its end.
fn words(text: &str) -> Result<(Vec<Word>, &str), String> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        let Some(first) = rest.chars().next() else {
            return Err("unclosed action: }} is missing".into());
        };
        if rest.starts_with("}}") || rest.starts_with("-}}") {
            return Ok((words, rest));
        }
        let (word, after) = match first {
            '|' => (Word::Pipe, &rest[1..]),
            '(' => (Word::Open, &rest[1..]),
            ')' => {
                let (keys, after) = keys(&rest[1..])?;
                (Word::Close(keys), after)
            }
            ',' => (Word::Comma, &rest[1..]),
            '=' => (Word::Assign, &rest[1..]),
            ':' if rest.starts_with(":=") => (Word::Declare, &rest[2..]),
            '.' if !rest[1..].starts_with(|c: char| c.is_ascii_digit()) => {
                let (keys, after) = keys(rest)?;
                (
                    Word::Field(keys),
                    if after.len() == rest.len() {
                        &rest[1..]
                    } else {
                        after
                    },
                )
            }
            '$' => {
                let (name, after) = name(&rest[1..]);
                let (keys, after) = keys(after)?;
                (Word::Variable(name.to_owned(), keys), after)
            }
            '"' => quoted(rest)?,
            '`' => {
                let end = rest[1..]
                    .find('`')
                    .ok_or("unterminated string: ` is missing")?;
                (Word::Text(rest[1..=end].to_owned()), &rest[end + 2..])
            }
            '0'..='9' | '-' | '+' | '.' => number(rest)?,
            c if c.is_alphabetic() || c == '_' => {
                let (name, after) = name(rest);
                (Word::Name(name.to_owned()), after)
            }
            c => return Err(format!("unexpected character `{c}`")),
        };
        words.push(word);
        rest = after;
    }
}

/// Returns the keys of `.a.b`, and the rest. A lone dot is not consumed.
fn keys(text: &str) -> Result<(Vec<String>, &str), String> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(after) = rest.strip_prefix('.') {
        let (key, after) = name(after);
        if key.is_empty() {
            if keys.is_empty() && !after.starts_with('.') {
                break;
            }
            return Err("a key is missing after a dot".into());
        }
        keys.push(key.to_owned());
        rest = after;
    }
    Ok((keys, rest))
}

fn name(text: &str) -> (&str, &str) {
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || c == '_'))
        .unwrap_or(text.len());
    text.split_at(end)
}

fn number(text: &str) -> Result<(Word, &str), String> {
    let end = text
        .char_indices()
        .position(|(at, c)| {
            !(c.is_ascii_alphanumeric() || c == '.' || (at == 0 && "+-".contains(c)))
        })
        .unwrap_or(text.len());
    let digits = text[..end].trim_start_matches('+');
    let number = serde_json::from_slice(digits.as_bytes())
        .map_err(|_| format!("`{digits}` is not a number"))?;
    Ok((Word::Number(number), &text[end..]))
}

fn quoted(text: &str) -> Result<(Word, &str), String> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            '"' if !escaped => {
                let inner = serde_json::from_slice(&text.as_bytes()[..=at])
                    .map_err(|_| format!("{} is not a valid string", &text[..=at]))?;
                return Ok((Word::Text(inner), &text[at + 1..]));
            }
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    Err("unterminated string: \" is missing".into())
}
