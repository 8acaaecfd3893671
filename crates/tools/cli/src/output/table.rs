//! Text tables.

use std::io::{self, Write};

/// Rows of text in columns. As in crictl, every column but the last is at least 20 wide and has three spaces after its
/// longest cell: scripts cut by position.
pub struct Table {
    narrowest: usize,
    rows: Vec<Vec<String>>,
}

const GAP: usize = 3;

impl Table {
    /// Creates a table with a heading.
    pub fn new<T: Into<String>>(heading: impl IntoIterator<Item = T>) -> Self {
        let mut table = Self::bare(20);
        table.row(heading);
        table
    }

    /// Creates a table without a heading.
    pub fn bare(narrowest: usize) -> Self {
        Self {
            narrowest,
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// Prints the table.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let longest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
            (longest + GAP).max(self.narrowest)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            if let Some((last, others)) = row.split_last() {
                for (cell, width) in others.iter().zip(&widths) {
                    write!(out, "{cell:<width$}")?;
                }
                writeln!(out, "{last}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_at_least_twenty_wide_and_the_last_is_not_padded() {
        let mut table = Table::new(["IMAGE", "TAG"]);
        table.row(["registry.test/some/long/name", "1"]);
        table.row(["a", "2"]);
        let mut out = Vec::new();
        table.print(&mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "IMAGE                          TAG\n\
             registry.test/some/long/name   1\n\
             a                              2\n"
        );
    }
}
