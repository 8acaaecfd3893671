//! A metric sample, with labels that many samples share.
//!
//! Each sample of a container has the same six labels. A node with a hundred pods has about ten thousand samples, and
//! a kubelet requests them repeatedly. The generated type would hold, allocate and encode each label of each sample.
//! This type encodes the labels of a container once; the wire format is that of the interface.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use prost::bytes::{Buf, BufMut};
use prost::encoding::{self, DecodeContext, WireType};
use prost::{DecodeError, Message, Name};

use crate::v1::{MetricType, UInt64Value};

const NAME: u32 = 1;
const TIMESTAMP: u32 = 2;
const TYPE: u32 = 3;
const LABEL_VALUES: u32 = 4;
const VALUE: u32 = 5;

/// `Metric` of the interface: one sample.
#[derive(Debug, Clone, Default)]
pub struct Metric {
    /// The metric's name.
    pub name: Cow<'static, str>,
    /// When it was measured, in nanoseconds since the epoch; zero if it comes from a cache without a timestamp.
    pub timestamp: i64,
    /// Its type: a [`MetricType`].
    pub metric_type: i32,
    /// Its label values, as many as the descriptor has keys.
    pub label_values: LabelValues,
    /// The value.
    pub value: Option<UInt64Value>,
}

impl Metric {
    /// Returns the type; an unknown one counts as a counter.
    pub fn metric_type(&self) -> MetricType {
        MetricType::try_from(self.metric_type).unwrap_or_default()
    }
}

/// Label values: first the shared ones, then its own.
#[derive(Debug, Clone, Default)]
pub struct LabelValues {
    common: Option<Arc<CommonLabels>>,
    own: Vec<String>,
}

/// Label values that many samples share.
#[derive(Debug)]
pub struct CommonLabels {
    values: Vec<String>,
    /// The encoded start of the label list of each message.
    encoded: Vec<u8>,
}

impl CommonLabels {
    /// Creates shared label values.
    pub fn new(values: Vec<String>) -> Self {
        let mut encoded = Vec::new();
        encoding::string::encode_repeated(LABEL_VALUES, &values, &mut encoded);
        Self { values, encoded }
    }
}

impl LabelValues {
    /// Combines shared label values with those of this sample.
    pub fn new(common: Arc<CommonLabels>, own: Vec<String>) -> Self {
        Self {
            common: Some(common),
            own,
        }
    }

    /// Iterates over all values, in the order of the descriptor's keys.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let common = self.common.iter().flat_map(|common| &common.values);
        common.chain(&self.own).map(String::as_str)
    }
}

impl From<Vec<String>> for LabelValues {
    fn from(own: Vec<String>) -> Self {
        Self { common: None, own }
    }
}

impl PartialEq for LabelValues {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl PartialEq for Metric {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.timestamp == other.timestamp
            && self.metric_type == other.metric_type
            && self.label_values == other.label_values
            && self.value == other.value
    }
}

impl Eq for Metric {}

impl Hash for Metric {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
        self.timestamp.hash(state);
        self.metric_type.hash(state);
        self.label_values.iter().for_each(|value| value.hash(state));
        self.value.map(|value| value.value).hash(state);
    }
}

impl Name for Metric {
    const NAME: &'static str = "Metric";
    const PACKAGE: &'static str = "runtime.v1";
}

