//! The dense arm: one matrix of unit rows.

use ndarray::{Array2, ArrayView1, Axis};

use crate::embed::{Row, UnitVector};

/// An N x D matrix with one unit row a tool, some of which may be missing.
#[derive(Debug, Clone)]
pub(crate) struct DenseIndex {
    /// N x D; a row without a vector is all zeros.
    matrix: Array2<f32>,
    rows: Vec<Row>,
}

impl DenseIndex {
    /// An index without vectors, to be filled by [`set`](Self::set).
    pub(crate) fn new(rows: usize, dimensions: usize) -> Self {
        Self { matrix: Array2::zeros((rows, dimensions)), rows: vec![Row::Missing; rows] }
    }

    /// Gives `row` its unit vector.
    pub(crate) fn set(&mut self, row: usize, vector: ArrayView1<'_, f32>) {
        self.matrix.row_mut(row).assign(&vector);
        self.rows[row] = Row::Present;
    }

    /// Notes that the model has no vector for `row`.
    pub(crate) fn set_void(&mut self, row: usize) {
        self.rows[row] = Row::Void;
    }

    /// The cosine of every row with `query`, in [-1, 1] but for rounding; 0 for missing rows.
    ///
    /// Complexity: one matrix-vector product, O(N D).
    pub(crate) fn cosines(&self, query: &UnitVector) -> Vec<f32> {
        self.matrix.dot(&ArrayView1::from(query.as_slice())).to_vec()
    }

    /// [`cosines`](Self::cosines) of several queries, one list each, by one matrix-matrix product.
    pub(crate) fn cosines_of(&self, queries: &[UnitVector]) -> Vec<Vec<f32>> {
        if let [single] = queries {
            return vec![self.cosines(single)];
        }
        let mut columns = Array2::zeros((self.matrix.ncols(), queries.len()));
        for (mut column, query) in columns.axis_iter_mut(Axis(1)).zip(queries) {
            column.assign(&ArrayView1::from(query.as_slice()));
        }
        let products = self.matrix.dot(&columns);
        products.axis_iter(Axis(1)).map(|column| column.to_vec()).collect()
    }

    /// The row's vector, or `None` when there is none.
    pub(crate) fn row(&self, row: usize) -> Option<&[f32]> {
        if !self.has(row) {
            return None;
        }
        self.matrix.row(row).to_slice()
    }

    /// Whether the row has a vector.
    pub(crate) fn has(&self, row: usize) -> bool {
        self.rows[row] == Row::Present
    }

    /// Whether no row waits for a model that failed.
    pub(crate) fn is_complete(&self) -> bool {
        !self.rows.contains(&Row::Missing)
    }

    /// Whether no row has a vector, although there are rows.
    pub(crate) fn is_blank(&self) -> bool {
        !self.rows.is_empty() && !self.rows.contains(&Row::Present)
    }
}
