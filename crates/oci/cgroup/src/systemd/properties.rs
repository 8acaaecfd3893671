//! Properties of systemd units, and the conversion of limits to them.

use std::borrow::Cow;

use super::message::Body;
use crate::Limits;
use crate::weight::cpu_weight;

/// systemd's value for "no limit".
const INFINITY: u64 = u64::MAX;

/// The default period of `cpu.max`.
const DEFAULT_PERIOD: u64 = 100_000;

/// A property of a unit, named as in `systemd.resource-control(5)`.
#[derive(Debug, Clone, PartialEq)]
pub struct Property {
    name: Cow<'static, str>,
    value: Value,
}

/// A value of a property.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A boolean.
    Bool(bool),
    /// An unsigned 64-bit number, the most common type.
    Number(u64),
    /// An unsigned 32-bit number.
    Short(u32),
    /// A signed 64-bit number.
    Signed(i64),
    /// A signed 32-bit number.
    SignedShort(i32),
    /// A floating point number.
    Real(f64),
    /// A string.
    Text(String),
    /// PIDs.
    Numbers(Vec<u32>),
    /// A bit set, the lowest bit first.
    Bytes(Vec<u8>),
    /// Strings.
    Texts(Vec<String>),
    /// Pairs of strings, such as the devices and access rights of `DeviceAllow`.
    Pairs(Vec<(String, String)>),
}

impl Property {
    /// Returns a property with this name.
    pub fn new(name: impl Into<Cow<'static, str>>, value: Value) -> Self {
        let name = name.into();
        Self { name, value }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the value.
    pub fn value(&self) -> &Value {
        &self.value
    }
}

/// Converts limits to properties (cgroup v2). systemd writes its values whenever it updates the unit, so it must know
/// the limits of a unit.
///
/// Huge pages and the files of `unified` have no property: they are written to the cgroup itself, where systemd leaves
/// them unchanged.
pub fn limits_as_properties(limits: &Limits) -> Vec<Property> {
    let mut all = Vec::new();
    let mut number = |name, value| all.push(Property::new(name, Value::Number(value)));
    let or_infinity = |value: i64| u64::try_from(value).unwrap_or(INFINITY);
    if let Some(shares) = limits.cpu_shares {
        number("CPUWeight", cpu_weight(shares));
    }
    if let Some(quota) = limits.cpu_quota {
        let period = limits
            .cpu_period
            .filter(|period| *period > 0)
            .unwrap_or(DEFAULT_PERIOD);
        let per_second = u64::try_from(quota).map_or(INFINITY, |quota| {
            // systemd keeps whole hundredths of a CPU and would round down.
            (u128::from(quota) * 1_000_000)
                .div_ceil(u128::from(period))
                .next_multiple_of(10_000) as u64
        });
        number("CPUQuotaPerSecUSec", per_second);
    }
    if let Some(period) = limits.cpu_period {
        number("CPUQuotaPeriodUSec", period);
    }
    if let Some(memory) = limits.memory {
        number("MemoryMax", or_infinity(memory));
    }
    if let Some(both) = limits.memory_and_swap {
        let memory = limits.memory.unwrap_or(-1);
        let swap = if both < 0 || memory < 0 {
            -1
        } else {
            (both - memory).max(0)
        };
        number("MemorySwapMax", or_infinity(swap));
    }
    if let Some(pids) = limits.pids {
        number("TasksMax", or_infinity(pids));
    }
    for (name, list) in [
        ("AllowedCPUs", &limits.cpuset_cpus),
        ("AllowedMemoryNodes", &limits.cpuset_mems),
    ] {
        if let Some(bits) = list.as_deref().and_then(bits) {
            all.push(Property::new(name, Value::Bytes(bits)));
        }
    }
    all
}

/// Converts a list like `0-3,7` to bits; `None` if it is malformed.
fn bits(list: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    for part in list.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        for bit in usize::from(first)..=usize::from(last) {
            if bytes.len() <= bit / 8 {
                bytes.resize(bit / 8 + 1, 0);
            }
            bytes[bit / 8] |= 1 << (bit % 8);
        }
    }
    Some(bytes)
}

/// Encodes an array of `(sv)`.
pub(super) fn write(body: &mut Body, properties: &[Property]) {
    body.array(8, |body| {
        for Property { name, value } in properties {
            body.align(8);
            body.text(name);
            match value {
                Value::Bool(value) => {
                    body.signature("b");
                    body.boolean(*value);
                }
                Value::Number(value) => {
                    body.signature("t");
                    body.u64(*value);
                }
                Value::Short(value) => {
                    body.signature("u");
                    body.u32(*value);
                }
                Value::Signed(value) => {
                    body.signature("x");
                    body.u64(*value as u64);
                }
                Value::SignedShort(value) => {
                    body.signature("i");
                    body.u32(*value as u32);
                }
                Value::Real(value) => {
                    body.signature("d");
                    body.u64(value.to_bits());
                }
                Value::Text(value) => {
                    body.signature("s");
                    body.text(value);
                }
                Value::Texts(values) => {
                    body.signature("as");
                    body.array(4, |body| values.iter().for_each(|value| body.text(value)));
                }
                Value::Pairs(values) => {
                    body.signature("a(ss)");
                    body.array(8, |body| {
                        for (one, other) in values {
                            body.align(8);
                            body.text(one);
                            body.text(other);
                        }
                    });
                }
                Value::Numbers(values) => {
                    body.signature("au");
                    body.array(4, |body| values.iter().for_each(|value| body.u32(*value)));
                }
                Value::Bytes(values) => {
                    body.signature("ay");
                    body.array(1, |body| values.iter().for_each(|value| body.byte(*value)));
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_have_systemds_names_and_units() {
        let limits = Limits {
            cpu_shares: Some(1024),
            cpu_quota: Some(25_001),
            cpu_period: Some(100_000),
            cpuset_cpus: Some("0-2,9".into()),
            memory: Some(1000),
            memory_and_swap: Some(1500),
            pids: Some(-1),
            ..Limits::default()
        };
        let number = |name, value| Property::new(name, Value::Number(value));
        assert_eq!(
            limits_as_properties(&limits),
            [
                number("CPUWeight", 100),
                number("CPUQuotaPerSecUSec", 260_000),
                number("CPUQuotaPeriodUSec", 100_000),
                number("MemoryMax", 1000),
                number("MemorySwapMax", 500),
                number("TasksMax", u64::MAX),
                Property::new("AllowedCPUs", Value::Bytes(vec![0b111, 0b10])),
            ]
        );
    }

    #[test]
    fn no_limit_is_infinity() {
        let limits = Limits {
            cpu_quota: Some(-1),
            memory: Some(-1),
            ..Limits::default()
        };
        for property in limits_as_properties(&limits) {
            assert_eq!(property.value, Value::Number(u64::MAX), "{}", property.name);
        }
    }
}
