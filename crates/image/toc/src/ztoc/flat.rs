//! FlatBuffers: the part of the encoding that a ztoc needs.
//!
//! A table begins with the backward distance to its vtable. The vtable contains its own size, the table's size, and
//! the offset of each field in the table, or 0. Strings, vectors and nested tables are elsewhere: their field
//! contains the forward distance. So there are no cycles, but several fields may refer to the same object. Callers
//! must count the objects that they read.

/// A table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    buffer: &'a [u8],
    at: usize,
    vtable: usize,
    fields: usize,
}

/// A vector of tables or strings.
#[derive(Debug, Clone, Copy)]
pub(super) struct Vector<'a> {
    buffer: &'a [u8],
    at: usize,
    length: usize,
}

/// A reference leads out of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Outside;

type Result<T> = std::result::Result<T, Outside>;

impl<'a> Table<'a> {
    /// Returns the root table of a buffer.
    pub(super) fn root(buffer: &'a [u8]) -> Result<Self> {
        Self::at(buffer, follow(buffer, 0)?)
    }

    fn at(buffer: &'a [u8], at: usize) -> Result<Self> {
        let back = i32::from_le_bytes(array(buffer, at)?);
        let vtable = i64::try_from(at).map_err(|_| Outside)? - i64::from(back);
        let vtable = usize::try_from(vtable).map_err(|_| Outside)?;
        let length = usize::from(u16::from_le_bytes(array(buffer, vtable)?));
        if length < 4 || buffer.len() - vtable < length {
            return Err(Outside);
        }
        Ok(Self {
            buffer,
            at,
            vtable,
            fields: (length - 4) / 2,
        })
    }

    /// Returns the position of a field; `None` if it has its default value.
    fn field(&self, field: usize) -> Result<Option<usize>> {
        if field >= self.fields {
            return Ok(None);
        }
        let offset = u16::from_le_bytes(array(self.buffer, self.vtable + 4 + field * 2)?);
        match offset {
            0 => Ok(None),
            offset => Ok(Some(self.at.checked_add(offset.into()).ok_or(Outside)?)),
        }
    }

    fn scalar<const N: usize>(&self, field: usize) -> Result<Option<[u8; N]>> {
        self.field(field)?
            .map(|at| array(self.buffer, at))
            .transpose()
    }

    pub(super) fn byte(&self, field: usize, default: i8) -> Result<i8> {
        Ok(self.scalar(field)?.map_or(default, i8::from_le_bytes))
    }

    pub(super) fn int(&self, field: usize) -> Result<i32> {
        Ok(self.scalar(field)?.map_or(0, i32::from_le_bytes))
    }

    pub(super) fn unsigned(&self, field: usize) -> Result<u32> {
        Ok(self.scalar(field)?.map_or(0, u32::from_le_bytes))
    }

    pub(super) fn long(&self, field: usize) -> Result<i64> {
        Ok(self.scalar(field)?.map_or(0, i64::from_le_bytes))
    }

    /// Returns a string, or a vector of bytes.
    pub(super) fn bytes(&self, field: usize) -> Result<&'a [u8]> {
        match self.field(field)? {
            None => Ok(&[]),
            Some(at) => bytes(self.buffer, follow(self.buffer, at)?),
        }
    }

    pub(super) fn table(&self, field: usize) -> Result<Option<Self>> {
        let Some(at) = self.field(field)? else {
            return Ok(None);
        };
        Self::at(self.buffer, follow(self.buffer, at)?).map(Some)
    }

    pub(super) fn vector(&self, field: usize) -> Result<Vector<'a>> {
        let buffer = self.buffer;
        let Some(at) = self.field(field)? else {
            return Ok(Vector {
                buffer,
                at: 0,
                length: 0,
            });
        };
        let at = follow(buffer, at)?;
        let length = u32::from_le_bytes(array(buffer, at)?) as usize;
        let at = at + 4;
        if length > (buffer.len() - at) / 4 {
            return Err(Outside);
        }
        Ok(Vector { buffer, at, length })
    }
}

impl<'a> Vector<'a> {
    pub(super) fn len(&self) -> usize {
        self.length
    }

    pub(super) fn tables(&self) -> impl Iterator<Item = Result<Table<'a>>> + use<'a> {
        let buffer = self.buffer;
        self.places()
            .map(move |at| Table::at(buffer, follow(buffer, at)?))
    }

    pub(super) fn strings(&self) -> impl Iterator<Item = Result<&'a [u8]>> + use<'a> {
        let buffer = self.buffer;
        self.places()
            .map(move |at| bytes(buffer, follow(buffer, at)?))
    }

    fn places(&self) -> impl Iterator<Item = usize> + use<> {
        let begin = self.at;
        (0..self.length).map(move |at| begin + at * 4)
    }
}

/// Follows a reference at a position.
fn follow(buffer: &[u8], at: usize) -> Result<usize> {
    let forward = u32::from_le_bytes(array(buffer, at)?) as usize;
    let to = at.checked_add(forward).ok_or(Outside)?;
    if to > buffer.len() {
        return Err(Outside);
    }
    Ok(to)
}

fn bytes(buffer: &[u8], at: usize) -> Result<&[u8]> {
    let length = u32::from_le_bytes(array(buffer, at)?) as usize;
    let rest = &buffer[at + 4..];
    rest.get(..length).ok_or(Outside)
}

fn array<const N: usize>(buffer: &[u8], at: usize) -> Result<[u8; N]> {
    let rest = buffer.get(at..).ok_or(Outside)?;
    rest.first_chunk().copied().ok_or(Outside)
}
