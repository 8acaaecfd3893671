//! Parses YAML text. Plain scalars follow YAML 1.1: `yes` and `off` are booleans, `0644` is octal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use granit_parser::{Event, Options, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::Number;

use crate::node::{Content, Entry, Node, Position};

/// The maximum number of values: nested aliases could otherwise fill the memory.
const MOST_VALUES: usize = 1_000_000;
/// The maximum depth of nesting.
const DEEPEST: usize = 100;

/// One document of a text: its value, or an error.
#[derive(Debug, Clone, PartialEq)]
pub enum Document {
    /// The value; empty documents are left out.
    Good(Node),
    /// An error after which the rest of the document is unreadable.
    Bad(Position, String),
}

/// Parses all documents of a text. An error in one does not hide the others.
pub fn documents(text: &str) -> Vec<Document> {
    let mut options = Options::default();
    options.set_emit_comments(false);
    let mut reader = Reader {
        parser: Parser::new_from_str_with_options(text, options),
        anchors: BTreeMap::new(),
        values: 0,
    };
    let mut documents = Vec::new();
    loop {
        match reader.document() {
            Ok(Some(node)) if node.content == Content::Null => {}
            Ok(Some(node)) => documents.push(Document::Good(node)),
            Ok(None) => break,
            Err(problem) => {
                documents.push(Document::Bad(problem.at, problem.why));
                match reader.parser.proceed_next_document() {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        let problem = Problem::from(error);
                        documents.push(Document::Bad(problem.at, problem.why));
                        break;
                    }
                }
            }
        }
    }
    documents
}

struct Problem {
    at: Position,
    why: String,
}

impl From<ScanError> for Problem {
    fn from(error: ScanError) -> Self {
        Self {
            at: Position {
                line: error.marker().line(),
                column: error.marker().col() + 1,
            },
            why: error.info(),
        }
    }
}

struct Reader<'t> {
    parser: Parser<'t, granit_parser::StrInput<'t>>,
    anchors: BTreeMap<usize, (Node, usize)>,
    values: usize,
}

impl<'t> Reader<'t> {
    /// Parses the next document; `None` at the end of the text.
    fn document(&mut self) -> Result<Option<Node>, Problem> {
        loop {
            match self.parser.next_event() {
                None | Some(Ok((Event::StreamEnd, _))) => return Ok(None),
                Some(Err(error)) => return Err(error.into()),
                Some(Ok((Event::DocumentStart(..), _))) => break,
                Some(Ok(_)) => {}
            }
        }
        self.anchors.clear();
        self.values = 0;
        let (event, span) = self.event()?;
        let node = self.node(event, span, 0)?;
        Ok(Some(node))
    }

