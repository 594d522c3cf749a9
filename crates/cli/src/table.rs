//! A table that fits a terminal: no row is ever wider, nothing wraps. What can be cut is cut in the middle; what doesn't fit even then is
//! left out, the least important column first.

use crate::{paint, width};

/// Between two columns.
const GAP: usize = 2;

/// One column.
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Cells may be cut to this; `None`: not at all.
    pub(crate) cut_to: Option<usize>,
    /// Columns with a higher number are left out before it. The first column never is.
    pub(crate) rank: u8,
}

/// How a cell is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Style {
    Plain,
    Name,
    Tag,
}

/// One cell: text without styles, and the style to show it in.
#[derive(Debug)]
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    pub(crate) fn new(style: Style, text: impl Into<String>) -> Self {
        Self { text: text.into(), style }
    }

    pub(crate) fn plain(text: impl Into<String>) -> Self {
        Self::new(Style::Plain, text)
    }

    /// Cut and padded to `columns`, in its style.
    fn shown(&self, columns: usize) -> String {
        let text = width::cut_middle(&self.text, columns);
        let blanks = " ".repeat(columns.saturating_sub(width::of(&text)));
        let text = match self.style {
            Style::Plain => text,
            Style::Name => paint::name(&text),
            Style::Tag => text.split(' ').map(paint::tag).collect::<Vec<_>>().join(" "),
        };
        text + &blanks
    }
}

/// One row: a cell per column, or the first cells and a sentence instead of the rest.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    pub(crate) sentence: Option<String>,
}

/// The title line and a line per row, none wider than `columns`.
pub(crate) fn lines(table: &[Column], rows: &[Row], columns: usize) -> Vec<String> {
    let natural = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.cells.get(at)).map(|cell| width::of(&cell.text));
        // A column without a single cell needs no title.
        cells.max().filter(|widest| *widest > 0).map_or(0, |widest| widest.max(table[at].title.len()).min(columns))
    };
    let widths = fit(table, (0..table.len()).map(natural).collect(), columns);
    let titles = Row { cells: table.iter().map(|column| Cell::plain(column.title)).collect(), sentence: None };
    std::iter::once(&titles).chain(rows).map(|row| line(row, &widths, columns)).collect()
}

/// How wide each column is; what is left out has no width.
fn fit(table: &[Column], mut widths: Vec<usize>, columns: usize) -> Vec<usize> {
    let total = |widths: &[usize]| {
        let shown = widths.iter().filter(|width| **width > 0);
        shown.map(|width| width + GAP).sum::<usize>().saturating_sub(GAP)
    };
    let least = |at: usize, width: usize| table[at].cut_to.map_or(width, |least| least.min(width));
    loop {
        let cut: Vec<usize> = widths.iter().enumerate().map(|(at, width)| least(at, *width)).collect();
        if total(&cut) <= columns {
            break;
        }
        let droppable = (1..widths.len()).filter(|at| widths[*at] > 0);
        match droppable.max_by_key(|at| table[*at].rank) {
            Some(at) => widths[at] = 0,
            None => return vec![columns],
        }
    }
    // The widest one gives first, so that none is cut more than needed.
    while total(&widths) > columns {
        let cuttable = (0..widths.len()).filter(|at| widths[*at] > least(*at, widths[*at]));
        match cuttable.max_by_key(|at| widths[*at]) {
            Some(at) => widths[at] -= 1,
            None => break,
        }
    }
    widths
}

fn line(row: &Row, widths: &[usize], columns: usize) -> String {
    let mut line = String::new();
    let mut taken = 0;
    for (cell, width) in row.cells.iter().zip(widths).filter(|(_, width)| **width > 0) {
        if taken > 0 {
            line.push_str("  ");
            taken += GAP;
        }
        line.push_str(&cell.shown(*width));
        taken += width;
    }
    if let Some(sentence) = &row.sentence
        && taken + GAP < columns
    {
        line.push_str("  ");
        line.push_str(&width::cut(sentence, columns - taken - GAP));
    }
    line.truncate(line.trim_end().len());
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Cell, Column, Row, Style, lines};
    use crate::{paint, width};

    const TABLE: [Column; 4] = [
        Column { title: "NAME", cut_to: Some(8), rank: 0 },
        Column { title: "STATE", cut_to: None, rank: 1 },
        Column { title: "HOLDER", cut_to: Some(8), rank: 2 },
        Column { title: "SINCE", cut_to: None, rank: 3 },
    ];

    fn row(cells: [&str; 4]) -> Row {
        let [name, state, holder, since] = cells;
        let cells =
            vec![Cell::new(Style::Name, name), Cell::new(Style::Tag, state), Cell::plain(holder), Cell::plain(since)];
        Row { cells, sentence: None }
    }

    #[test]
    fn columns_stand_below_their_titles() {
        let rows = [row(["x", "HELD", "日本@host", "3m ago"]), row(["build", "EXPIRED", "b@h", "1s ago"])];
        let shown: Vec<String> = lines(&TABLE, &rows, 80).iter().map(|line| paint::plain(line).into_owned()).collect();
        assert_eq!(
            shown,
            [
                "NAME   STATE    HOLDER     SINCE",
                "x      HELD     日本@host  3m ago",
                "build  EXPIRED  b@h        1s ago"
            ]
        );
    }

    #[test]
    fn what_does_not_fit_is_cut_and_then_left_out() {
        let rows = [row(["a-rather-long-name-of-a-lock", "HELD", "a-rather-long-owner@host", "3m ago"])];
        let shown = |columns| paint::plain(&lines(&TABLE, &rows, columns)[1]).into_owned();
        assert_eq!(shown(60), "a-rather-lo…-of-a-lock  HELD   a-rather-l…owner@host  3m ago");
        assert_eq!(shown(33), "a-ra…ock  HELD   a-ra…ost  3m ago");
        assert_eq!(shown(32), "a-rath…-lock  HELD   a-rat…@host");
        assert_eq!(shown(6), "a-r…ck");
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(
            cells in prop::collection::vec(("\\PC{1,40}", "[A-Z]{0,9}", "\\PC{0,40}", "\\PC{0,9}"), 0..5),
            sentence in "\\PC{0,200}",
            columns in 1_usize..120,
        ) {
            let mut rows: Vec<Row> = cells.iter().map(|(a, b, c, d)| row([a, b, c, d])).collect();
            rows.push(Row { cells: vec![Cell::plain("name")], sentence: Some(sentence) });
            for line in lines(&TABLE, &rows, columns) {
                prop_assert!(width::of(&paint::plain(&line)) <= columns, "{columns}: {line:?}");
            }
        }
    }
}
