//! Flame graph: threads at the bottom, wider blocks for more time.

use std::fmt::Write as _;

use super::lines::lines;
use crate::profile::recording::Profile;

/// Width of the image, height of a row, and height of the header.
const WIDTH: f64 = 1600.0;
const ROW: usize = 17;
const ABOVE: usize = 48;
/// Narrower blocks are not drawn.
const NARROWEST: f64 = 0.3;
/// Width of a character.
const LETTER: f64 = 6.6;

/// The block of one function.
struct Block<'a> {
    name: &'a str,
    depth: usize,
    /// Number of samples before it, and its own including callees.
    before: u64,
    count: u64,
}

pub(super) fn write(profile: &Profile) -> String {
    let total = profile.samples().max(1) as f64;
    let scale = WIDTH / total;
    let mut blocks = blocks(lines(profile));
    blocks.retain(|block| block.count as f64 * scale >= NARROWEST);
    let rows = blocks.iter().map(|block| block.depth + 1).max();
    let height = ABOVE + rows.unwrap_or(0) * ROW + ROW;
    let mut picture = format!(
        r##"<?xml version="1.0" encoding="UTF-8"?>
<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}">
<style>text{{font:11px monospace}}rect{{stroke:#fff;stroke-width:.5}}g:hover rect{{stroke:#000}}</style>
<rect width="100%" height="100%" fill="#fafafa"/>
<text x="8" y="20" style="font-size:14px">orlop (process {}): {:.1} s of CPU time in {:.1} s</text>
<text x="8" y="38">The width of a box is its CPU time; callers are below. Point at a box to see the full name.</text>
"##,
        profile.pid,
        profile.busy().as_secs_f64(),
        profile.took().as_secs_f64(),
    );
    for block in blocks {
        let x = block.before as f64 * scale;
        let width = block.count as f64 * scale;
        let y = height - ROW * (block.depth + 2);
        let part = block.count as f64 * 100.0 / total;
        let _ = write!(
            picture,
            r#"<g><title>{}: {} samples, {part:.1} %</title><rect x="{x:.1}" y="{y}" width="{width:.1}" height="{ROW}" fill="{}"/>"#,
            escaped(block.name),
            block.count,
            color(block.name),
        );
        let room = ((width - 4.0) / LETTER) as usize;
        if room >= 3 {
            let text = escaped(&fitting(block.name, room));
            let (x, y) = (x + 2.0, y + 12);
            let _ = write!(picture, r#"<text x="{x:.1}" y="{y}">{text}</text>"#);
        }
        picture.push_str("</g>\n");
    }
    picture.push_str("</svg>\n");
    picture
}

/// Merges neighbours with the same callers into shared blocks. The lines must be sorted.
fn blocks(lines: Vec<(Vec<&str>, u64)>) -> Vec<Block<'_>> {
    let mut open: Vec<Block<'_>> = Vec::new();
    let mut done = Vec::new();
    let mut at = 0;
    for (line, count) in lines {
        let same = open.iter().zip(&line);
        let shared = same
            .take_while(|(block, name)| block.name == **name)
            .count();
        done.extend(open.drain(shared..).rev());
        for block in &mut open {
            block.count += count;
        }
        for (depth, name) in line.into_iter().enumerate().skip(shared) {
            open.push(Block {
                name,
                depth,
                before: at,
                count,
            });
        }
        at += count;
    }
    done.extend(open.into_iter().rev());
    done
}

/// Truncates a name to the available width; the end of a name says most.
fn fitting(name: &str, room: usize) -> String {
    let length = name.chars().count();
    if length <= room {
        return name.to_owned();
    }
    let rest: String = name.chars().skip(length - room + 1).collect();
    format!("…{rest}")
}

/// Returns a warm colour for a name.
fn color(name: &str) -> String {
    // FNV-1a, so that a function has the same colour in every graph.
    let hash = name.bytes().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("hsl({},70%,{}%)", hash % 50, 62 + (hash >> 8) % 14)
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_share_their_callers() {
        let line = |text: &'static str| text.split(' ').collect::<Vec<_>>();
        let lines = [(line("a b"), 2), (line("a b c"), 3), (line("a d c"), 1)];
        let mut blocks = blocks(lines.into());
        blocks.sort_by_key(|block| (block.depth, block.before));
        let shown: Vec<_> = blocks
            .iter()
            .map(|it| (it.name, it.depth, it.before, it.count))
            .collect();
        let wanted = [
            ("a", 0, 0, 6),
            ("b", 1, 0, 5),
            ("d", 1, 5, 1),
            ("c", 2, 2, 3),
            ("c", 2, 5, 1),
        ];
        assert_eq!(shown, wanted);
    }

    #[test]
    fn names_are_text_in_the_picture() {
        assert_eq!(
            escaped("<Vec<T>>::f & g"),
            "&lt;Vec&lt;T&gt;&gt;::f &amp; g"
        );
        let picture = write(&super::super::example());
        assert!(picture.contains("<title>&lt;Vec&lt;T&gt;&gt;::push; x: 3 samples, 42.9 %"));
        assert_eq!(fitting("core::fmt::write", 6), "…write");
        assert_eq!(fitting("write", 5), "write");
    }
}