    fn event(&mut self) -> Result<(Event<'t>, Span), Problem> {
        match self.parser.next_event() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(error.into()),
            None => Err(Problem {
                at: Position::default(),
                why: "the document ends in the middle of a value".to_owned(),
            }),
        }
    }

    fn node(&mut self, event: Event<'t>, span: Span, depth: usize) -> Result<Node, Problem> {
        let at = position(&span);
        let before = self.values;
        self.count(1, at)?;
        if depth > DEEPEST {
            return Err(Problem {
                at,
                why: format!("values are nested deeper than {DEEPEST} levels"),
            });
        }
        let (node, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let content =
                    scalar(&text, style, tag.as_deref()).map_err(|why| Problem { at, why })?;
                (Node { at, content }, anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    let (event, span) = self.event()?;
                    if matches!(event, Event::SequenceEnd) {
                        break;
                    }
                    items.push(self.node(event, span, depth + 1)?);
                }
                let content = Content::List(Arc::new(items));
                (Node { at, content }, anchor)
            }
            Event::MappingStart(_, anchor, _) => {
                let content = Content::Map(Arc::new(self.map(depth)?));
                (Node { at, content }, anchor)
            }
            Event::Alias(id) => {
                let Some((node, size)) = self.anchors.get(&id) else {
                    return Err(Problem {
                        at,
                        why: "an alias is inside the value that it refers to".to_owned(),
                    });
                };
                let (node, size) = (node.clone(), *size);
                self.count(size, at)?;
                return Ok(node);
            }
            _ => {
                return Err(Problem {
                    at,
                    why: "a value is missing".to_owned(),
                });
            }
        };
        if anchor != 0 {
            self.anchors
                .insert(anchor, (node.clone(), self.values - before));
        }
        Ok(node)
    }

    fn map(&mut self, depth: usize) -> Result<Vec<Entry>, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut merged: Vec<Entry> = Vec::new();
        let mut seen = BTreeSet::new();
        loop {
            let (event, span) = self.event()?;
            if matches!(event, Event::MappingEnd) {
                break;
            }
            let at = position(&span);
            let plain = matches!(&event, Event::Scalar(_, ScalarStyle::Plain, _, _));
            let written = match &event {
                Event::Scalar(text, ..) => Some(text.to_string()),
                _ => None,
            };
            let key = self.node(event, span, depth + 1)?;
            let (event, span) = self.event()?;
            let value = self.node(event, span, depth + 1)?;
            let key = match (key.content, written) {
                (Content::Text(text), _) => text,
                (Content::Null | Content::List(_) | Content::Map(_), _) | (_, None) => {
                    return Err(Problem {
                        at,
                        why: "a key must be a string".to_owned(),
                    });
                }
                (Content::Bool(_) | Content::Number(_), Some(written)) => written,
            };
            if key == "<<" && plain {
                merge(&mut merged, &value).map_err(|why| Problem { at, why })?;
                continue;
            }
            if !seen.insert(key.clone()) {
                return Err(Problem {
                    at,
                    why: format!("the key {key:?} is set twice"),
                });
            }
            entries.push(Entry { key, at, value });
        }
        for entry in merged {
            if seen.insert(entry.key.clone()) {
                entries.push(entry);
            }
        }
        Ok(entries)
    }

    fn count(&mut self, values: usize, at: Position) -> Result<(), Problem> {
        self.values = self.values.saturating_add(values);
        if self.values > MOST_VALUES {
            return Err(Problem {
                at,
                why: format!("there are more than {MOST_VALUES} values"),
            });
        }
        Ok(())
    }
}

/// Applies `<<: *base`: the keys of a map, or of several maps of which the first wins.
fn merge(merged: &mut Vec<Entry>, value: &Node) -> Result<(), String> {
    match &value.content {
        Content::Map(entries) => merged.extend(entries.iter().cloned()),
        Content::List(items) => {
            for item in items.iter() {
                match &item.content {
                    Content::Map(entries) => merged.extend(entries.iter().cloned()),
                    _ => return Err("only maps can be merged with <<".to_owned()),
                }
            }
        }
        _ => return Err("only maps can be merged with <<".to_owned()),
    }
    Ok(())
}

fn position(span: &Span) -> Position {
    Position {
        line: span.start.line(),
        column: span.start.col() + 1,
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Result<Content, String> {
    match tag.map(|tag| tag.core_suffix().unwrap_or_default()) {
        Some("null") => return Ok(Content::Null),
        Some(suffix @ ("int" | "float" | "bool")) => {
            let content = plain(text);
            return match (suffix, &content) {
                ("bool", Content::Bool(_)) | ("int" | "float", Content::Number(_)) => Ok(content),
                _ => Err(format!("{text:?} is not a valid {suffix}")),
            };
        }
        Some("") if tag.is_some_and(|tag| tag.handle() != "!" || !tag.suffix().is_empty()) => {
            return Err("custom tags are not supported".to_owned());
        }
        Some(_) => return Ok(Content::Text(text.to_owned())),
        None => {}
    }
    Ok(match style {
        ScalarStyle::Plain => plain(text),
        _ => Content::Text(text.to_owned()),
    })
}

/// Returns the value of an unquoted scalar.
fn plain(text: &str) -> Content {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Content::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => {
            return Content::Bool(true);
        }
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Content::Bool(false);
        }
        _ => {}
    }
    number(text).map_or_else(|| Content::Text(text.to_owned()), Content::Number)
}

