//! What is read of an ELF file of this machine's kind: where its parts are, in memory and on disk.

use crate::bytes::Bytes;

/// `PT_LOAD`, `PT_NOTE`, `PT_GNU_EH_FRAME`.
const LOAD: u32 = 1;
const NOTE: u32 = 4;
const EH_FRAME: u32 = 0x6474_e550;
/// `SHT_SYMTAB` and `SHT_DYNSYM`.
const SYMTAB: u32 = 2;
const DYNSYM: u32 = 11;
/// `SHT_NOBITS`: a section that is in another file.
const NOBITS: u32 = 8;
/// `NT_GNU_BUILD_ID`.
const BUILD_ID: u32 = 3;
/// The largest build id that is looked at.
const LONGEST_ID: u64 = 64;
/// Segments of notes that are looked at.
const MOST_NOTES: usize = 16;
/// No file has more headers of either kind.
const MOST_HEADERS: usize = 4096;
/// The length of the file's header, and of a header of a segment, a section, a symbol.
const HEAD: usize = 64;
const SEGMENT: usize = 56;
const SECTION: usize = 64;
const SYMBOL: usize = 24;

/// Whoever has the bytes: a file, or the memory of a process.
pub(crate) trait Source {
    /// Bytes at an offset. None where they are not all there.
    fn bytes(&self, at: u64, length: usize) -> Option<Vec<u8>>;
}

impl Source for std::fs::File {
    fn bytes(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        use std::os::unix::fs::FileExt as _;
        let end = at.checked_add(length as u64)?;
        // Before the memory is there for it.
        (end <= self.metadata().ok()?.len()).then_some(())?;
        let mut bytes = vec![0; length];
        self.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }
}

/// Which functions of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Table {
    /// All. It is gone from a stripped file.
    All,
    /// Those that it offers to others.
    Offered,
}

/// Where things are.
#[derive(Debug)]
pub(crate) struct Elf {
    segments: Vec<Segment>,
    sections_at: u64,
    section_count: usize,
}

#[derive(Debug)]
struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

/// A function: where it begins, how long it is, its name in a table of names.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Symbol {
    pub(crate) address: u64,
    pub(crate) size: u64,
    pub(crate) name: u32,
}

/// The functions of a file.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// In the order of their addresses.
    pub(crate) all: Vec<Symbol>,
    pub(crate) names: Vec<u8>,
}

impl Elf {
    /// What begins at offset 0 of a source. None where it is no ELF file of 64 bits in this machine's order.
    pub(crate) fn of(source: &dyn Source) -> Option<Self> {
        let head = source.bytes(0, HEAD)?;
        let order = if cfg!(target_endian = "little") { 1 } else { 2 };
        (head.starts_with(b"\x7fELF") && head[4] == 2 && head[5] == order).then_some(())?;
        let mut at = Bytes(&head[32..]);
        let (segments_at, sections_at) = (at.u64()?, at.u64()?);
        at.take(6)?;
        let (segment_size, count) = (at.u16()?, usize::from(at.u16()?));
        let (section_size, section_count) = (at.u16()?, usize::from(at.u16()?));
        let fits = |size: u16, wanted: usize, count: usize| {
            (count == 0 || usize::from(size) == wanted) && count <= MOST_HEADERS
        };
        let fits = fits(segment_size, SEGMENT, count) && fits(section_size, SECTION, section_count);
        fits.then_some(())?;
        let table = source.bytes(segments_at, count * SEGMENT)?;
        let segments = table.chunks_exact(SEGMENT).map(segment);
        Some(Self {
            segments: segments.collect::<Option<_>>()?,
            sections_at,
            section_count,
        })
    }

    /// What is to be added to an address of the file's to have it where its head is in memory.
    pub(crate) fn bias(&self, head: u64) -> Option<u64> {
        let loads = self.segments.iter().filter(|segment| segment.kind == LOAD);
        let first = loads.min_by_key(|segment| segment.offset)?;
        Some(head.wrapping_sub(first.address.wrapping_sub(first.offset)))
    }

    /// Where the index of what says how to unwind is, and how long.
    pub(crate) fn eh_frame_index(&self) -> Option<(u64, u64)> {
        let found = self.segments.iter().find(|it| it.kind == EH_FRAME)?;
        Some((found.address, found.size))
    }

    /// What the linker called this build: `source` has the notes at their offsets, or at their addresses.
    pub(crate) fn build_id(&self, source: &dyn Source, in_memory: Option<u64>) -> Option<Vec<u8>> {
        let notes = self.segments.iter().filter(|it| it.kind == NOTE);
        let notes = notes.filter(|note| note.size <= 64 << 10);
        notes.take(MOST_NOTES).find_map(|note| {
            let at = in_memory.map_or(note.offset, |bias| bias.wrapping_add(note.address));
            id_in(&source.bytes(at, note.size as usize)?)
        })
    }

