//! What a pod as a whole gets, as containerd tells controllers of it: as the Go structures of CRI in JSON.

use orlop_ttrpc::{Writer, all, field, number, text};
use serde_json::{Map, Value};

/// Its name among a sandbox's extensions, and its type there.
const NAME: &str = "updated-resources";
const KIND: &str = "io.containerd.cri.v1/UpdatedResources";

const NUMBERS: [(u32, &str); 6] = [
    (1, "cpu_period"),
    (2, "cpu_quota"),
    (3, "cpu_shares"),
    (4, "memory_limit_in_bytes"),
    (5, "oom_score_adj"),
    (10, "memory_swap_limit_in_bytes"),
];
const TEXTS: [(u32, &str); 2] = [(6, "cpuset_cpus"), (7, "cpuset_mems")];

/// The entry of the extensions that says so, of a CRI `UpdatePodSandboxResourcesRequest`.
pub(super) fn extension(request: &[u8]) -> Vec<u8> {
    let of = |wanted| {
        let resources = field(request, wanted);
        resources.map_or(Value::Null, |field| resources_in(field.as_bytes()))
    };
    let said = serde_json::json!({"Overhead": of(2), "Resources": of(3)});
    let any = Writer::default()
        .text(1, KIND)
        .text(2, &said.to_string())
        .done();
    Writer::default().text(1, NAME).message(2, &any).done()
}

/// `LinuxContainerResources`.
fn resources_in(message: &[u8]) -> Value {
    let mut said = Map::new();
    for (wanted, name) in NUMBERS {
        // Negative ones are there as large ones.
        let value = number(message, wanted) as i64;
        if value != 0 {
            said.insert(name.into(), value.into());
        }
    }
    for (wanted, name) in TEXTS {
        let value = text(message, wanted);
        if !value.is_empty() {
            said.insert(name.into(), value.into());
        }
    }
    let pages: Vec<Value> = all(message, 8)
        .map(|page| {
            let page = page.as_bytes();
            serde_json::json!({"page_size": text(page, 1), "limit": number(page, 2)})
        })
        .collect();
    if !pages.is_empty() {
        said.insert("hugepage_limits".into(), pages.into());
    }
    let unified: Map<_, _> = all(message, 9)
        .map(|entry| (text(entry.as_bytes(), 1), text(entry.as_bytes(), 2).into()))
        .collect();
    if !unified.is_empty() {
        said.insert("unified".into(), unified.into());
    }
    said.into()
}

#[cfg(test)]
mod tests {
    use orlop_ttrpc::{Writer, any, text};

    use super::extension;

    fn request() -> Vec<u8> {
        let page = Writer::default().text(1, "2MB").number(2, 7).done();
        let resources = Writer::default()
            .number(2, -1_i64 as u64)
            .number(4, 64 << 20)
            .text(6, "0-1")
            .message(8, &page);
        Writer::default()
            .text(1, "p1")
            .message(3, &resources.done())
            .done()
    }

    #[test]
    fn resources_are_told_in_the_words_of_go() {
        let told = extension(&request());
        assert_eq!(text(&told, 1), "updated-resources");
        let told = any(&told, 2).unwrap();
        assert_eq!(told.kind, "io.containerd.cri.v1/UpdatedResources");
        let said: serde_json::Value = serde_json::from_slice(told.value).unwrap();
        let wanted = serde_json::json!({"Overhead": null, "Resources": {
            "cpu_quota": -1, "memory_limit_in_bytes": 67_108_864, "cpuset_cpus": "0-1",
            "hugepage_limits": [{"page_size": "2MB", "limit": 7}],
        }});
        assert_eq!(said, wanted);
    }

    #[test]
    fn fuzzed_resources_do_not_break_the_reader() {
        orlop_testkit::Fuzz::new()
            .example(request())
            .run(|input| drop(extension(input)));
    }
}
