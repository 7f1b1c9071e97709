//! Intervals by resampling.

use serde::{Deserialize, Serialize};

/// A mean and the interval in which 95 % of resampled means lie.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Estimate {
    /// Whether the interval of a difference leaves out zero.
    pub fn is_significant(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }
}

/// Resamples queries with replacement: percentile bootstrap (Efron, Tibshirani 1993, ch. 13).
///
/// The same seed gives the same intervals on every machine. All systems of a dataset are resampled
/// alike, so that differences are paired by query.
///
/// # Example
/// ```
/// use toolrack::eval::Bootstrap;
///
/// let estimate = Bootstrap::default().mean(&[0.0, 1.0, 1.0, 1.0]);
/// assert_eq!(estimate.mean, 0.75);
/// assert!(estimate.low < 0.75 && estimate.high == 1.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Bootstrap {
    /// How many times to resample. Default 1,000.
    pub samples: usize,
    /// Seed of the draws. Default 17.
    pub seed: u64,
}

impl Default for Bootstrap {
    fn default() -> Self {
        Self { samples: 1_000, seed: 17 }
    }
}

impl Bootstrap {
    /// Sets how many times to resample.
    #[must_use]
    pub fn samples(mut self, samples: usize) -> Self {
        self.samples = samples;
        self
    }

    /// Sets the seed of the draws.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The mean of `values` with its interval; zero without values.
    pub fn mean(&self, values: &[f64]) -> Estimate {
        self.estimate(&self.resample(&[values])[0], mean(values))
    }

    /// The mean of `a - b`, pair by pair, with its interval.
    pub fn difference(&self, a: &[f64], b: &[f64]) -> Estimate {
        let pairs: Vec<f64> = a.iter().zip(b).map(|(a, b)| a - b).collect();
        self.mean(&pairs)
    }

    /// Resampled means of several columns of equal length, drawn alike.
    pub(crate) fn resample(&self, columns: &[&[f64]]) -> Vec<Vec<f64>> {
        let n = columns.first().map_or(0, |column| column.len());
        let mut means = vec![Vec::with_capacity(self.samples); columns.len()];
        let mut draws = SplitMix(self.seed);
        let mut counts = vec![0_u32; n];
        for _ in 0..self.samples {
            if n == 0 {
                means.iter_mut().for_each(|column| column.push(0.0));
                continue;
            }
            counts.fill(0);
            for _ in 0..n {
                counts[draws.below(n)] += 1;
            }
            for (column, means) in columns.iter().zip(&mut means) {
                let sum: f64 = column
                    .iter()
                    .zip(&counts)
                    .map(|(value, &count)| value * f64::from(count))
                    .sum();
                means.push(sum / n as f64);
            }
        }
        means
    }

    /// The estimate of resampled means around `mean`.
    pub(crate) fn estimate(&self, resampled: &[f64], mean: f64) -> Estimate {
        let mut sorted = resampled.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let place = (share * sorted.len() as f64).floor() as usize;
            sorted.get(place.min(sorted.len().saturating_sub(1))).copied().unwrap_or(mean)
        };
        Estimate { mean, low: at(0.025), high: at(0.975) }
    }
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): few lines, and the same on every machine.
pub(crate) struct SplitMix(pub u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A draw below `n`, which is above 0 (Lemire's multiplication; its bias is below n / 2^64).
    pub(crate) fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_those_of_the_published_generator() {
        let mut draws = SplitMix(1_234_567);
        assert_eq!(draws.next(), 6_457_827_717_110_365_317);
        assert_eq!(draws.next(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn the_interval_is_that_of_the_normal_approximation() {
        let values: Vec<f64> = (0..400).map(|n| f64::from(n % 4 == 0)).collect();
        let estimate = Bootstrap::default().mean(&values);
        let half = 1.96 * (0.25 * 0.75 / 400.0_f64).sqrt();
        assert!((estimate.low - (0.25 - half)).abs() < 0.006, "{estimate:?}");
        assert!((estimate.high - (0.25 + half)).abs() < 0.006, "{estimate:?}");
    }

    #[test]
    fn differences_are_paired() {
        let a: Vec<f64> = (0..100).map(|n| f64::from(n % 2)).collect();
        let b: Vec<f64> = a.iter().map(|value| value - 0.1).collect();
        let difference = Bootstrap::default().difference(&a, &b);
        assert!(difference.is_significant() && (difference.high - difference.low) < 1e-9);
    }

    #[test]
    fn nothing_gives_nothing() {
        assert_eq!(Bootstrap::default().mean(&[]), Estimate::default());
    }
}
