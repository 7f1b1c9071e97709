//! A score that can always be compared.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Serialize};

/// A finite `f32` with a total order.
///
/// Non-finite values cannot be built, so a NaN can neither win a ranking nor slip past a
/// threshold. Equal scores are never ordered by chance: every ranking of this crate breaks ties
/// by catalog order, the earlier tool first.
///
/// # Example
/// ```
/// use toolrack::Score;
///
/// assert!(Score::new(0.5) > Score::new(-1.0));
/// assert_eq!(Score::new(f32::NAN), None);
/// ```
#[derive(Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(try_from = "f32", into = "f32")]
pub struct Score(f32);

impl Score {
    /// The score that never counts as a match.
    pub const ZERO: Self = Self(0.0);

    /// `value` as a score, or `None` when it is NaN or infinite. Negative zero becomes zero.
    pub fn new(value: f32) -> Option<Self> {
        value.is_finite().then_some(Self(value + 0.0))
    }

    /// `value` as a score, with a non-finite value counted as no match (zero).
    pub(crate) fn or_zero(value: f32) -> Self {
        Self::new(value).unwrap_or(Self::ZERO)
    }

    /// The plain number.
    pub fn get(self) -> f32 {
        self.0
    }
}

impl Eq for Score {}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl TryFrom<f32> for Score {
    type Error = &'static str;

    fn try_from(value: f32) -> Result<Self, Self::Error> {
        Self::new(value).ok_or("a score has to be a finite number")
    }
}

impl From<Score> for f32 {
    fn from(score: Score) -> f32 {
        score.0
    }
}

impl fmt::Debug for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Score {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_values_are_no_scores() {
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(Score::new(value), None);
            assert_eq!(Score::or_zero(value), Score::ZERO);
        }
        assert!(serde_json::from_str::<Score>("1e39").is_err());
    }

    #[test]
    fn order_is_total_and_agrees_with_equality() {
        assert_eq!(Score::new(-0.0), Score::new(0.0));
        assert_eq!(Score::new(-0.0).cmp(&Score::new(0.0)), Ordering::Equal);
        assert!(Score::new(f32::MIN_POSITIVE) > Some(Score::ZERO));
    }
}
