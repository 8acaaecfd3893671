//! What is mapped where in a process.

use std::path::PathBuf;
use std::{io, str};

/// No program has more libraries; what comes after them is left out.
pub(crate) const MOST: usize = 4096;

/// A mapping of something that can be run.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Where in the file it begins.
    pub(crate) offset: u64,
    /// The file, or what the kernel calls it: `[vdso]`.
    pub(crate) path: PathBuf,
    /// Where the first byte of the file is mapped.
    pub(crate) head: u64,
}

/// Mappings of programs and libraries whose first page is mapped, in the order of their addresses.
pub(crate) fn executable(pid: u32) -> io::Result<Vec<Mapping>> {
    orlop_disk::read_kernel_file(format!("/proc/{pid}/maps")).map(|text| parse(&text))
}

fn parse(text: &[u8]) -> Vec<Mapping> {
    let mut found = Vec::new();
    let mut head: Option<(&[u8], u64)> = None;
    for text in text.split(|byte| *byte == b'\n') {
        let Some(line) = line(text) else {
            continue;
        };
        // A file that is mapped twice has two heads: each is of what follows it.
        if line.offset == 0 && !line.path.is_empty() {
            head = Some((line.path, line.start));
        }
        if let Some((of, head)) = head
            && of == line.path
            && line.rights.get(2) == Some(&b'x')
        {
            if found.len() >= MOST {
                break;
            }
            found.push(Mapping {
                start: line.start,
                end: line.end,
                offset: line.offset,
                path: as_path(line.path),
                head,
            });
        }
    }
    found
}

/// A line, as far as it matters.
struct Line<'a> {
    start: u64,
    end: u64,
    rights: &'a [u8],
    offset: u64,
    path: &'a [u8],
}

/// `5f00-6f00 r-xp 00001000 08:01 1234   /usr/bin/orlop`
fn line(text: &[u8]) -> Option<Line<'_>> {
    let mut parts = text.splitn(6, |byte| *byte == b' ');
    let (range, rights, offset) = (parts.next()?, parts.next()?, parts.next()?);
    let (_device, _inode) = (parts.next()?, parts.next()?);
    let (start, end) = str::from_utf8(range).ok()?.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Line {
        start: number(start)?,
        end: number(end)?,
        rights,
        offset: number(str::from_utf8(offset).ok()?)?,
        path: parts.next().unwrap_or_default().trim_ascii_start(),
    })
}

fn as_path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt as _;
    let bytes = bytes.strip_suffix(b" (deleted)").unwrap_or(bytes);
    std::ffi::OsStr::from_bytes(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fuzzed_mappings_do_not_break_the_reader() {
        orlop_testkit::Fuzz::new()
            .example("1000-2000 r--p 00000000 08:01 7    /bin/a b (deleted)\n2000-3000 r-xp 00001000 08:01 7    /bin/a b (deleted)\n")
            .example("8000-9000 r-xp 00000000 00:00 0    [vdso]\n")
            .words(["-", " ", "\n", "ffffffffffffffff", "10000000000000000", "r-xp", "00000000"])
            .run(|input| assert!(parse(input).len() <= MOST));
    }

    #[test]
    fn what_can_be_run_is_found_with_the_head_of_its_file() {
        let text = b"1000-2000 r--p 00000000 08:01 7    /bin/a b (deleted)\n\
            2000-3000 r-xp 00001000 08:01 7    /bin/a b (deleted)\n\
            3000-4000 rw-p 00000000 00:00 0 \n\
            4000-5000 r-xp 00000000 00:00 0 \n\
            6000-7000 r-xp 00003000 08:01 8    /lib/headless\n\
            nonsense\n\
            8000-9000 r-xp 00000000 00:00 0    [vdso]\n";
        let found = parse(text);
        let shown: Vec<_> = found
            .iter()
            .map(|it| (it.start, it.head, it.path.to_str().unwrap()))
            .collect();
        assert_eq!(
            shown,
            [(0x2000, 0x1000, "/bin/a b"), (0x8000, 0x8000, "[vdso]")]
        );
        let many: String = (1..=MOST + 1)
            .flat_map(|at| {
                [format!(
                    "{at:x}000-{at:x}800 r-xp 00000000 08:01 7    /bin/a\n"
                )]
            })
            .collect();
        assert_eq!(parse(many.as_bytes()).len(), MOST);
        assert!(
            executable(std::process::id())
                .unwrap()
                .iter()
                .any(|it| it.path == std::env::current_exe().unwrap())
        );
    }
}
