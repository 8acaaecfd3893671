//! A field of a manifest with its path, and the problems found in it.

use std::cell::RefCell;

use serde_json::Value;

/// Errors and warnings, each with the path of its field.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) errors: Vec<(String, String)>,
    pub(super) warnings: Vec<(String, String)>,
}

/// A value in an object, with its path.
#[derive(Debug, Clone)]
pub(super) struct Place<'v> {
    pub(super) value: &'v Value,
    path: String,
    verdict: &'v RefCell<Verdict>,
}

impl<'v> Place<'v> {
    pub(super) fn root(value: &'v Value, verdict: &'v RefCell<Verdict>) -> Self {
        Self {
            value,
            path: String::new(),
            verdict,
        }
    }

    /// Returns a field; its value is null if it is missing.
    pub(super) fn at(&self, field: &str) -> Self {
        let path = if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.path)
        };
        Self {
            value: &self.value[field],
            path,
            verdict: self.verdict,
        }
    }

    /// Returns the items, if this is a list.
    pub(super) fn items(&self) -> Vec<Self> {
        let items = self.value.as_array().into_iter().flatten().enumerate();
        items
            .map(|(i, value)| Self {
                value,
                path: format!("{}[{i}]", self.path),
                verdict: self.verdict,
            })
            .collect()
    }

    /// Returns the keys and values, if this is a map.
    pub(super) fn entries(&self) -> Vec<(&'v str, Self)> {
        let entries = self.value.as_object().into_iter().flatten();
        entries
            .map(|(key, value)| {
                let place = Self {
                    value,
                    path: format!("{}[{key}]", self.path),
                    verdict: self.verdict,
                };
                (key.as_str(), place)
            })
            .collect()
    }

    pub(super) fn text(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    pub(super) fn number(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub(super) fn is_true(&self) -> bool {
        *self.value == Value::Bool(true)
    }

    pub(super) fn is_there(&self) -> bool {
        !self.value.is_null()
    }

    /// Adds an error about the value.
    pub(super) fn wrong(&self, text: impl Into<String>) {
        let mut verdict = self.verdict.borrow_mut();
        verdict.errors.push((self.path.clone(), text.into()));
    }

    /// Adds a warning about the value.
    pub(super) fn doubt(&self, text: impl Into<String>) {
        let mut verdict = self.verdict.borrow_mut();
        verdict.warnings.push((self.path.clone(), text.into()));
    }

    /// Requires a text of this form.
    pub(super) fn must(&self, form: impl Fn(&str) -> Result<(), &'static str>) {
        if self.text().is_empty() {
            self.wrong("is missing");
        } else {
            self.may(form);
        }
    }

    /// Requires this form, if the text is set.
    pub(super) fn may(&self, form: impl Fn(&str) -> Result<(), &'static str>) {
        if !self.text().is_empty()
            && let Err(why) = form(self.text())
        {
            self.wrong(format!("{:?} {why}", self.text()));
        }
    }

    /// Requires one of these words, if the text is set.
    pub(super) fn one_of(&self, words: &[&str]) {
        if !self.text().is_empty() && !words.contains(&self.text()) {
            self.wrong(format!(
                "{:?} is not one of {}",
                self.text(),
                words.join(", ")
            ));
        }
    }

    /// Requires a number within these bounds, if it is set.
    pub(super) fn within(&self, least: i64, most: i64) {
        match self.number() {
            Some(number) if !(least..=most).contains(&number) => {
                let bounds = if most == i64::MAX {
                    format!("at least {least}")
                } else {
                    format!("between {least} and {most}")
                };
                self.wrong(format!("{number} must be {bounds}"));
            }
            // A number that does not fit into an i64 exceeds every bound.
            None if self.value.is_number() => self.wrong("is too large"),
            _ => {}
        }
    }

    /// Returns which one of these fields is set; several or none are an error.
    pub(super) fn exactly_one<'f>(&self, fields: &[&'f str]) -> Option<&'f str> {
        let mut there = fields.iter().filter(|field| !self.value[**field].is_null());
        match (there.next(), there.next()) {
            (Some(field), None) => Some(field),
            (None, _) => {
                self.wrong(format!("must have one of {}", fields.join(", ")));
                None
            }
            (Some(_), Some(second)) => {
                self.at(second)
                    .wrong(format!("only one of {} is allowed", fields.join(", ")));
                None
            }
        }
    }
}
