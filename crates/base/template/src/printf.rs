//! `printf`, and its formatting of values. Errors appear in the output, as in Go.

use std::fmt::Write as _;

use serde_json::{Number, Value};

use crate::display::shown;

/// A larger width or precision is invalid.
const WIDEST: usize = 1_000_000;

/// The flags between `%` and the verb.
#[derive(Debug, Default)]
struct Flags {
    left: bool,
    plus: bool,
    space: bool,
    sharp: bool,
    zero: bool,
    width: usize,
    precision: Option<usize>,
}

pub(crate) fn printf(format: &str, values: &[Value]) -> String {
    let mut out = String::new();
    let mut values = values.iter();
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let (flags, after) = Flags::read(&rest[at + 1..]);
        let Some(verb) = after.chars().next() else {
            out.push_str("%!(NOVERB)");
            return out;
        };
        rest = &after[verb.len_utf8()..];
        if verb == '%' {
            out.push('%');
            continue;
        }
        match values.next() {
            Some(value) => flags.write(&mut out, verb, value),
            None => drop(write!(out, "%!{verb}(MISSING)")),
        }
    }
    out.push_str(rest);
    let extra: Vec<String> = values
        .map(|value| format!("{}={}", kind(value), bare(value)))
        .collect();
    if !extra.is_empty() {
        let _ = write!(out, "%!(EXTRA {})", extra.join(", "));
    }
    out
}

impl Flags {
    fn read(text: &str) -> (Self, &str) {
        let mut flags = Self::default();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            match c {
                '-' => flags.left = true,
                '+' => flags.plus = true,
                ' ' => flags.space = true,
                '#' => flags.sharp = true,
                '0' => flags.zero = true,
                _ => break,
            }
            rest = &rest[1..];
        }
        let (width, after) = digits(rest);
        flags.width = width.unwrap_or(0);
        rest = after;
        if let Some(after) = rest.strip_prefix('.') {
            let (precision, after) = digits(after);
            flags.precision = Some(precision.unwrap_or(0));
            rest = after;
        }
        (flags, rest)
    }

    fn write(&self, out: &mut String, verb: char, value: &Value) {
        let text = match (verb, value) {
            ('s' | 'v', Value::String(text)) => self.cut(text),
            ('q', Value::String(text)) => quoted(&self.cut(text)),
            ('x', Value::String(text)) => text.bytes().fold(String::new(), |mut hex, byte| {
                let _ = write!(hex, "{byte:02x}");
                hex
            }),
            ('t' | 'v', Value::Bool(value)) => value.to_string(),
            ('d' | 'v', Value::Number(number)) if !number.is_f64() => {
                self.signed(number.to_string())
            }
            ('x' | 'X' | 'o' | 'b', Value::Number(number)) if !number.is_f64() => {
                self.in_base(verb, number)
            }
            ('c', Value::Number(number)) if !number.is_f64() => {
                let code = number.as_u64().and_then(|code| u32::try_from(code).ok());
                code.and_then(char::from_u32)
                    .unwrap_or('\u{fffd}')
                    .to_string()
            }
            ('f' | 'F', Value::Number(number)) if number.is_f64() => {
                let digits = self.precision.unwrap_or(6);
                self.signed(format!("{:.digits$}", number.as_f64().unwrap_or_default()))
            }
            ('v' | 'g', Value::Number(number)) if number.is_f64() => self.signed(shown(value)),
            ('v' | 's' | 'd', Value::Array(_) | Value::Object(_)) => shown(value),
            ('v', Value::Null) => "<nil>".to_owned(),
            (verb, Value::Null) => format!("%!{verb}(<nil>)"),
            (verb, value) => format!("%!{verb}({}={})", kind(value), bare(value)),
        };
        self.pad(out, &text, value.is_number());
    }

    fn cut(&self, text: &str) -> String {
        let most = self.precision.unwrap_or(usize::MAX);
        text.chars().take(most).collect()
    }

    fn signed(&self, number: String) -> String {
        match (number.starts_with('-'), self.plus, self.space) {
            (false, true, _) => format!("+{number}"),
            (false, false, true) => format!(" {number}"),
            _ => number,
        }
    }

    fn in_base(&self, verb: char, number: &Number) -> String {
        let value = number.as_i64().map_or_else(
            || i128::from(number.as_u64().unwrap_or_default()),
            i128::from,
        );
        let (size, sign) = (value.unsigned_abs(), if value < 0 { "-" } else { "" });
        let text = match (verb, self.sharp) {
            ('x', false) => format!("{sign}{size:x}"),
            ('x', true) => format!("{sign}{size:#x}"),
            ('X', false) => format!("{sign}{size:X}"),
            ('X', true) => format!("{sign}0X{size:X}"),
            ('o', false) => format!("{sign}{size:o}"),
            ('o', true) => format!("{sign}0{size:o}"),
            (_, false) => format!("{sign}{size:b}"),
            (_, true) => format!("{sign}{size:#b}"),
        };
        self.signed(text)
    }

    fn pad(&self, out: &mut String, text: &str, is_number: bool) {
        let missing = self.width.saturating_sub(text.chars().count());
        let zeros = self.zero && !self.left && is_number;
        if self.left {
            out.push_str(text);
            out.extend(std::iter::repeat_n(' ', missing));
        } else if zeros {
            let digits = text.trim_start_matches(['-', '+']);
            out.push_str(&text[..text.len() - digits.len()]);
            out.extend(std::iter::repeat_n('0', missing));
            out.push_str(digits);
        } else {
            out.extend(std::iter::repeat_n(' ', missing));
            out.push_str(text);
        }
    }
}

fn digits(text: &str) -> (Option<usize>, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let number = text[..end].parse().ok();
    (number.filter(|number| *number <= WIDEST), &text[end..])
}

/// Returns the name of a value's type in Go.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

fn bare(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        other => shown(other),
    }
}

/// Quotes text as Go does.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() && (c as u32) < 0x80 => drop(write!(out, "\\x{:02x}", c as u32)),
            c if c.is_control() => drop(write!(out, "\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
