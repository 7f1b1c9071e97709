//! The words at the end of each tool's name, which say what it does.

use std::collections::{HashMap, HashSet};

use super::idf;
use crate::text::{last_segment, stems};

/// For every stem of some tool's last name segment: where it is in that segment, and which tools
/// have it anywhere.
#[derive(Debug, Default)]
pub(super) struct Segments {
    places: HashMap<String, usize>,
    /// Rows whose last name segment has the stem.
    in_segment: Vec<Vec<u32>>,
    /// Rows that have the stem anywhere.
    anywhere: Vec<Vec<u32>>,
    /// Terms of each row until all are known.
    pending: Vec<HashSet<String>>,
    /// Weight of each row's segment when all rows are eligible.
    totals: Vec<f32>,
}

impl Segments {
    /// Adds the next row.
    pub(super) fn add<'a>(&mut self, name: &str, terms: impl Iterator<Item = &'a str>) {
        let row = self.pending.len() as u32;
        self.pending.push(terms.map(str::to_owned).collect());
        for stem in stems(last_segment(name)) {
            let place = *self.places.entry(stem).or_insert(self.in_segment.len());
            if place == self.in_segment.len() {
                self.in_segment.push(Vec::new());
            }
            if self.in_segment[place].last() != Some(&row) {
                self.in_segment[place].push(row);
            }
        }
    }

    /// Ends the building; `rows` were added.
    pub(super) fn finish(&mut self, rows: usize) {
        self.anywhere = vec![Vec::new(); self.in_segment.len()];
        for (row, terms) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            for term in terms {
                if let Some(&place) = self.places.get(&term) {
                    self.anywhere[place].push(row as u32);
                }
            }
        }
        self.totals = self.weigh(rows, |_| true);
    }

    /// Rows whose last name segment has `term`.
    pub(super) fn rows(&self, term: &str) -> &[u32] {
        self.places.get(term).map_or(&[], |&place| &self.in_segment[place])
    }

    /// Weight (by rarity among eligible rows) of each row's segment.
    ///
    /// Complexity: known when all rows are eligible, else O(postings of all segment stems).
    pub(super) fn totals(&self, eligible: Option<&[bool]>) -> Vec<f32> {
        match eligible {
            None => self.totals.clone(),
            Some(mask) => self.weigh(mask.len(), |row| mask[row]),
        }
    }

    fn weigh(&self, rows: usize, is_eligible: impl Fn(usize) -> bool) -> Vec<f32> {
        let count = (0..rows).filter(|&row| is_eligible(row)).count() as u64;
        let mut totals = vec![0.0; rows];
        for (segment, anywhere) in self.in_segment.iter().zip(&self.anywhere) {
            let frequency = anywhere.iter().filter(|&&row| is_eligible(row as usize)).count();
            let weight = idf(frequency as u64, count.max(1));
            for &row in segment {
                totals[row as usize] += weight;
            }
        }
        totals
    }
}
