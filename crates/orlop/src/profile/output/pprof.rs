//! The parts of `profile.proto` (`perftools.profiles`) in use, compressed with gzip.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use flate2::{Compression, GzBuilder};
use prost::Message;

use crate::profile::recording::Profile;

#[derive(Clone, PartialEq, Message)]
struct Written {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "4")]
    location: Vec<Location>,
    #[prost(message, repeated, tag = "5")]
    function: Vec<Function>,
    #[prost(string, repeated, tag = "6")]
    string_table: Vec<String>,
    #[prost(int64, tag = "9")]
    time_nanos: i64,
    #[prost(int64, tag = "10")]
    duration_nanos: i64,
    #[prost(message, optional, tag = "11")]
    period_type: Option<ValueType>,
    #[prost(int64, tag = "12")]
    period: i64,
}

#[derive(Clone, PartialEq, Message)]
struct ValueType {
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int64, tag = "2")]
    unit: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Sample {
    #[prost(uint64, repeated, tag = "1")]
    location_id: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    value: Vec<i64>,
    #[prost(message, repeated, tag = "3")]
    label: Vec<Label>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(int64, tag = "1")]
    key: i64,
    #[prost(int64, tag = "2")]
    text: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, repeated, tag = "4")]
    line: Vec<Line>,
}

#[derive(Clone, PartialEq, Message)]
struct Line {
    #[prost(uint64, tag = "1")]
    function_id: u64,
}

#[derive(Clone, PartialEq, Message)]
struct Function {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(int64, tag = "2")]
    name: i64,
    #[prost(int64, tag = "3")]
    system_name: i64,
}

#[expect(clippy::expect_used, reason = "writing into memory does not fail")]
pub(super) fn write(profile: &Profile) -> Vec<u8> {
    let message = message(profile).encode_to_vec();
    let pack = || -> io::Result<Vec<u8>> {
        let mut packed = GzBuilder::new().write(Vec::new(), Compression::default());
        packed.write_all(&message)?;
        packed.finish()
    };
    pack().expect("memory takes all that is written")
}

fn message(profile: &Profile) -> Written {
    // The first string is empty; the names follow at their indexes.
    let mut texts = vec![String::new()];
    texts.extend_from_slice(&profile.names);
    let mut text = |text: &str| {
        texts.push(text.to_owned());
        texts.len() as i64 - 1
    };
    let cpu = ValueType {
        kind: text("cpu"),
        unit: text("nanoseconds"),
    };
    let samples = ValueType {
        kind: text("samples"),
        unit: text("count"),
    };
    let key = text("thread");
    let period = i64::try_from(profile.period_ns).unwrap_or(i64::MAX);
    let mut written = Written {
        sample_type: vec![samples, cpu.clone()],
        period_type: Some(cpu),
        period,
        time_nanos: began(profile),
        duration_nanos: i64::try_from(profile.took().as_nanos()).unwrap_or(i64::MAX),
        string_table: texts,
        ..Written::default()
    };
    // Each function is one location, whose ID is that of its name in the string table.
    let mut places = HashMap::new();
    for stack in &profile.stacks {
        let mut location_id = Vec::with_capacity(stack.functions.len());
        for name in stack.functions.iter().rev() {
            let id = *name as u64 + 1;
            places.insert(id, id as i64);
            location_id.push(id);
        }
        let count = i64::try_from(stack.count).unwrap_or(i64::MAX);
        let text = stack.thread as i64 + 1;
        written.sample.push(Sample {
            location_id,
            value: vec![count, count.saturating_mul(period)],
            label: vec![Label { key, text }],
        });
    }
    for (id, name) in places {
        let line = vec![Line { function_id: id }];
        written.location.push(Location { id, line });
        written.function.push(Function {
            id,
            name,
            system_name: name,
        });
    }
    written
}

/// Returns the start time of the recording, which has just ended.
fn began(profile: &Profile) -> i64 {
    let began = SystemTime::now().checked_sub(profile.took());
    let began = began.and_then(|began| began.duration_since(UNIX_EPOCH).ok());
    began.map_or(0, |began| {
        i64::try_from(began.as_nanos()).unwrap_or(i64::MAX)
    })
}
