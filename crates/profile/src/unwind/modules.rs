//! The programs and libraries that a process has mapped, and how each is unwound.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::frame::Frame;
use super::index::Index;
use super::memory::Memory;
use super::rows::Row;
use crate::elf::Elf;
use crate::maps::{self, Mapping};

/// Places of which the row is remembered.
const MOST_ROWS: usize = 64 << 10;

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
    mappings: Vec<Mapping>,
    ways: HashMap<u64, Option<Arc<Way>>>,
}

impl Modules {
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let mut modules = Self {
            pid,
            memory: Memory::of(pid)?,
            all: Vec::new(),
            mappings: Vec::new(),
            ways: HashMap::new(),
        };
        modules.refresh()?;
        Ok(modules)
    }

    /// Looks again what is mapped. What was stays known, for what was sampled in it.
    pub(crate) fn refresh(&mut self) -> io::Result<()> {
        let mappings = maps::executable(self.pid)?;
        for mapping in &mappings {
            if !self.mappings.contains(mapping) {
                let module = Module::of(mapping, &self.memory);
                self.all
                    .retain(|it| it.end <= mapping.start || it.start >= mapping.end);
                self.all.push(module);
                self.ways.clear();
            }
        }
        self.all.sort_by_key(|module| module.start);
        self.mappings = mappings;
        Ok(())
    }

    /// The module that has a place.
    pub(crate) fn find(&self, place: u64) -> Option<&Module> {
        let after = self.all.partition_point(|module| module.start <= place);
        let module = self.all.get(after.checked_sub(1)?)?;
        (place < module.end).then_some(module)
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

    fn look(&self, place: u64) -> Option<Way> {
        let index = self.find(place)?.index.as_ref()?;
        let frame = Frame::read(&self.memory, index.find(place)?)?;
        (frame.start <= place && place < frame.end).then_some(())?;
        Some(Way {
            row: Row::of(&frame, place)?,
            returns: frame.common.returns,
            is_signal: frame.common.is_signal,
        })
    }
}

impl Module {
    /// One of which nothing but its place is known.
    #[cfg(test)]
    pub(crate) fn at(path: &str, start: u64, end: u64) -> Self {
        Self {
            path: path.into(),
            build_id: Vec::new(),
            bias: 0,
            start,
            end,
            offset: 0,
            index: None,
        }
    }

    fn of(mapping: &Mapping, memory: &Memory) -> Self {
        let head = memory.from(mapping.head);
        let elf = Elf::of(&head);
        let bias = elf.as_ref().and_then(|elf| elf.bias(mapping.head));
        let with = elf.as_ref().zip(bias);
        let index = with.and_then(|(elf, bias)| {
            let (at, size) = elf.eh_frame_index()?;
            Index::read(memory, bias.wrapping_add(at), size)
        });
        let build_id = with.and_then(|(elf, bias)| elf.build_id(memory, Some(bias)));
        Self {
            path: mapping.path.clone(),
            build_id: build_id.unwrap_or_default(),
            bias: bias.unwrap_or(mapping.start.wrapping_sub(mapping.offset)),
            start: mapping.start,
            end: mapping.end,
            offset: mapping.offset,
            index,
        }
    }
}
