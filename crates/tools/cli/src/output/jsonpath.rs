//! JSONPath as in kubectl: text with expressions in braces, applied to JSON values.
//!
//! Supported: `.key`, `['key']`, `[0]`, `[-1]`, `[*]`, `.*`, `..key`, filters `[?(@.key=="text")]` and `!=`, quoted
//! text, and `{range PATH}…{end}`. Slices and unions are not supported.

use serde_json::Value;

/// A template.
#[derive(Debug, Clone)]
pub(crate) struct JsonPath {
    nodes: Vec<Node>,
}

/// A syntax error in a template.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot parse the JSONPath: {0}")]
pub(crate) struct JsonPathError(String);

#[derive(Debug, Clone)]
enum Node {
    Text(String),
    Path(Vec<Step>),
    Range(Vec<Step>, Vec<Node>),
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(String),
    Index(i64),
    Every,
    /// All values of this key, at any depth.
    Descend(String),
    /// The entries in which the path has this value (or another value).
    Filter(Vec<Step>, bool, Value),
}

impl JsonPath {
    /// Parses a template; without braces it is a single path.
    pub(crate) fn parse(text: &str) -> Result<Self, JsonPathError> {
        let braced = if text.contains('{') {
            text.to_owned()
        } else {
            format!("{{{text}}}")
        };
        let mut rest = braced.as_str();
        let nodes = nodes(&mut rest, false).map_err(JsonPathError)?;
        Ok(Self { nodes })
    }

    /// Renders the template. Missing values are left out.
    pub(crate) fn render(&self, value: &Value) -> String {
        let mut out = String::new();
        render(&self.nodes, value, &mut out);
        out
    }
}

/// Parses nodes up to the end, or up to `{end}` within a range.
fn nodes(rest: &mut &str, in_range: bool) -> Result<Vec<Node>, String> {
    let mut found = Vec::new();
    while let Some(open) = rest.find('{') {
        if open > 0 {
            found.push(Node::Text(rest[..open].to_owned()));
        }
        let inside = &rest[open + 1..];
        let close = closing(inside).ok_or("a closing } is missing")?;
        let expression = inside[..close].trim();
        *rest = &inside[close + 1..];
        if expression == "end" {
            return if in_range {
                Ok(found)
            } else {
                Err("`end` without `range`".into())
            };
        } else if let Some(path) = expression.strip_prefix("range ") {
            let path = steps(path.trim())?;
            found.push(Node::Range(path, nodes(rest, true)?));
        } else if expression.starts_with(['"', '\'']) {
            found.push(Node::Text(quoted(expression)?));
        } else {
            found.push(Node::Path(steps(expression)?));
        }
    }
    if in_range {
        return Err("`range` without `end`".into());
    }
    if !rest.is_empty() {
        found.push(Node::Text((*rest).to_owned()));
    }
    Ok(found)
}

/// Finds the closing brace, ignoring quoted ones.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '}') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

fn quoted(text: &str) -> Result<String, String> {
    let wrong = || format!("{text} is not a valid string");
    if let Some(inner) = text
        .strip_prefix('\'')
        .and_then(|text| text.strip_suffix('\''))
    {
        return Ok(inner.to_owned());
    }
    serde_json::from_slice(text.as_bytes()).map_err(|_| wrong())
}

fn steps(path: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = path.trim_start_matches(['$', '@']);
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix("..") {
            let (key, after) = key(after)?;
            steps.push(Step::Descend(key));
            rest = after;
        } else if let Some(after) = rest.strip_prefix(".*") {
            steps.push(Step::Every);
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let end = bracket(after).ok_or("a closing ] is missing")?;
            steps.push(subscript(after[..end].trim())?);
            rest = &after[end + 1..];
        } else if rest == "." {
            break;
        } else {
            let (key, after) = key(rest.strip_prefix('.').unwrap_or(rest))?;
            steps.push(Step::Key(key));
            rest = after;
        }
    }
    Ok(steps)
}

/// Parses a key up to the next dot or bracket; `\.` is a literal dot.
fn key(text: &str) -> Result<(String, &str), String> {
    let mut key = String::new();
    let mut escaped = false;
    let mut end = text.len();
    for (at, c) in text.char_indices() {
        match c {
            '\\' if !escaped => {
                escaped = true;
                continue;
            }
            '.' | '[' if !escaped => {
                end = at;
                break;
            }
            _ => key.push(c),
        }
        escaped = false;
    }
    if key.is_empty() {
        return Err("a key is empty".into());
    }
    Ok((key, &text[end..]))
}

