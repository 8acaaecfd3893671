//! Values of systemd properties in the GVariant text format.

use orlop_cgroup::Value;

/// Parses a value: `true`, `42`, `uint32 42`, `2.5`, `'text'`, `"text"`, `['one', 'two']`.
pub(super) fn parse(text: &str) -> Result<Value, String> {
    let text = text.trim();
    if let Some(list) = text.strip_prefix('[') {
        let list = list.strip_suffix(']').ok_or("the closing ] is missing")?;
        return texts(list);
    }
    if text.starts_with(['\'', '"']) {
        let (value, rest) = quoted(text)?;
        return end(rest).map(|()| Value::Text(value));
    }
    let (kind, number) = match text.split_once(char::is_whitespace) {
        Some((kind, number)) => (kind, number.trim()),
        None => ("", text),
    };
    let wrong =
        || format!("{text:?} is not a number, a quoted string, true, false or a list of strings");
    let wide = parse_number(number);
    let fits = |value: Option<i128>| value.ok_or_else(wrong);
    let range = || format!("{number} is out of range for {kind}");
    Ok(match kind {
        "" if matches!(number, "true" | "false") => Value::Bool(number == "true"),
        "boolean" if matches!(number, "true" | "false") => Value::Bool(number == "true"),
        "string" => return parse_text(number),
        // A number without a type is an int32, and one with a fraction is a double.
        "" => match wide {
            Some(wide) => Value::SignedShort(i32::try_from(wide).map_err(|_| {
                format!("{number} is out of range for int32; write the type before the number, for example uint64 {number}")
            })?),
            None => Value::Real(number.parse().map_err(|_| wrong())?),
        },
        "uint32" => Value::Short(u32::try_from(fits(wide)?).map_err(|_| range())?),
        "int32" => Value::SignedShort(i32::try_from(fits(wide)?).map_err(|_| range())?),
        "uint64" => Value::Number(u64::try_from(fits(wide)?).map_err(|_| range())?),
        "int64" => Value::Signed(i64::try_from(fits(wide)?).map_err(|_| range())?),
        "double" => Value::Real(number.parse().map_err(|_| wrong())?),
        _ => return Err(wrong()),
    })
}

fn parse_text(text: &str) -> Result<Value, String> {
    let (value, rest) = quoted(text)?;
    end(rest).map(|()| Value::Text(value))
}

fn parse_number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

fn texts(mut list: &str) -> Result<Value, String> {
    let mut values = Vec::new();
    loop {
        list = list.trim_start();
        if list.is_empty() {
            return Ok(Value::Texts(values));
        }
        let (value, rest) = quoted(list)?;
        values.push(value);
        list = rest.trim_start();
        match list.strip_prefix(',') {
            Some(rest) => list = rest,
            None => end(list)?,
        }
    }
}

/// Returns the quoted text, and the rest of the input.
fn quoted(text: &str) -> Result<(String, &str), String> {
    let mut chars = text.char_indices();
    let Some((_, quote @ ('\'' | '"'))) = chars.next() else {
        return Err(format!("{text:?} is not a quoted string"));
    };
    let mut value = String::new();
    while let Some((at, it)) = chars.next() {
        match it {
            '\\' => {
                match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, 't')) => value.push('\t'),
                    Some((_, it @ ('\\' | '\'' | '"'))) => value.push(it),
                    _ => return Err(
                        "a backslash may only be followed by n, t, a quote or another backslash"
                            .to_owned(),
                    ),
                }
            }
            it if it == quote => return Ok((value, &text[at + it.len_utf8()..])),
            '\0' => return Err("a string must not contain a NUL byte".to_owned()),
            it => value.push(it),
        }
    }
    Err(format!("the closing {quote} is missing"))
}

fn end(rest: &str) -> Result<(), String> {
    match rest.trim() {
        "" => Ok(()),
        rest => Err(format!("unexpected {rest:?} after the value")),
    }
}
