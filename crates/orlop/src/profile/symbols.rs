//! Resolution of addresses to the function names of this process.
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::File;
use std::mem::MaybeUninit;

use object::{Object as _, ObjectKind, ObjectSymbol as _, ReadCache, SymbolKind};

/// Maximum length of a name: names of generic functions are unbounded.
const LONGEST: usize = 1024;

/// Function names by address.
#[derive(Debug, Default)]
pub(super) struct Symbols(HashMap<u64, String>);

impl Symbols {
    /// Resolves addresses: those of the program in its file, which may be deleted, and those of libraries through the
    /// dynamic linker. Addresses outside code have no name.
    pub(super) fn of(places: impl Iterator<Item = u64>) -> Self {
        let own = module(readable as *const () as u64);
        let own = own.map_or(0, |module| module.base);
        let mut names = HashMap::new();
        let mut of_program = Vec::new();
        for place in places {
            if names.contains_key(&place) {
                continue;
            }
            if let Some(module) = module(place) {
                if module.base == own {
                    of_program.push(place);
                }
                names.insert(place, module.name);
            }
        }
        if let Err(error) = name_program(own, &of_program, &mut names) {
            tracing::warn!(%error, "cannot read the names of functions from /proc/self/exe");
        }
        Self(names)
    }

    /// Returns the function at an address.
    pub(super) fn name(&self, place: u64) -> Option<&str> {
        self.0.get(&place).map(String::as_str)
    }
}

fn name_program(
    base: u64,
    places: &[u64],
    names: &mut HashMap<u64, String>,
) -> Result<(), Box<dyn std::error::Error>> {
    let cache = ReadCache::new(File::open("/proc/self/exe")?);
    let file = object::File::parse(&cache)?;
    // Addresses are relative to the base only in a position-independent program.
    let base = if file.kind() == ObjectKind::Dynamic {
        base
    } else {
        0
    };
    let mut functions: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.is_definition())
        .map(|symbol| (symbol.address(), symbol.size(), symbol.index()))
        .collect();
    functions.sort_unstable_by_key(|(start, size, _)| (*start, *size));
    for place in places {
        let inside = place.wrapping_sub(base);
        let after = functions.partition_point(|(start, ..)| *start <= inside);
        let found = after.checked_sub(1).map(|number| functions[number]);
        if let Some((start, size, index)) = found
            && inside - start < size.max(1)
        {
            names.insert(*place, readable(file.symbol_by_index(index)?.name()?));
        }
    }
    Ok(())
}

/// Returns the name as in the source, without the hash at its end.
fn readable(symbol: &str) -> String {
    let mut name = format!("{:#}", rustc_demangle::demangle(symbol));
    name.truncate(name.floor_char_boundary(LONGEST));
    name
}

/// The program or library at an address.
struct Module {
    base: u64,
    /// Name of the exported function at the address, else of the file.
    name: String,
}

fn module(place: u64) -> Option<Module> {
    let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: dladdr only compares the address with the mappings of the process, and fills in the structure if it
    // succeeds. Its strings belong to libraries that are never unloaded.
    unsafe {
        if libc::dladdr(place as *const libc::c_void, found.as_mut_ptr()) == 0 {
            return None;
        }
        let found = found.assume_init();
        let text = |text: *const libc::c_char| {
            (!text.is_null()).then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        };
        let file = || {
            let path = text(found.dli_fname).unwrap_or_default();
            format!("[{}]", path.rsplit('/').next().unwrap_or_default())
        };
        Some(Module {
            base: found.dli_fbase as u64,
            name: text(found.dli_sname).unwrap_or_else(file),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_the_program_and_of_libraries_have_names() {
        let own = functions_of_the_program_and_of_libraries_have_names as *const () as u64;
        let library = libc::getpid as *const () as u64;
        let symbols = Symbols::of([own, library, 8].into_iter());
        assert_eq!(
            symbols.name(own),
            Some(concat!(
                module_path!(),
                "::functions_of_the_program_and_of_libraries_have_names"
            ))
        );
        assert!(
            symbols
                .name(library)
                .is_some_and(|it| it.contains("getpid"))
        );
        assert_eq!(symbols.name(8), None);
    }

    #[test]
    fn names_are_as_people_write_them() {
        assert_eq!(
            readable("_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
        assert_eq!(readable("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(readable("epoll_wait"), "epoll_wait");
    }
}
