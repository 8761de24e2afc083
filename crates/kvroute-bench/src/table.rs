//! Plain tables: every column as wide as its widest cell, numbers to the right.

use std::fmt;

/// Rows of text below a header.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
    /// Columns from the left that hold words.
    words: usize,
}

// === impl Table ===

impl Table {
    /// The first `words` columns are aligned to the left.
    pub(crate) fn new<'a>(words: usize, header: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![header.into_iter().map(str::to_owned).collect()], words }
    }

    pub(crate) fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let widths: Vec<usize> = (0..self.rows[0].len()).map(|column| self.width(column)).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                line += &match column < self.words {
                    true => format!("{cell:<width$}  "),
                    false => format!("{cell:>width$}  "),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A number with three digits that mean something; a dash for none.
pub(crate) fn three_digits(value: f64) -> String {
    match value {
        _ if value.is_nan() => "-".to_owned(),
        100.0.. => format!("{value:.0}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(1, ["what", "figure"]);
        table.push(vec!["a".into(), "1".into()]);
        table.push(vec!["longer".into(), "1234567".into()]);
        assert_eq!(table.to_string(), "what     figure\na             1\nlonger  1234567\n");
    }

    #[test]
    fn small_numbers_keep_their_digits() {
        assert_eq!([0.254, 25.43, 254.3, f64::NAN].map(three_digits), ["0.25", "25.4", "254", "-"]);
    }
}
