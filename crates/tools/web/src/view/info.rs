//! Verbose information of runtimes: a JSON object in each runtime's own format, with complete configurations and
//! environments. Only the fields named here are used.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::bounded::{MOST, cut};

/// Size limit.
const LARGEST: usize = 4 << 20;

/// The object under the key that runtimes use.
#[derive(Debug)]
pub(super) struct Info(Value);

impl Info {
    pub(super) fn of(info: &HashMap<String, String>) -> Self {
        Self::under(info, "info")
    }

    pub(super) fn under(info: &HashMap<String, String>, key: &str) -> Self {
        let text = info.get(key).filter(|text| text.len() <= LARGEST);
        let value = text.and_then(|text| serde_json::from_slice(text.as_bytes()).ok());
        Self(value.unwrap_or_default())
    }

    /// Returns the value at a JSON pointer such as `/config/dns_config`.
    pub(super) fn at(&self, place: &str) -> &Value {
        self.0.pointer(place).unwrap_or(&Value::Null)
    }

    /// Returns the text at a pointer, unless it is empty.
    pub(super) fn text(&self, place: &str) -> Option<&str> {
        let text = self.at(place).as_str()?;
        (!text.is_empty()).then(|| cut(text))
    }

    /// Returns the list of texts at a pointer.
    pub(super) fn texts(&self, place: &str) -> Option<Vec<&str>> {
        let all = self.at(place).as_array()?.iter().take(MOST);
        Some(all.filter_map(Value::as_str).map(cut).collect())
    }

    /// Returns the process, if one is running.
    pub(super) fn pid(&self) -> Option<u64> {
        self.at("/pid").as_u64().filter(|pid| *pid > 0)
    }

    /// Returns the command of a container with its arguments.
    pub(super) fn command(&self) -> Option<Vec<&str>> {
        let spec = self.texts("/runtimeSpec/process/args");
        spec.filter(|args| !args.is_empty())
    }

    /// Returns the environment of a container, from its runtime specification.
    pub(super) fn environment(&self) -> Option<Vec<(&str, &str)>> {
        let env = self.at("/runtimeSpec/process/env").as_array()?;
        let env = env.iter().take(MOST).filter_map(Value::as_str);
        let env = env.map(|one| one.split_once('=').unwrap_or((one, "")));
        // CRI-O repeats some variables; the last one counts.
        let mut all: Vec<(&str, &str)> = Vec::new();
        for (name, value) in env {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => all.push((name, value)),
            }
        }
        Some(all)
    }

    /// Returns the path of the network namespace.
    pub(super) fn network_namespace(&self) -> Option<&str> {
        let all = self.at("/runtimeSpec/linux/namespaces").as_array()?;
        let mut all = all.iter().filter(|one| one["type"] == "network");
        all.find_map(|one| one["path"].as_str()).map(cut)
    }

    /// Returns the ports of a pod's configuration, as CRI messages in JSON.
    pub(super) fn ports(&self) -> Vec<Value> {
        let all = self.at("/config/port_mappings").as_array();
        let all = all.into_iter().flatten().take(MOST);
        all.map(|one| {
            let protocol = match (one["protocol"].as_u64(), one["protocol"].as_str()) {
                (Some(1), _) | (_, Some("UDP")) => "udp",
                (Some(2), _) | (_, Some("SCTP")) => "sctp",
                _ => "tcp",
            };
            json!({
                "protocol": protocol,
                "host_ip": cut(one["host_ip"].as_str().unwrap_or_default()),
                "host_port": one["host_port"].as_u64(),
                "container_port": one["container_port"].as_u64(),
            })
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_that_is_said_twice_is_one_and_the_last_value_counts() {
        let text = "{\"runtimeSpec\":{\"process\":{\"env\":[\"A=1\",\"B=2\",\"A=3\",\"C\"]}}}";
        let info = Info::of(&HashMap::from([("info".to_owned(), text.to_owned())]));
        let expected = [("A", "3"), ("B", "2"), ("C", "")];
        assert_eq!(info.environment().unwrap(), expected);
    }

    #[test]
    fn what_is_no_object_tells_nothing() {
        for text in ["", "{", "[1]", "7", "{\"runtimeSpec\":{\"process\":7}}"] {
            let info = Info::of(&HashMap::from([("info".to_owned(), text.to_owned())]));
            assert_eq!(info.environment(), None, "{text}");
            assert_eq!(
                (info.command(), info.pid(), info.network_namespace()),
                (None, None, None)
            );
            assert!(info.ports().is_empty());
        }
        let long = format!("{{\"pid\":1,\"x\":\"{}\"}}", "x".repeat(LARGEST));
        assert_eq!(
            Info::of(&HashMap::from([("info".to_owned(), long)])).pid(),
            None
        );
    }
}
