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
    /// How many rows have the stem anywhere.
    frequencies: Vec<u32>,
    /// Places of the stems that each row has anywhere.
    stems_of: Vec<Vec<u32>>,
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
        // In an order that the other rows have no part in: a sum of weights is rounded in its order,
        // and by a rounding a hidden tool could be told from a missing one.
        let mut stems: Vec<(String, usize)> = self.places.drain().collect();
        stems.sort_unstable();
        let in_order = stems.iter().map(|&(_, place)| std::mem::take(&mut self.in_segment[place]));
        self.in_segment = in_order.collect();
        let places = stems.into_iter().enumerate();
        self.places = places.map(|(place, (stem, _))| (stem, place)).collect();
        self.frequencies = vec![0; self.in_segment.len()];
        for terms in std::mem::take(&mut self.pending) {
            let stems = terms.iter().filter_map(|term| self.places.get(term));
            let stems: Vec<u32> = stems.map(|&place| place as u32).collect();
            stems.iter().for_each(|&place| self.frequencies[place as usize] += 1);
            self.stems_of.push(stems);
        }
        self.totals = self.weigh(rows, rows, &self.frequencies);
    }

    /// Rows whose last name segment has `term`.
    pub(super) fn rows(&self, term: &str) -> &[u32] {
        self.places.get(term).map_or(&[], |&place| &self.in_segment[place])
    }

    /// Weight (by rarity among eligible rows) of each row's segment.
    ///
    /// Complexity: known when all rows are eligible, else O(stems of the eligible rows, or of the
    /// others if these are fewer).
    pub(super) fn totals(&self, eligible: Option<&[bool]>) -> Vec<f32> {
        let Some(mask) = eligible else { return self.totals.clone() };
        let count = mask.iter().filter(|&&eligible| eligible).count();
        let others_are_fewer = 2 * count > mask.len();
        let mut frequencies =
            if others_are_fewer { self.frequencies.clone() } else { vec![0; self.places.len()] };
        for (stems, _) in self.stems_of.iter().zip(mask).filter(|(_, is)| **is != others_are_fewer)
        {
            for &place in stems {
                let frequency = &mut frequencies[place as usize];
                *frequency = if others_are_fewer { *frequency - 1 } else { *frequency + 1 };
            }
        }
        self.weigh(mask.len(), count, &frequencies)
    }

    /// Weight of each row's segment, `count` rows being eligible.
    fn weigh(&self, rows: usize, count: usize, frequencies: &[u32]) -> Vec<f32> {
        let mut totals = vec![0.0; rows];
        for (segment, &frequency) in self.in_segment.iter().zip(frequencies) {
            let weight = idf(frequency.into(), count.max(1) as u64);
            for &row in segment {
                totals[row as usize] += weight;
            }
        }
        totals
    }
}
