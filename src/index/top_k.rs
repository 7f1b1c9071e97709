//! The k best of many.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::score::Score;

/// The `k` rows of the greatest scores, best first; equal scores in row order.
///
/// Complexity: O(N log k) time, O(min(k, N)) space.
pub(crate) fn top_k(scored: impl Iterator<Item = (usize, Score)>, k: usize) -> Vec<(usize, Score)> {
    if k == 0 {
        return Vec::new();
    }
    // The root is the worst of the best: the lowest score, of equal ones the last row.
    let mut heap: BinaryHeap<(Reverse<Score>, usize)> = BinaryHeap::new();
    for (row, score) in scored {
        if heap.len() < k {
            heap.push((Reverse(score), row));
        } else if let Some(mut worst) = heap.peek_mut()
            && (Reverse(score), row) < *worst
        {
            *worst = (Reverse(score), row);
        }
    }
    heap.into_sorted_vec().into_iter().map(|(Reverse(score), row)| (row, score)).collect()
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