/// Finds the closing bracket, skipping nested ones.
fn bracket(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' if depth == 0 => return Some(at),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

fn subscript(text: &str) -> Result<Step, String> {
    if text == "*" {
        return Ok(Step::Every);
    }
    if text.starts_with(['"', '\'']) {
        return quoted(text).map(Step::Key);
    }
    if let Some(filter) = text
        .strip_prefix("?(")
        .and_then(|text| text.strip_suffix(')'))
    {
        let (path, equal, wanted) = match (filter.split_once("=="), filter.split_once("!=")) {
            (Some((path, wanted)), _) => (path, true, wanted),
            (None, Some((path, wanted))) => (path, false, wanted),
            (None, None) => return Err("a filter must compare with == or !=".into()),
        };
        let wanted = wanted.trim();
        let wanted = match wanted.strip_prefix('\'') {
            Some(_) => Value::String(quoted(wanted)?),
            None => serde_json::from_slice(wanted.as_bytes())
                .map_err(|_| format!("{wanted} is not a valid value"))?,
        };
        return Ok(Step::Filter(steps(path.trim())?, equal, wanted));
    }
    text.parse()
        .map(Step::Index)
        .map_err(|_| format!("[{text}] is not supported"))
}

fn render(nodes: &[Node], value: &Value, out: &mut String) {
    for node in nodes {
        match node {
            Node::Text(text) => out.push_str(text),
            Node::Path(path) => {
                let shown: Vec<String> = walk(value, path).into_iter().map(shown).collect();
                out.push_str(&shown.join(" "));
            }
            Node::Range(path, inner) => {
                for value in walk(value, path) {
                    render(inner, value, out);
                }
            }
        }
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn walk<'a>(value: &'a Value, path: &[Step]) -> Vec<&'a Value> {
    let mut found = vec![value];
    for step in path {
        found = found
            .into_iter()
            .flat_map(|value| one(value, step))
            .collect();
    }
    found
}

fn one<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match (step, value) {
        (Step::Key(key), Value::Object(map)) => map.get(key).into_iter().collect(),
        (Step::Index(index), Value::Array(list)) => {
            let at = if *index < 0 {
                list.len() as i64 + index
            } else {
                *index
            };
            usize::try_from(at)
                .ok()
                .and_then(|at| list.get(at))
                .into_iter()
                .collect()
        }
        (Step::Every, value) => children(value),
        (Step::Descend(key), value) => {
            let mut found = Vec::new();
            descend(value, key, &mut found);
            found
        }
        (Step::Filter(path, equal, wanted), value) => children(value)
            .into_iter()
            .filter(|child| walk(child, path).contains(&wanted) == *equal)
            .collect(),
        _ => Vec::new(),
    }
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(list) => list.iter().collect(),
        Value::Object(map) => map.values().collect(),
        _ => Vec::new(),
    }
}

fn descend<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a Value>) {
    if let Value::Object(map) = value {
        found.extend(map.get(key));
    }
    for child in children(value) {
        descend(child, key, found);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_find_what_kubectl_finds() {
        let value = json!({
            "status": {"id": "abc", "labels": {"a.b/c": "1"}, "pid": 7, "mounts": []},
            "items": [{"name": "x", "on": true}, {"name": "y", "on": false}],
        });
        let render = |path: &str| JsonPath::parse(path).map(|path| path.render(&value));
        for (path, expected) in [
            ("{.status.id}", "abc"),
            (".status.pid", "7"),
            ("{$.status['labels']['a.b/c']}", "1"),
            (r"{.status.labels.a\.b/c}", "1"),
            ("{.items[*].name}", "x y"),
            ("{.items[-1].name}{\"\\n\"}", "y\n"),
            ("{range .items[*]}{.name}={.on};{end}.", "x=true;y=false;."),
            ("{.items[?(@.name==\"y\")].on}", "false"),
            ("{.items[?(@.on!=true)].name}", "y"),
            ("{..name}", "x y"),
            ("id: {.status.id}", "id: abc"),
            ("{.status.none.at.all}", ""),
            ("{.items[0]}", r#"{"name":"x","on":true}"#),
        ] {
            assert_eq!(render(path).as_deref(), Ok(expected), "{path}");
        }
        for wrong in [
            "{.a",
            "{range .a[*]}x",
            "{end}",
            "{.a[1:2]}",
            "{.a[}",
            "{.a[?(@.b)]}",
            "{..}",
        ] {
            assert!(render(wrong).is_err(), "{wrong}");
        }
    }
}