impl Message for Metric {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        if !self.name.is_empty() {
            encoding::encode_key(NAME, WireType::LengthDelimited, buffer);
            encoding::encode_varint(self.name.len() as u64, buffer);
            buffer.put_slice(self.name.as_bytes());
        }
        if self.timestamp != 0 {
            encoding::int64::encode(TIMESTAMP, &self.timestamp, buffer);
        }
        if self.metric_type != 0 {
            encoding::int32::encode(TYPE, &self.metric_type, buffer);
        }
        if let Some(common) = &self.label_values.common {
            buffer.put_slice(&common.encoded);
        }
        encoding::string::encode_repeated(LABEL_VALUES, &self.label_values.own, buffer);
        if let Some(value) = &self.value {
            encoding::message::encode(VALUE, value, buffer);
        }
    }

    fn encoded_len(&self) -> usize {
        let mut length = 0;
        if !self.name.is_empty() {
            let own = self.name.len();
            length += encoding::key_len(NAME) + encoding::encoded_len_varint(own as u64) + own;
        }
        if self.timestamp != 0 {
            length += encoding::int64::encoded_len(TIMESTAMP, &self.timestamp);
        }
        if self.metric_type != 0 {
            length += encoding::int32::encoded_len(TYPE, &self.metric_type);
        }
        let labels = &self.label_values;
        length += labels
            .common
            .as_ref()
            .map_or(0, |common| common.encoded.len());
        length += encoding::string::encoded_len_repeated(LABEL_VALUES, &labels.own);
        if let Some(value) = &self.value {
            length += encoding::message::encoded_len(VALUE, value);
        }
        length
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        match tag {
            NAME => {
                let mut name = String::new();
                let merged = encoding::string::merge(wire_type, &mut name, buffer, context);
                self.name = Cow::Owned(name);
                merged.map_err(|error| of_field(error, "name"))
            }
            TIMESTAMP => encoding::int64::merge(wire_type, &mut self.timestamp, buffer, context)
                .map_err(|error| of_field(error, "timestamp")),
            TYPE => encoding::int32::merge(wire_type, &mut self.metric_type, buffer, context)
                .map_err(|error| of_field(error, "metric_type")),
            LABEL_VALUES => {
                let own = &mut self.label_values.own;
                encoding::string::merge_repeated(wire_type, own, buffer, context)
                    .map_err(|error| of_field(error, "label_values"))
            }
            VALUE => {
                let value = self.value.get_or_insert_default();
                encoding::message::merge(wire_type, value, buffer, context)
                    .map_err(|error| of_field(error, "value"))
            }
            _ => encoding::skip_field(wire_type, tag, buffer, context),
        }
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

fn of_field(mut error: DecodeError, field: &'static str) -> DecodeError {
    error.push("Metric", field);
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message as the code generator would define it.
    #[derive(Clone, PartialEq, Message)]
    struct Generated {
        #[prost(string, tag = "1")]
        name: String,
        #[prost(int64, tag = "2")]
        timestamp: i64,
        #[prost(enumeration = "MetricType", tag = "3")]
        metric_type: i32,
        #[prost(string, repeated, tag = "4")]
        label_values: Vec<String>,
        #[prost(message, optional, tag = "5")]
        value: Option<UInt64Value>,
    }

    #[test]
    fn it_is_on_the_wire_as_the_interface_has_it() {
        let words = |words: &[&str]| words.iter().map(ToString::to_string).collect::<Vec<_>>();
        let common = Arc::new(CommonLabels::new(words(&["/kubepods/x", "", "ü"])));
        let full = Metric {
            name: Cow::Borrowed("container_threads"),
            timestamp: 1_234_567_890_123_456_789,
            metric_type: MetricType::Gauge.into(),
            label_values: LabelValues::new(common, words(&["eth0", &"x".repeat(300)])),
            value: Some(UInt64Value { value: u64::MAX }),
        };
        let zero = Metric {
            value: Some(UInt64Value { value: 0 }),
            ..Metric::default()
        };
        for metric in [full, zero, Metric::default()] {
            let bytes = metric.encode_to_vec();
            assert_eq!(bytes.len(), metric.encoded_len());
            let generated = Generated::decode(&bytes[..]).unwrap();
            assert_eq!(generated.encode_to_vec(), bytes);
            assert_eq!(generated.name, metric.name);
            assert_eq!(generated.timestamp, metric.timestamp);
            assert_eq!(generated.value, metric.value);
            assert_eq!(generated.metric_type(), metric.metric_type());
            assert!(metric.label_values.iter().eq(&generated.label_values));
            assert_eq!(Metric::decode(&bytes[..]).unwrap(), metric);
        }
    }
}
