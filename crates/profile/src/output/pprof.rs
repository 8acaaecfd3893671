//! `profile.proto` (`perftools.profiles`), as far as it is used, compressed by gzip.

use std::collections::HashMap;
use std::io::{self, Write};
use std::time::{Duration, UNIX_EPOCH};

use flate2::{Compression, GzBuilder};
use prost::Message;

use super::texts::Texts;
use crate::text::plain;
use crate::{Named, Names, Profile};

#[derive(Clone, PartialEq, Message)]
struct Written {
    #[prost(message, repeated, tag = "1")]
    sample_type: Vec<ValueType>,
    #[prost(message, repeated, tag = "2")]
    sample: Vec<Sample>,
    #[prost(message, repeated, tag = "3")]
    mapping: Vec<Mapping>,
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
struct Mapping {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    memory_start: u64,
    #[prost(uint64, tag = "3")]
    memory_limit: u64,
    #[prost(uint64, tag = "4")]
    file_offset: u64,
    #[prost(int64, tag = "5")]
    filename: i64,
    #[prost(int64, tag = "6")]
    build_id: i64,
    #[prost(bool, tag = "7")]
    has_functions: bool,
}

#[derive(Clone, PartialEq, Message)]
struct Location {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(uint64, tag = "2")]
    mapping_id: u64,
    #[prost(uint64, tag = "3")]
    address: u64,
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

pub(super) fn write(profile: &Profile, names: &Names, into: &mut dyn Write) -> io::Result<()> {
    let written = Writer::default().write(profile, names);
    // With no time in its head: what is in it says when that was.
    let mut packed = GzBuilder::new().write(into, Compression::default());
    packed.write_all(&written.encode_to_vec())?;
    packed.finish()?.flush()
}

#[derive(Default)]
struct Writer {
    written: Written,
    texts: Texts,
    /// By the numbers of their names.
    functions: HashMap<(i64, i64), u64>,
    /// By where it is, and whether that is in the kernel.
    locations: HashMap<(bool, u64), u64>,
}

impl Writer {
    fn write(mut self, profile: &Profile, names: &Names) -> Written {
        // The first text is empty, whatever else there is.
        self.text("");
        let count = self.kind("samples", "count");
        let time = self.kind("cpu", "nanoseconds");
        let period = 1_000_000_000 / i64::from(profile.frequency.max(1));
        self.written.sample_type = vec![count, time.clone()];
        self.written.period_type = Some(time);
        self.written.period = period;
        self.written.time_nanos =
            nanos(profile.begun.duration_since(UNIX_EPOCH).unwrap_or_default());
        self.written.duration_nanos = nanos(profile.took);
        for (id, module) in (1..).zip(&profile.modules) {
            let filename = self.text(&plain(&module.path.to_string_lossy()));
            let build_id = self.text(&orlop_hex::encode(&module.build_id));
            self.written.mapping.push(Mapping {
                id,
                memory_start: module.start,
                memory_limit: module.end,
                file_offset: module.offset,
                filename,
                build_id,
                has_functions: names.knows(module),
            });
        }
        let key = self.text("thread");
        for (stack, seen) in profile.stacks.iter() {
            let mut location_id = Vec::with_capacity(stack.kernel.len() + stack.user.len());
            for place in &stack.kernel {
                location_id.push(self.location(true, *place, profile, names));
            }
            for place in &stack.user {
                location_id.push(self.location(false, *place, profile, names));
            }
            let seen = i64::try_from(seen).unwrap_or(i64::MAX);
            let text = self.text(&profile.thread(stack.thread));
            self.written.sample.push(Sample {
                location_id,
                value: vec![seen, seen.saturating_mul(period)],
                label: vec![Label { key, text }],
            });
        }
        self.written.string_table = self.texts.all().map(str::to_owned).collect();
        self.written
    }

    fn kind(&mut self, kind: &str, unit: &str) -> ValueType {
        ValueType {
            kind: self.text(kind),
            unit: self.text(unit),
        }
    }

    /// The number of a text.
    fn text(&mut self, text: &str) -> i64 {
        self.texts.number(text).into()
    }

    fn location(&mut self, is_kernel: bool, place: u64, profile: &Profile, names: &Names) -> u64 {
        if let Some(known) = self.locations.get(&(is_kernel, place)) {
            return *known;
        }
        let (named, mapping_id) = if is_kernel {
            (names.of_kernel(place), 0)
        } else {
            let module = profile.module_number(place);
            let id = module.map_or(0, |number| number as u64 + 1);
            (names.of_program(place, profile), id)
        };
        let function_id = self.function(&named);
        let id = self.written.location.len() as u64 + 1;
        self.written.location.push(Location {
            id,
            mapping_id,
            address: place,
            line: vec![Line { function_id }],
        });
        self.locations.insert((is_kernel, place), id);
        id
    }

    fn function(&mut self, named: &Named) -> u64 {
        let names = (self.text(&named.function), self.text(&named.symbol));
        if let Some(known) = self.functions.get(&names) {
            return *known;
        }
        let id = self.written.function.len() as u64 + 1;
        let function = Function {
            id,
            name: names.0,
            system_name: names.1,
        };
        self.written.function.push(function);
        self.functions.insert(names, id);
        id
    }
}

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
