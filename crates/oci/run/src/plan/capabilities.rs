//! Capability names and sets.

use orlop_oci_types::{CAPABILITIES, Capabilities};

use crate::sys::CapSets;

/// Converts names to bit sets. Capabilities that this machine does not know, or this process may not pass on, are left
/// out and added to `passed_over`, as runc does.
pub(crate) fn sets(wanted: &Capabilities, last: u32, passed_over: &mut Vec<String>) -> CapSets {
    let mut bits = |names: &'_ [String]| -> u64 {
        let mut set = 0;
        for name in names {
            match CAPABILITIES.iter().position(|known| known == name) {
                Some(number) if number as u32 <= last => set |= 1 << number,
                _ => passed_over.push(name.clone()),
            }
        }
        set
    };
    let sets = CapSets {
        bounding: bits(&wanted.bounding),
        effective: bits(&wanted.effective),
        inheritable: bits(&wanted.inheritable),
        permitted: bits(&wanted.permitted),
        ambient: bits(&wanted.ambient),
    };
    passed_over.sort();
    passed_over.dedup();
    sets
}

/// Removes ambient capabilities that are not both permitted and inheritable; returns their names.
pub(crate) fn leave_ambient_out(sets: &mut CapSets) -> Vec<&'static str> {
    let impossible = sets.ambient & !(sets.permitted & sets.inheritable);
    sets.ambient &= !impossible;
    let named = CAPABILITIES.iter().enumerate();
    named
        .filter(|(number, _)| impossible & (1 << number) != 0)
        .map(|(_, name)| *name)
        .collect()
}