fn number(text: &str) -> Option<Number> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let first = digits.as_bytes().first()?;
    if !first.is_ascii_digit() && *first != b'.' {
        return None;
    }
    let bare = digits.replace('_', "");
    let radix = |prefix: &str, radix| {
        bare.strip_prefix(prefix)
            .filter(|rest| !rest.is_empty() && !rest.starts_with(['+', '-']))
            .map(|rest| i128::from_str_radix(rest, radix))
    };
    let whole = radix("0x", 16)
        .or_else(|| radix("0o", 8))
        .or_else(|| radix("0b", 2))
        .or_else(|| radix("0", 8).filter(Result::is_ok));
    if let Some(whole) = whole {
        let whole = whole.ok()?;
        return integer(if negative { -whole } else { whole });
    }
    if bare.bytes().all(|byte| byte.is_ascii_digit()) {
        let whole: i128 = bare.parse().ok()?;
        return integer(if negative { -whole } else { whole });
    }
    let float = bare
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'))
        && bare.bytes().any(|byte| byte.is_ascii_digit());
    if !float {
        return None;
    }
    let value: f64 = bare.parse().ok()?;
    Number::from_f64(if negative { -value } else { value })
}

fn integer(value: i128) -> Option<Number> {
    i64::try_from(value)
        .map(Number::from)
        .or_else(|_| u64::try_from(value).map(Number::from))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Node {
        match documents(text).remove(0) {
            Document::Good(node) => node,
            Document::Bad(at, why) => panic!("{at}: {why}"),
        }
    }

    fn complaint(text: &str) -> (usize, String) {
        match documents(text).remove(0) {
            Document::Good(node) => panic!("{node:?}"),
            Document::Bad(at, why) => (at.line, why),
        }
    }

    #[test]
    fn plain_scalars_mean_what_kubernetes_takes_them_for() {
        for (text, expected) in [
            ("yes", Content::Bool(true)),
            ("off", Content::Bool(false)),
            ("n", Content::Text("n".into())),
            ("~", Content::Null),
            ("0644", Content::Number(420.into())),
            ("0o644", Content::Number(420.into())),
            ("0x1F", Content::Number(31.into())),
            ("09", Content::Number(9.into())),
            ("1_000", Content::Number(1000.into())),
            ("-3", Content::Number((-3).into())),
            ("1e3", Content::Number(Number::from_f64(1000.0).unwrap())),
            ("100m", Content::Text("100m".into())),
            ("1.2.3", Content::Text("1.2.3".into())),
            ("0x", Content::Text("0x".into())),
            (".", Content::Text(".".into())),
            ("2001-01-01", Content::Text("2001-01-01".into())),
            ("'5'", Content::Text("5".into())),
            ("!!str 5", Content::Text("5".into())),
        ] {
            let found = one(&format!("a: {text}")).get("a").unwrap().content.clone();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn values_know_their_lines() {
        let node = one("a:\n  - b: 1\n  - c\n");
        let list = node.get("a").unwrap();
        assert_eq!(list.at.line, 2);
        let Content::List(items) = &list.content else {
            panic!()
        };
        assert_eq!((items[1].at.line, items[1].at.column), (3, 5));
    }

    #[test]
    fn a_mistake_names_its_line_and_spares_the_other_documents() {
        let found = documents("a: 1\n---\nb: [1\nc: }\n---\nd: 2\n");
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(matches!(&found[0], Document::Good(node) if node.get("a").is_some()));
        assert!(matches!(&found[1], Document::Bad(at, _) if (3..=4).contains(&at.line)));
        assert!(matches!(&found[2], Document::Good(node) if node.get("d").is_some()));
        assert_eq!(complaint("a: 1\nb: 2\na: 3\n").0, 3);
        assert_eq!(documents("---\n---\n# nothing\n"), Vec::new());
    }

    #[test]
    fn aliases_and_merges_add_up_but_do_not_explode() {
        let node = one("base: &b {x: 1, y: 2}\nit:\n  <<: *b\n  y: 3\n");
        let it = node.get("it").unwrap();
        assert_eq!(it.get("x").unwrap().content, Content::Number(1.into()));
        assert_eq!(it.get("y").unwrap().content, Content::Number(3.into()));
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..9 {
            let of = format!("*a{}", n - 1);
            let items = [of.as_str(); 10].join(", ");
            bomb = format!("{bomb}a{n}: &a{n} [{items}]\n");
        }
        assert!(complaint(&bomb).1.contains("more than"));
        assert!(complaint(&"[".repeat(400)).1.len() > 5);
    }

    #[test]
    fn json_is_yaml() {
        let node = one("{\"a\": [1, \"2\", null, true], \"b\": {}}");
        let Content::List(items) = &node.get("a").unwrap().content else {
            panic!()
        };
        assert_eq!(items[1].content, Content::Text("2".into()));
        assert_eq!(items[2].content, Content::Null);
    }
}
