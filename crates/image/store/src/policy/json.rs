//! Strict JSON: no duplicate keys, no unknown keys, and errors with their place in the document.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::path::PathBuf;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value whose objects have no duplicate keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool,
    Number,
    Text(String),
    List(Vec<Json>),
    Object(BTreeMap<String, Json>),
}

/// An error in a document, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wrong {
    /// A path such as `transports.docker["a.example"][0].keyPath`; empty for the whole document.
    pub(crate) place: String,
    pub(crate) reason: String,
}

impl Wrong {
    pub(crate) fn new(place: &str, reason: impl fmt::Display) -> Self {
        Self {
            place: place.to_owned(),
            reason: reason.to_string(),
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place.is_empty() {
            return f.write_str(&self.reason);
        }
        write!(f, "{}: {}", self.place, self.reason)
    }
}

/// A value and its place in the document.
#[derive(Debug)]
pub(crate) struct At {
    pub(crate) place: String,
    value: Json,
}

impl At {
    /// Parses a whole document.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Wrong> {
        let value = serde_json::from_slice(bytes).map_err(|error| Wrong::new("", error))?;
        Ok(Self {
            place: String::new(),
            value,
        })
    }

    pub(crate) fn is_null(&self) -> bool {
        self.value == Json::Null
    }

    pub(crate) fn text(self) -> Result<String, Wrong> {
        match self.value {
            Json::Text(text) => Ok(text),
            other => Err(unlike(&self.place, "a string", &other)),
        }
    }

    pub(crate) fn absolute_path(self) -> Result<PathBuf, Wrong> {
        let place = self.place.clone();
        let path = PathBuf::from(self.text()?);
        if !path.is_absolute() {
            let problem = format!("{path:?} is not an absolute path");
            return Err(Wrong::new(&place, problem));
        }
        Ok(path)
    }

    /// Returns the elements of a non-empty list, each with its place.
    pub(crate) fn some(self) -> Result<Vec<At>, Wrong> {
        let values = match self.value {
            Json::List(values) => values,
            other => return Err(unlike(&self.place, "a list", &other)),
        };
        if values.is_empty() {
            return Err(Wrong::new(&self.place, "must not be empty"));
        }
        let with_place = values.into_iter().enumerate().map(|(index, value)| At {
            place: format!("{}[{index}]", self.place),
            value,
        });
        Ok(with_place.collect())
    }

    /// Returns the fields of an object with known keys.
    pub(crate) fn fields(self) -> Result<Fields, Wrong> {
        match self.value {
            Json::Object(fields) => Ok(Fields {
                place: self.place,
                fields,
            }),
            other => Err(unlike(&self.place, "an object", &other)),
        }
    }

    /// Returns the entries of an object with arbitrary keys.
    pub(crate) fn entries(self) -> Result<Vec<(String, At)>, Wrong> {
        let fields = self.fields()?;
        let with_place = fields.fields.into_iter().map(|(key, value)| {
            let place = if fields.place == "transports" {
                format!("transports.{key}")
            } else {
                format!("{}[{key:?}]", fields.place)
            };
            (key, At { place, value })
        });
        Ok(with_place.collect())
    }
}

/// An object whose fields are taken one after the other.
#[derive(Debug)]
pub(crate) struct Fields {
    pub(crate) place: String,
    fields: BTreeMap<String, Json>,
}

impl Fields {
    pub(crate) fn take(&mut self, name: &str) -> Option<At> {
        let value = self.fields.remove(name)?;
        Some(At {
            place: self.place_of(name),
            value,
        })
    }

    pub(crate) fn required(&mut self, name: &str) -> Result<At, Wrong> {
        self.take(name)
            .ok_or_else(|| Wrong::new(&self.place, format!("{name:?} is missing")))
    }

    /// Fails if unknown fields are left.
    pub(crate) fn finish(self) -> Result<(), Wrong> {
        match self.fields.keys().next() {
            None => Ok(()),
            Some(name) => Err(Wrong::new(&self.place_of(name), "unknown field")),
        }
    }

    fn place_of(&self, name: &str) -> String {
        if self.place.is_empty() {
            return name.to_owned();
        }
        format!("{}.{name}", self.place)
    }
}

fn unlike(place: &str, wanted: &str, value: &Json) -> Wrong {
    let given = match value {
        Json::Null => "null",
        Json::Bool => "true or false",
        Json::Number => "a number",
        Json::Text(_) => "a string",
        Json::List(_) => "a list",
        Json::Object(_) => "an object",
    };
    Wrong::new(place, format!("must be {wanted}, not {given}"))
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Bool)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Json::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Json, A::Error> {
        let mut fields = BTreeMap::new();
        while let Some(key) = object.next_key::<String>()? {
            match fields.entry(key) {
                Entry::Occupied(taken) => {
                    let problem = format!("duplicate field {:?}", taken.key());
                    return Err(de::Error::custom(problem));
                }
                Entry::Vacant(free) => drop(free.insert(object.next_value()?)),
            }
        }
        Ok(Json::Object(fields))
    }
}
