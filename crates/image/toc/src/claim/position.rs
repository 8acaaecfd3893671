//! Position of a table of contents in its layer.

/// The only type of a table of contents in zstd:chunked, which is the same as that of eStargz.
const TYPE: u64 = 1;

/// The position of a table of contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) plain: u64,
}

impl Position {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.split(':').map(|number| number.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        let (offset, length, plain, kind) = (next()?, next()?, next()?, next()?);
        (kind == TYPE && numbers.next().is_none()).then_some(Self {
            offset,
            length,
            plain,
        })
    }

    pub(crate) fn of_type(kind: u64, offset: u64, length: u64, plain: u64) -> Option<Self> {
        (kind == TYPE).then_some(Self {
            offset,
            length,
            plain,
        })
    }
}
