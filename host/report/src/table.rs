//! Columns for a terminal.

use std::fmt::Write as _;

/// Alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Texts.
    Left,
    /// Numbers.
    Right,
}

/// Rows under headings, two spaces between columns, no space at the end of a line. Each row has as
/// many cells as there are columns.
pub fn table(columns: &[(&str, Align)], rows: &[Vec<String>]) -> String {
    let widths: Vec<usize> = columns
        .iter()
        .enumerate()
        .map(|(at, (title, _))| {
            let cells = rows
                .iter()
                .filter_map(|row| row.get(at))
                .map(|cell| cell.chars().count());
            cells.max().unwrap_or(0).max(title.chars().count())
        })
        .collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = &str>| {
        let mut line = String::new();
        for ((cell, width), (_, align)) in cells.zip(&widths).zip(columns) {
            _ = match align {
                Align::Left => write!(line, "{cell:<width$}  "),
                Align::Right => write!(line, "{cell:>width$}  "),
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line(&mut columns.iter().map(|(title, _)| *title));
    for row in rows {
        line(&mut row.iter().map(String::as_str));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [
            ["2".into(), "m7g.large".into()].to_vec(),
            ["10".into(), "c7g".into()].to_vec(),
        ];
        assert_eq!(
            table(&[("N", Align::Right), ("TYPE", Align::Left)], &rows),
            " N  TYPE\n 2  m7g.large\n10  c7g\n"
        );
    }
}