    /// The functions that a file names, in so many bytes as are left. None where it has no such table, or
    /// nothing in it.
    pub(crate) fn symbols(
        &self,
        source: &dyn Source,
        which: Table,
        left: &mut u64,
    ) -> Option<Symbols> {
        let table = source.bytes(self.sections_at, self.section_count * SECTION)?;
        let sections: Vec<Section> = table
            .chunks_exact(SECTION)
            .map(section)
            .collect::<Option<_>>()?;
        let kind = match which {
            Table::All => SYMTAB,
            Table::Offered => DYNSYM,
        };
        let symbols = sections.iter().find(|section| section.kind == kind)?;
        let names = sections.get(symbols.link as usize)?;
        (symbols.size <= LARGEST && names.size <= LARGEST && names.kind != NOBITS).then_some(())?;
        let rest = left.checked_sub(symbols.size + names.size)?;
        let names = source.bytes(names.offset, names.size as usize)?;
        let table = source.bytes(symbols.offset, symbols.size as usize)?;
        let mut all: Vec<Symbol> = table.chunks_exact(SYMBOL).filter_map(function).collect();
        // Of those at one address the longest says most.
        all.sort_by_key(|symbol| (symbol.address, symbol.size));
        (!all.is_empty()).then_some(())?;
        *left = rest;
        Some(Symbols { all, names })
    }
}

/// Bytes of the tables of all modules together.
pub(crate) const MOST_SYMBOLS: u64 = 512 << 20;
/// As much as is looked at of a name: what compilers make of generic functions is long before it is readable.
const LONGEST_NAME: usize = 4096;
/// No table of symbols or names is larger.
const LARGEST: u64 = 256 << 20;

fn segment(bytes: &[u8]) -> Option<Segment> {
    let mut at = Bytes(bytes);
    let (kind, _flags, offset, address) = (at.u32()?, at.u32()?, at.u64()?, at.u64()?);
    let (_physical, _in_file, size) = (at.u64()?, at.u64()?, at.u64()?);
    Some(Segment {
        kind,
        offset,
        address,
        size,
    })
}

struct Section {
    kind: u32,
    offset: u64,
    size: u64,
    link: u32,
}

fn section(bytes: &[u8]) -> Option<Section> {
    let mut at = Bytes(bytes);
    let (_name, kind, _flags, _address) = (at.u32()?, at.u32()?, at.u64()?, at.u64()?);
    let (offset, size, link) = (at.u64()?, at.u64()?, at.u32()?);
    Some(Section {
        kind,
        offset,
        size,
        link,
    })
}

/// `STT_FUNC` and `STT_GNU_IFUNC` that are in a section; labels of assembly (`STT_NOTYPE`) are not.
fn function(bytes: &[u8]) -> Option<Symbol> {
    let mut at = Bytes(bytes);
    let (name, info, _other, place) = (at.u32()?, at.u8()?, at.u8()?, at.u16()?);
    let (address, size) = (at.u64()?, at.u64()?);
    let is_function = matches!(info & 0xf, 2 | 10) && place != 0;
    is_function.then_some(Symbol {
        address,
        size,
        name,
    })
}

impl Symbols {
    /// The name of the function at an address, as it is in the file.
    pub(crate) fn find(&self, address: u64) -> Option<&str> {
        let place = self.all.partition_point(|it| it.address <= address);
        let symbol = self.all.get(place.checked_sub(1)?)?;
        let next = self.all.get(place).map_or(u64::MAX, |it| it.address);
        let end = match symbol.size {
            // Of assembly nobody says how long it is.
            0 => next,
            size => symbol.address.saturating_add(size),
        };
        (address < end).then_some(())?;
        let name = self.names.get(symbol.name as usize..)?;
        let name = &name[..name.len().min(LONGEST_NAME)];
        match name.iter().position(|byte| *byte == 0) {
            Some(end) => std::str::from_utf8(&name[..end]).ok(),
            // The end of the table, or a name that is cut off.
            None => name.utf8_chunks().next().map(|chunk| chunk.valid()),
        }
    }
}

/// The build id among notes.
fn id_in(notes: &[u8]) -> Option<Vec<u8>> {
    let mut at = Bytes(notes);
    let padded = |length: u32| (length as usize).checked_next_multiple_of(4);
    loop {
        let (name, length, kind) = (at.u32()?, at.u32()?, at.u32()?);
        let owner = at.take(padded(name)?)?;
        let value = at.take(padded(length)?)?.get(..length as usize)?;
        if kind == BUILD_ID && owner == b"GNU\0" && u64::from(length) <= LONGEST_ID {
            return Some(value.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_while_there_is_room_for_them() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let elf = Elf::of(&file).unwrap();
        let mut left = MOST_SYMBOLS;
        assert!(elf.symbols(&file, Table::All, &mut left).is_some());
        let size = MOST_SYMBOLS - left;
        assert!(size > 1000, "{size}");
        let mut left = size * 2 - 1;
        assert!(elf.symbols(&file, Table::All, &mut left).is_some());
        assert!(elf.symbols(&file, Table::All, &mut left).is_none());
        assert_eq!(left, size - 1);
    }

    #[test]
    fn a_name_without_end_is_cut_off() {
        let find = |names: &[u8]| {
            let symbol = Symbol {
                address: 0,
                size: 0,
                name: 1,
            };
            let symbols = Symbols {
                all: vec![symbol],
                names: names.to_owned(),
            };
            symbols.find(0).map(str::to_owned)
        };
        assert_eq!(find(b"\0main\0f\0").unwrap(), "main");
        let long = find(format!("\0x{}", "é".repeat(1 << 20)).as_bytes());
        assert_eq!(long.unwrap().len(), LONGEST_NAME - 1);
        assert_eq!(find(b"\0\xff\0"), None);
        assert_eq!(find(b""), None);
    }
}
