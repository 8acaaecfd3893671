//! Checks a document against the schema of its kind, and converts it to JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use orlop_kubelet_rules::pod::Quantity;
use orlop_yaml::{Content, Node, Position};
use serde_json::{Map, Value};

use super::schema::{Schema, Type};

/// The result of a check.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// The known fields, as JSON.
    pub(crate) value: Value,
    /// Fields with invalid values.
    pub(crate) wrong: Vec<Remark>,
    /// Unknown fields; they are not in `value`.
    pub(crate) unknown: Vec<Remark>,
}

/// A remark about a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remark {
    pub(crate) at: Position,
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Checks `node` as an object of `schema`.
pub(crate) fn check(schema: &Schema, object: &'static str, node: &Node) -> Checked {
    let mut checker = Checker {
        schema,
        checked: Checked::default(),
    };
    let value = checker.value(&Type::Object(object), node, "");
    checker.checked.value = value;
    checker.checked
}

struct Checker<'s> {
    schema: &'s Schema,
    checked: Checked,
}

impl Checker<'_> {
    fn value(&mut self, kind: &Type, node: &Node, path: &str) -> Value {
        // Kubernetes treats a key without a value as unset.
        if node.content == Content::Null {
            return Value::Null;
        }
        match (kind, &node.content) {
            (Type::Any, _) => return node.to_json(),
            (Type::Text | Type::IntOrText, Content::Text(text)) => return text.as_str().into(),
            (Type::Bool, Content::Bool(value)) => return (*value).into(),
            (Type::Number, Content::Number(number)) => return number.clone().into(),
            (Type::Integer | Type::IntOrText, Content::Number(number)) if !number.is_f64() => {
                return number.clone().into();
            }
            // In JSON, 1e3 and 5.0 are whole numbers.
            (Type::Integer, Content::Number(number)) => {
                if let Some(whole) = number.as_f64().filter(|it| it.fract() == 0.0)
                    && whole.abs() < 9e15
                {
                    return (whole as i64).into();
                }
            }
            (Type::Quantity, Content::Number(number)) => return number.to_string().into(),
            (Type::Quantity, Content::Text(text)) => match text.parse::<Quantity>() {
                Ok(_) => return text.as_str().into(),
                Err(error) => return self.wrong(node, path, error.to_string()),
            },
            (Type::Time, Content::Text(text)) if text.parse::<jiff::Timestamp>().is_ok() => {
                return text.as_str().into();
            }
            (Type::Duration, Content::Text(text)) if orlop_text::duration::parse(text).is_ok() => {
                return text.as_str().into();
            }
            (Type::Duration, Content::Number(number)) if number.as_i64() == Some(0) => {
                return "0s".into();
            }
            (Type::Bytes, Content::Text(text)) => {
                let bare: String = text.split_ascii_whitespace().collect();
                if STANDARD.decode(&bare).is_ok() {
                    return bare.into();
                }
            }
            (Type::List(inner), Content::List(items)) => {
                let items = items.iter().enumerate();
                return items
                    .map(|(i, item)| self.value(inner, item, &format!("{path}[{i}]")))
                    .collect();
            }
            (Type::Map(inner), Content::Map(entries)) => {
                let mut map = Map::new();
                for entry in entries.iter() {
                    let value = self.value(inner, &entry.value, &format!("{path}[{}]", entry.key));
                    let empty = if **inner == Type::Text {
                        "".into()
                    } else {
                        Value::Null
                    };
                    map.insert(
                        entry.key.clone(),
                        if value.is_null() { empty } else { value },
                    );
                }
                return map.into();
            }
            (Type::Object(name), Content::Map(_)) => return self.object(name, node, path),
            _ => {}
        }
        let hint = match (kind, &node.content) {
            (Type::Text, Content::Bool(_) | Content::Number(_)) => "; put it in quotes",
            _ => "",
        };
        let text = format!("must be {}, not {}{hint}", kind.what(), node.what());
        self.wrong(node, path, text)
    }

    fn object(&mut self, name: &str, node: &Node, path: &str) -> Value {
        let Content::Map(entries) = &node.content else {
            return Value::Null;
        };
        let Some(fields) = self.schema.object(name) else {
            return node.to_json();
        };
        let mut map = Map::new();
        for entry in entries.iter() {
            let path = if path.is_empty() {
                entry.key.clone()
            } else {
                format!("{path}.{}", entry.key)
            };
            // Kubernetes ignores the case of field names, except in strict mode.
            let Some(kind) = fields.get(entry.key.as_str()) else {
                let similar = fields
                    .keys()
                    .find(|known| known.eq_ignore_ascii_case(&entry.key));
                let hint =
                    similar.map_or_else(String::new, |known| format!(" (did you mean {known}?)"));
                self.checked.unknown.push(Remark {
                    at: entry.at,
                    text: format!("unknown field {path:?}{hint}"),
                    path,
                });
                continue;
            };
            let value = self.value(kind, &entry.value, &path);
            if !value.is_null() {
                map.insert(entry.key.clone(), value);
            }
        }
        map.into()
    }

    fn wrong(&mut self, node: &Node, path: &str, text: String) -> Value {
        self.checked.wrong.push(Remark {
            at: node.at,
            path: path.to_owned(),
            text,
        });
        Value::Null
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::KINDS;
    use super::*;
    use orlop_yaml::{Document, documents};

    fn pod(text: &str) -> Checked {
        match documents(text).remove(0) {
            Document::Good(node) => check(&KINDS, "Pod", &node),
            Document::Bad(at, why) => panic!("{at}: {why}"),
        }
    }

    #[test]
    fn unknown_fields_are_named_by_path_and_line_and_left_out() {
        let checked =
            pod("spec:\n  containers:\n  - name: a\n    imagee: b\n    Tty: true\n  x: 1\n");
        let found: Vec<_> = checked
            .unknown
            .iter()
            .map(|remark| (remark.at.line, remark.text.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (4, "unknown field \"spec.containers[0].imagee\""),
                (
                    5,
                    "unknown field \"spec.containers[0].Tty\" (did you mean tty?)"
                ),
                (6, "unknown field \"spec.x\""),
            ]
        );
        assert_eq!(
            checked.value,
            json!({"spec": {"containers": [{"name": "a"}]}})
        );
    }

    #[test]
    fn values_of_the_wrong_kind_are_named_by_path_and_line() {
        let checked = pod(
            "spec:\n  hostNetwork: maybe\n  containers:\n  - name: 5\n    env:\n    - name: A\n      \
             value: yes\n    ports:\n    - containerPort: http\n    resources:\n      limits: \
             {cpu: 1 core, memory: 1}\n    livenessProbe: {httpGet: {port: 80}}\n",
        );
        let found: Vec<_> = checked
            .wrong
            .iter()
            .map(|remark| (remark.at.line, remark.path.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (2, "spec.hostNetwork"),
                (4, "spec.containers[0].name"),
                (7, "spec.containers[0].env[0].value"),
                (9, "spec.containers[0].ports[0].containerPort"),
                (11, "spec.containers[0].resources.limits[cpu]"),
            ]
        );
        assert!(checked.wrong[2].text.contains("quotes"));
        assert!(checked.unknown.is_empty());
    }
}
