//! The names of all places of a profile.

use std::collections::HashMap;
use std::fmt::{self, Display, Write};
use std::path::Path;

use orlop_order::Order as _;

use super::files::{self, Process};
use super::kernel::Kernel;
use crate::elf::{MOST_SYMBOLS, Symbols};
use crate::text::plain;
use crate::unwind::Module;
use crate::{Error, Profile};

/// Names are cut off here: those of generic functions have no end.
const LONGEST: usize = 1024;

/// What is at a place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Named {
    /// The function as people write it, or the module and how far in it where nobody knows.
    pub function: String,
    /// The function as it is in the file; empty where nobody knows.
    pub symbol: String,
}

/// Who knows what is at a place.
#[derive(Debug)]
pub struct Names {
    /// By the place where a module is.
    modules: HashMap<u64, Option<Symbols>>,
    kernel: Kernel,
    unknown: Vec<String>,
}

impl Names {
    /// Of all that was seen. `symbols` is a file with the names of the program. Blocks on files.
    pub fn of(profile: &Profile, symbols: Option<&Path>) -> Result<Self, Error> {
        let process = Process {
            pid: profile.pid,
            program: &profile.program,
        };
        let mut modules = HashMap::new();
        let mut left = MOST_SYMBOLS;
        let mut unknown = Vec::new();
        let mut is_kernel = false;
        for (stack, _) in profile.stacks.iter() {
            is_kernel |= !stack.kernel.is_empty();
            for place in &stack.user {
                let Some(module) = profile.module(*place) else {
                    continue;
                };
                if modules.contains_key(&module.start) {
                    continue;
                }
                let found = match symbols {
                    Some(path) if files::is(&module.path, &profile.program) => {
                        Some(files::named(path, module, &mut left)?)
                    }
                    _ => files::symbols(module, &process, &mut left),
                };
                if found.is_none() && module.path.is_absolute() {
                    unknown.push(told(module));
                }
                modules.insert(module.start, found);
            }
        }
        unknown.order();
        Ok(Self {
            modules,
            kernel: if is_kernel {
                Kernel::read()
            } else {
                Kernel::default()
            },
            unknown,
        })
    }

    /// Programs and libraries whose functions have no names, with their build ids.
    pub fn unknown(&self) -> &[String] {
        &self.unknown
    }

    /// Whether the functions of a module have names.
    pub(crate) fn knows(&self, module: &Module) -> bool {
        matches!(self.modules.get(&module.start), Some(Some(_)))
    }

    /// What is at a place of the program's.
    pub fn of_program(&self, place: u64, profile: &Profile) -> Named {
        let Some(module) = profile.module(place) else {
            return Named {
                function: format!("{place:#x}"),
                symbol: String::new(),
            };
        };
        let symbols = self.modules.get(&module.start).and_then(Option::as_ref);
        match symbols.and_then(|known| known.find(place.wrapping_sub(module.bias))) {
            Some(symbol) => Named {
                function: readable(symbol),
                symbol: Cut::of(symbol),
            },
            None => Named {
                function: format!(
                    "{}+{:#x}",
                    file_name(module),
                    place.wrapping_sub(module.bias)
                ),
                symbol: String::new(),
            },
        }
    }

    /// What is at a place of the kernel's.
    pub fn of_kernel(&self, place: u64) -> Named {
        let symbol = self.kernel.find(place).unwrap_or_default().to_owned();
        Named {
            function: if symbol.is_empty() {
                "[kernel]".into()
            } else {
                symbol.clone()
            },
            symbol,
        }
    }
}

/// A module that has no names.
fn told(module: &Module) -> String {
    let path = plain(&module.path.to_string_lossy());
    format!("{path} (build id {})", files::shown(&module.build_id))
}

fn file_name(module: &Module) -> String {
    let name = module.path.file_name().unwrap_or(module.path.as_os_str());
    plain(&name.to_string_lossy())
}

/// Without the hash at its end.
fn readable(symbol: &str) -> String {
    Cut::of(format_args!("{:#}", rustc_demangle::demangle(symbol)))
}

/// A name that is being written, up to where it is cut off.
#[derive(Default)]
struct Cut(String);

impl Cut {
    fn of(name: impl Display) -> String {
        let mut cut = Self::default();
        if write!(cut, "{name}").is_err() {
            cut.0.push('…');
        }
        cut.0
    }
}

impl Write for Cut {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = LONGEST.saturating_sub(self.0.len());
        let fits = text.floor_char_boundary(room.min(text.len()));
        self.0.push_str(&plain(&text[..fits]));
        if fits < text.len() {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_people_write_them() {
        assert_eq!(
            readable("_ZN4core3fmt5write17h0123456789abcdefE"),
            "core::fmt::write"
        );
        assert_eq!(readable("_RNvC6_123foo3bar"), "123foo::bar");
        assert_eq!(readable("epoll_wait"), "epoll_wait");
        assert_eq!(
            readable(&"é".repeat(LONGEST)).chars().count(),
            LONGEST / 2 + 1
        );
        assert_eq!(readable("a\u{1b}[2Jb"), "a?[2Jb");
        let module = Module::at("/lib/a\n\u{202e}.so", 0x1000, 0x2000);
        assert_eq!(told(&module), "/lib/a??.so (build id none)");
        assert_eq!(file_name(&module), "a??.so");
    }
}
