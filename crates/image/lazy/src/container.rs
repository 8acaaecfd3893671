//! Lookup of the container of a thread.

/// Number of digits in a container ID.
const DIGITS: usize = 64;

/// Returns the container IDs in the paths of a thread's cgroups, outermost first. The first ID that belongs to a
/// known container is the thread's container: a container can only create cgroups below its own.
pub fn container_ids(pid: u32) -> Vec<String> {
    let cgroups = orlop_fs::read_kernel_text(format!("/proc/{pid}/cgroup"));
    cgroups.map_or(Vec::new(), |cgroups| ids_in(&cgroups))
}

fn ids_in(cgroups: &str) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for line in cgroups.lines() {
        let words = line.split(|letter: char| !letter.is_ascii_hexdigit());
        for id in words.filter(|word| word.len() == DIGITS) {
            if !ids.iter().any(|known| known == id) {
                ids.push(id.to_owned());
            }
        }
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_found_with_either_driver_and_nested_groups_come_last() {
        let (own, nested) = ("a1".repeat(32), "b2".repeat(32));
        for path in [
            format!("/kubepods/burstable/pod1234-5678/{own}/{nested}"),
            format!("/kubepods.slice/kubepods-pod1.slice/orlop-{own}.scope/{nested}"),
        ] {
            let cgroups = format!("12:pids:{path}\n3:cpu:{path}\n0::{path}\n");
            assert_eq!(ids_in(&cgroups), [own.clone(), nested.clone()]);
        }
        assert!(ids_in("0::/system.slice/orlop.service\n").is_empty());
    }
}
