//! The k best of many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::score::Score;

/// The `k` rows of the greatest scores, best first; equal scores in row order.
///
/// Complexity: O(N log k) time, O(min(k, N)) space.
pub(crate) fn top_k(scored: impl Iterator<Item = (usize, Score)>, k: usize) -> Vec<(usize, Score)> {
    let mut best = Best::new(k);
    scored.for_each(|(row, score)| best.push(row, score));
    best.into_sorted()
}

/// The `k` best so far.
pub(crate) struct Best {
    k: usize,
    /// The root is the worst of the best: the lowest score, of equal ones the last row.
    heap: BinaryHeap<(Reverse<Score>, usize)>,
}

impl Best {
    pub(crate) fn new(k: usize) -> Self {
        Self { k, heap: BinaryHeap::new() }
    }

    pub(crate) fn push(&mut self, row: usize, score: Score) {
        if self.heap.len() < self.k {
            self.heap.push((Reverse(score), row));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && (Reverse(score), row) < *worst
        {
            *worst = (Reverse(score), row);
        }
    }

    /// Best first; equal scores in row order.
    pub(crate) fn into_sorted(self) -> Vec<(usize, Score)> {
        let sorted = self.heap.into_sorted_vec();
        sorted.into_iter().map(|(Reverse(score), row)| (row, score)).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_full_sort_cut_to_k(
            values in prop::collection::vec(-3_i8..3, 0..200), k in 0_usize..250,
        ) {
            let rows: Vec<(usize, Score)> = values
                .iter()
                .map(|&value| Score::new(f32::from(value)).unwrap())
                .enumerate()
                .collect();
            let mut sorted = rows.clone();
            sorted.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
            sorted.truncate(k);
            prop_assert_eq!(top_k(rows.into_iter(), k), sorted);
        }
    }

    #[test]
    fn a_huge_k_allocates_nothing() {
        assert_eq!(top_k([(0, Score::ZERO)].into_iter(), usize::MAX), [(0, Score::ZERO)]);
    }
}
