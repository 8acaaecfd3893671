//! Parses a source file into its imports and paths, without code for tests.

/// Names used in a source file.
pub struct Source {
    /// Imports of the file.
    pub imports: Vec<Import>,
    /// Paths in its text, of two words or more each.
    pub paths: Vec<Vec<String>>,
    modules: Vec<String>,
}

/// An import.
pub struct Import {
    /// Local name.
    pub name: String,
    /// Imported path.
    pub path: Vec<String>,
}

impl Source {
    pub fn read(text: &str) -> Self {
        let words = words(text).into_iter().map(str::to_owned).collect();
        let words = without_tests(words);
        let mut source = Self {
            imports: Vec::new(),
            paths: Vec::new(),
            modules: Vec::new(),
        };
        let mut at = 0;
        while at < words.len() {
            match words[at].as_str() {
                // `use<T>` is a capture list of a type.
                "use" if words.get(at + 1).is_none_or(|next| next != "<") => {
                    let end = at + words[at..].iter().position(|word| word == ";").unwrap();
                    imports(&words[at + 1..end], &[], &mut source.imports);
                    at = end;
                }
                "mod" => {
                    source.modules.push(words[at + 1].clone());
                    at += 2;
                }
                word if is_name(word) => {
                    let path = path_at(&words[at..]);
                    at += path.len() * 2 - 1;
                    if path.len() > 1 {
                        source.paths.push(path);
                    }
                }
                _ => at += 1,
            }
        }
        source
    }

    /// Returns whether it declares a module of this name.
    pub fn says_mod(&self, name: &str) -> bool {
        self.modules.iter().any(|module| module == name)
    }
}

/// Returns the path, joined by `::`, at the start.
fn path_at(words: &[String]) -> Vec<String> {
    let mut path = vec![words[0].clone()];
    let mut rest = &words[1..];
    while let [colons, word, ..] = rest
        && colons == "::"
        && is_name(word)
    {
        path.push(word.clone());
        rest = &rest[2..];
    }
    path
}

/// Collects the imports of a `use` tree, without the `use`.
fn imports(words: &[String], above: &[String], into: &mut Vec<Import>) {
    let path = |names: &[String]| [above, names].concat();
    let names: Vec<String> = words
        .iter()
        .take_while(|word| *word != "{" && *word != "as")
        .filter(|word| *word != "::")
        .cloned()
        .collect();
    if let Some(open) = words.iter().position(|word| word == "{") {
        let above = path(&names);
        let (mut depth, mut begin) = (0, open + 1);
        for (at, word) in words.iter().enumerate().skip(open) {
            match word.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            let ends = depth == 0 || (depth == 1 && word == ",");
            if ends && at > begin {
                imports(&words[begin..at], &above, into);
            }
            if ends {
                begin = at + 1;
            }
        }
        return;
    }
    let renamed = words.iter().position(|word| word == "as");
    let mut path = path(&names);
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let name = renamed.map_or_else(|| path.last().cloned(), |at| words.get(at + 1).cloned());
    let name = name.unwrap_or_default();
    into.push(Import { name, path });
}

/// Drops each item under `#[cfg(test)]`.
pub fn without_tests<W: AsRef<str> + Clone>(words: Vec<W>) -> Vec<W> {
    const FOR_TESTS: [&str; 7] = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < words.len() {
        if !words[at..].iter().map(AsRef::as_ref).take(7).eq(FOR_TESTS) {
            kept.push(words[at].clone());
            at += 1;
            continue;
        }
        let mut depth = 0;
        for word in &words[at + 7..] {
            at += 1;
            match word.as_ref() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(word.as_ref(), "}" | ";") {
                break;
            }
        }
        at += 7;
    }
    kept
}

fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Returns the tokens of a text without comments; a literal is one token with its quotes.
pub fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.bytes().next() {
        let len = if first.is_ascii_whitespace() {
            rest.len() - rest.trim_ascii_start().len()
        } else if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else {
            let len = word(rest, first);
            words.push(&rest[..len]);
            len
        };
        rest = &rest[len..];
    }
    words
}

/// Returns the length of the token at the start, given its first byte.
fn word(text: &str, first: u8) -> usize {
    let in_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || !byte.is_ascii();
    let name = || {
        text.bytes()
            .position(|byte| !in_name(byte))
            .unwrap_or(text.len())
    };
    match first {
        b'"' | b'\'' | b'r' | b'b' => literal(text).unwrap_or_else(|| name().max(1)),
        b':' if text.starts_with("::") => 2,
        _ if in_name(first) => name(),
        _ => 1,
    }
}

/// Returns the length of the string or character literal at the start, if there is one.
fn literal(text: &str) -> Option<usize> {
    let raw = text.trim_start_matches('b');
    if let Some(raw) = raw.strip_prefix('r')
        && raw.trim_start_matches('#').starts_with('"')
    {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        let end = format!("\"{}", "#".repeat(hashes));
        let inside = &raw[hashes + 1..];
        let rest = &inside[inside.find(&end)? + end.len()..];
        return Some(text.len() - rest.len());
    }
    let inside = text.strip_prefix('b').unwrap_or(text);
    if inside.starts_with('"') {
        return Some(text.len() - inside.len() + quoted(inside, '"')?);
    }
    let mut chars = inside.strip_prefix('\'')?.chars();
    // Otherwise it is a lifetime.
    let is_char = chars.next()? == '\\' || chars.next()? == '\'';
    is_char.then(|| text.len() - inside.len() + quoted(inside, '\'').unwrap_or(1))
}

/// Returns the length of the quoted text at the start.
fn quoted(text: &str, quote: char) -> Option<usize> {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[test]
fn imports_and_paths_are_seen_and_tests_are_not() {
    let source = Source::read(
        r##"
        //! use crate::comment;
        use crate::a::{self, B, c::{D as E}};
        #[cfg(test)]
        mod tests { use crate::for_tests; }
        mod below;
        fn f<'a>() { let _ = ('"', '\'', "crate::text", r#"crate::raw"#, super::g::<u8>()); }
        "##,
    );
    let named = |one: &Import| format!("{}={}", one.name, one.path.join("::"));
    let imports: Vec<_> = source.imports.iter().map(named).collect();
    assert_eq!(imports, ["a=crate::a", "B=crate::a::B", "E=crate::a::c::D"]);
    assert_eq!(source.paths, [["super", "g"]]);
    assert!(source.says_mod("below"));
}
