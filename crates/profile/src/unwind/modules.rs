//! The programs and libraries that a process has mapped, and how each is unwound.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use orlop_order::Order as _;

use super::frame::Frame;
use super::index::Index;
use super::memory::Memory;
use super::rows::Row;
use crate::elf::Elf;
use crate::maps::{self, Mapping};

/// Places of which the row is remembered.
const MOST_ROWS: usize = 64 << 10;
/// Bytes of indices that are read of all modules together.
const MOST_INDEX: u64 = 256 << 20;

/// A program or library.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) path: PathBuf,
    pub(crate) build_id: Vec<u8>,
    /// What was added to its addresses.
    pub(crate) bias: u64,
    /// Where its code is.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) offset: u64,
    /// Where the first byte of its file is mapped.
    head: u64,
    /// Whether anything but its place is known: nothing of its memory is read before it is sampled.
    is_read: bool,
    index: Option<Index>,
}

/// How one place is unwound.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) row: Row,
    pub(super) returns: u64,
    pub(super) is_signal: bool,
}

/// All that is mapped.
#[derive(Debug)]
pub(crate) struct Modules {
    pid: u32,
    memory: Memory,
    pub(crate) all: Vec<Module>,
    mappings: HashSet<Mapping>,
    pub(super) ways: HashMap<u64, Option<Arc<Way>>>,
    /// Bytes of indices that may still be read.
    left: u64,
}

impl Modules {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let mut modules = Self {
            pid,
            memory: Memory::of(pid)?,
            all: Vec::new(),
            mappings: HashSet::new(),
            ways: HashMap::new(),
            left: MOST_INDEX,
        };
        modules.refresh()?;
        Ok(modules)
    }

    /// Looks again what is mapped. What was sampled stays known.
    pub(crate) fn refresh(&mut self) -> io::Result<()> {
        let mut mappings = maps::executable(self.pid)?;
        mappings.order_by_key(|mapping| mapping.start);
        let starts: HashSet<u64> = mappings.iter().map(|mapping| mapping.start).collect();
        let new = mappings.iter().filter(|it| !self.mappings.contains(it));
        let new: Vec<&Mapping> = new.collect();
        self.all.retain(|module| {
            let after = new.partition_point(|it| it.end <= module.start);
            let is_replaced = new.get(after).is_some_and(|it| it.start < module.end);
            !is_replaced && (module.is_read || starts.contains(&module.start))
        });
        if !new.is_empty() {
            self.ways.clear();
        }
        let room = maps::MOST.saturating_sub(self.all.len());
        self.all.extend(new.into_iter().take(room).map(Module::of));
        self.all.order_by_key(|module| module.start);
        self.mappings = mappings.into_iter().collect();
        Ok(())
    }

    /// The number of the module that has a place.
    fn number(&self, place: u64) -> Option<usize> {
        let after = self.all.partition_point(|module| module.start <= place);
        let number = after.checked_sub(1)?;
        (place < self.all.get(number)?.end).then_some(number)
    }

    /// Whether a module has a place.
    pub(super) fn has(&self, place: u64) -> bool {
        self.number(place).is_some()
    }

    /// The module that has a place, read.
    pub(super) fn read(&mut self, place: u64) -> Option<&Module> {
        let number = self.number(place)?;
        let module = self.all.get_mut(number)?;
        if !module.is_read {
            module.read(&self.memory, &mut self.left);
        }
        Some(module)
    }

    /// How a place is unwound. None where nothing says so.
    pub(super) fn way(&mut self, place: u64) -> Option<Arc<Way>> {
        if let Some(known) = self.ways.get(&place) {
            return known.clone();
        }
        let way = self.look(place).map(Arc::new);
        if self.ways.len() >= MOST_ROWS {
            self.ways.clear();
        }
        self.ways.insert(place, way.clone());
        way
    }

    fn look(&mut self, place: u64) -> Option<Way> {
        let at = self.read(place)?.index.as_ref()?.find(place)?;
        let frame = Frame::read(&self.memory, at)?;
        (frame.start <= place && place < frame.end).then_some(())?;
        Some(Way {
            row: Row::of(&frame, place)?,
            returns: frame.common.returns,
            is_signal: frame.common.is_signal,
        })
    }
}

impl Module {
    fn of(mapping: &Mapping) -> Self {
        Self {
            path: mapping.path.clone(),
            build_id: Vec::new(),
            bias: mapping.start.wrapping_sub(mapping.offset),
            start: mapping.start,
            end: mapping.end,
            offset: mapping.offset,
            head: mapping.head,
            is_read: false,
            index: None,
        }
    }

    /// Reads what it has in memory; its index, if so many bytes are left for it.
    fn read(&mut self, memory: &Memory, left: &mut u64) {
        self.is_read = true;
        let Some(elf) = Elf::of(&memory.from(self.head)) else {
            return;
        };
        let Some(bias) = elf.bias(self.head) else {
            return;
        };
        self.bias = bias;
        self.build_id = elf.build_id(memory, Some(bias)).unwrap_or_default();
        if let Some((at, size)) = elf.eh_frame_index()
            && let Some(rest) = left.checked_sub(size)
        {
            self.index = Index::read(memory, bias.wrapping_add(at), size);
            if self.index.is_some() {
                *left = rest;
            }
        }
    }

    /// One of which nothing but its place is known.
    #[cfg(test)]
    pub(crate) fn at(path: &str, start: u64, end: u64) -> Self {
        Self::of(&Mapping {
            start,
            end,
            offset: 0,
            path: path.into(),
            head: start,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_sampled_is_read_as_far_as_there_is_room_for_it() {
        let mut modules = Modules::of(std::process::id()).unwrap();
        let read = |modules: &Modules| modules.all.iter().filter(|it| it.is_read).count();
        assert!(modules.all.len() > 1);
        assert_eq!(read(&modules), 0);
        let place = Modules::refresh as fn(&mut Modules) -> io::Result<()> as usize as u64;
        assert!(modules.way(place).is_some());
        assert_eq!(read(&modules), 1);
        let spent = MOST_INDEX - modules.left;
        assert!(spent > 0);
        modules.refresh().unwrap();
        assert_eq!(read(&modules), 1, "it stays known");
        let mut poor = Modules::of(std::process::id()).unwrap();
        poor.left = spent - 1;
        assert!(poor.way(place).is_none());
        assert!(!poor.read(place).unwrap().build_id.is_empty());
    }
}
