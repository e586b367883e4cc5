//! Tables for a terminal, readable without colour.

use comfy_table::{ContentArrangement, LineStyle, Table as Grid, TableStyle};

use super::table::{Cell, Table};

/// Columns of a terminal that a table may take.
const WIDTH: u16 = 140;

const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─'));

/// Room after every column, and room before one that opens a moment: the first that fits is taken.
const ROOM: [(u16, u16); 5] = [(3, 3), (2, 3), (1, 3), (1, 2), (1, 1)];

impl Table {
    /// The table as text. Values that agree show once; one that differs shows as
    /// `measured ≠ simulated`.
    pub fn render(&self) -> String {
        let heading = format!("{}: {}\n{}", self.name, self.title, self.about);
        format!("{heading}\n\n{}\n{}\n", self.grid().trim_fmt(), self.verdict())
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new();
        grid.load_style(STYLE)
            .force_no_tty()
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(WIDTH)
            .set_header(self.header());
        let mut above: &[String] = &[];
        for row in &self.rows {
            let key = once(&row.key, above);
            grid.add_row(key.chain(row.cells.iter().map(shown)));
            above = &row.key;
        }
        let opens: Vec<bool> = (0..self.keys.len() + self.columns.len())
            .map(|index| index.checked_sub(self.keys.len()).is_some_and(|c| self.opens_moment(c)))
            .collect();
        let content: u16 = grid.column_max_content_widths().iter().sum();
        let columns = opens.len() as u16;
        let moments = opens.iter().filter(|&&opens| opens).count() as u16;
        let fits =
            |(after, before): &(u16, u16)| content + after * columns + before * moments <= WIDTH;
        let (after, before) = ROOM.into_iter().find(fits).unwrap_or((1, 1));
        for (column, opens) in grid.column_iter_mut().zip(opens) {
            column.set_padding((if opens { before } else { 0 }, after));
        }
        grid
    }

    /// A moment stands over the first of its columns only.
    fn header(&self) -> Vec<String> {
        let is_split = self.columns.iter().any(|column| moment(column).is_some());
        let lines = |moment: &str, what: &str| match is_split {
            true => format!("{moment}\n{what}"),
            false => what.to_owned(),
        };
        let keys = self.keys.iter().map(|key| lines("", key));
        let columns = self.columns.iter().enumerate().map(|(index, column)| {
            let (moment, what) = column.split_once(": ").unwrap_or(("", column));
            lines(if self.opens_moment(index) { moment } else { "" }, what)
        });
        keys.chain(columns).collect()
    }

    /// Whether another moment begins with this column.
    fn opens_moment(&self, column: usize) -> bool {
        let of = |column: usize| moment(&self.columns[column]);
        of(column).is_some() && (column == 0 || of(column) != of(column - 1))
    }

    fn verdict(&self) -> String {
        let (differing, cells) = (self.differing(), self.cells().count());
        match differing {
            0 => format!("all {cells} cells agree with the real stack"),
            _ => format!("{differing} of {cells} cells differ (measured ≠ simulated)"),
        }
    }
}

fn moment(column: &str) -> Option<&str> {
    column.split_once(": ").map(|(moment, _)| moment)
}

/// A key without the leading parts that the row above has, too.
fn once<'a>(key: &'a [String], above: &[String]) -> impl Iterator<Item = String> + use<'a> {
    let same = key.iter().zip(above).take_while(|(mine, theirs)| mine == theirs).count();
    key.iter().enumerate().map(move |(i, part)| if i < same { String::new() } else { part.clone() })
}

fn shown(cell: &Cell) -> String {
    match cell.agrees() {
        true => cell.measured.clone(),
        false => format!("{} ≠ {}", cell.measured, cell.simulated),
    }
}
