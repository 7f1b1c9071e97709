//! The dense arm: one matrix of unit rows.

use ndarray::{Array2, ArrayView1, Axis};

use crate::embed::UnitVector;

/// An N x D matrix with one unit row a tool, some of which may be missing.
#[derive(Debug, Clone)]
pub(crate) struct DenseIndex {
    /// N x D; a missing row is all zeros.
    matrix: Array2<f32>,
    present: Vec<bool>,
}

impl DenseIndex {
    /// An index of `rows`, each a unit vector of `dimensions` numbers or missing.
    pub(crate) fn new<'a>(
        rows: impl ExactSizeIterator<Item = Option<&'a [f32]>>,
        dimensions: usize,
    ) -> Self {
        let mut matrix = Array2::zeros((rows.len(), dimensions));
        let mut present = Vec::with_capacity(rows.len());
        for (mut target, row) in matrix.axis_iter_mut(Axis(0)).zip(rows) {
            present.push(row.is_some());
            if let Some(row) = row {
                target.assign(&ArrayView1::from(row));
            }
        }
        Self { matrix, present }
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

    /// The row's vector, or `None` when it is missing.
    pub(crate) fn row(&self, row: usize) -> Option<&[f32]> {
        if !self.present[row] {
            return None;
        }
        self.matrix.row(row).to_slice()
    }

    /// Whether no row is missing.
    pub(crate) fn is_complete(&self) -> bool {
        self.present.iter().all(|&present| present)
    }

    /// Rows that are there.
    pub(crate) fn n_present(&self) -> usize {
        self.present.iter().filter(|&&present| present).count()
    }
}
