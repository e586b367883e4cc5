use serde::Serialize;

/// A table of measured values and their simulated counterparts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Table {
    /// By which it is asked for.
    pub name: String,
    pub title: String,
    /// What was done to get it, and what its columns mean.
    pub about: String,
    /// Names of the parts of a row's key.
    pub keys: Vec<String>,
    /// Names of the cells. In `moment: what`, columns of one moment stand together.
    pub columns: Vec<String>,
    pub rows: Vec<Row>,
}

/// One case of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub key: Vec<String>,
    pub cells: Vec<Cell>,
}

/// One value, as the real stack gave it and as the simulator gives it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    pub measured: String,
    pub simulated: String,
}

impl Table {
    /// How many cells differ.
    pub fn differing(&self) -> usize {
        self.cells().filter(|cell| !cell.agrees()).count()
    }

    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.rows.iter().flat_map(|row| &row.cells)
    }
}

impl Row {
    /// Pairs what was measured with what was simulated.
    ///
    /// # Panics
    /// If they are not equally many: then the data and the columns do not belong together.
    pub(super) fn new(key: Vec<String>, measured: Vec<String>, simulated: Vec<String>) -> Row {
        assert_eq!(measured.len(), simulated.len(), "the cells of row {key:?}");
        let pairs = measured.into_iter().zip(simulated);
        let cells = pairs.map(|(measured, simulated)| Cell { measured, simulated });
        Row { key, cells: cells.collect() }
    }

    pub fn differing(&self) -> usize {
        self.cells.iter().filter(|cell| !cell.agrees()).count()
    }
}

impl Cell {
    pub fn agrees(&self) -> bool {
        self.measured == self.simulated
    }
}
