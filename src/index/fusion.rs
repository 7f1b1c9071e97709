//! Two lists of scores into one.

use serde::{Deserialize, Serialize};

use super::top_k::top_k;
use crate::embed::EmbedderProfile;
use crate::error::{Result, invalid_setting};
use crate::score::Score;

/// How the scores of both arms become one.
///
/// # Example
/// ```
/// use toolrack::{Catalog, Engine, Fusion};
///
/// let catalog = Catalog::parse(r#"[{"name": "send_mail"}, {"name": "read_file"}]"#)?;
/// let engine = Engine::builder(catalog).fusion(Fusion::LexicalOnly).build()?;
/// assert_eq!(engine.rank("mail", 5)?.len(), 1);
/// # Ok::<(), toolrack::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fusion {
    /// s + w · g · l, the lexical arm counting as far as the dense arm likes what it found. The
    /// default.
    ///
    /// s is the cosine above the model's floor divided by the request's greatest, l the lexical score
    /// in [0, 1], and the agreement g in [0, 1] is the mean of s over all tools, weighted by l². A
    /// clear winner of either arm stays one, which ranks alone would flatten; and words that lead the
    /// lexical arm astray weigh little. On nine development sets it is at least the better of its
    /// arms less .01, each by itself, and on their mean .05 above it (ARCHITECTURE.md, "index").
    Agreement {
        /// w, at least 0; `None` for the embedder's ([`EmbedderProfile`](crate::EmbedderProfile)).
        lexical_weight: Option<f32>,
    },
    /// cosine + w · l.
    Weighted {
        /// w, at least 0.
        lexical_weight: f32,
    },
    /// Reciprocal rank fusion: Σ 1 / (k + rank) over the arms in which the tool scores above 0
    /// (Cormack, Clarke, Büttcher, SIGIR 2009).
    Rrf {
        /// k, above 0; 60 in the paper.
        k: f32,
    },
    /// The cosine alone.
    DenseOnly,
    /// The lexical score alone.
    LexicalOnly,
}

impl Default for Fusion {
    fn default() -> Self {
        Self::Agreement { lexical_weight: None }
    }
}

/// The smallest cosine that the request's greatest is divided by: among tools that are all far, the
/// nearest is not near.
const LEAST_GREATEST: f32 = 0.05;

impl Fusion {
    pub(crate) fn validate(&self) -> Result<()> {
        match *self {
            Self::Weighted { lexical_weight: weight }
            | Self::Agreement { lexical_weight: Some(weight) }
                if !(weight.is_finite() && weight >= 0.0) =>
            {
                Err(invalid_setting(format!(
                    "the lexical weight is {weight}: give a number of at least 0"
                )))
            }
            Self::Rrf { k } if !(k.is_finite() && k > 0.0) => {
                Err(invalid_setting(format!("the rank constant k is {k}: give a number above 0")))
            }
            _ => Ok(()),
        }
    }

    /// The fused score of every row. `cosines` is `None` when the dense arm has no say; `lexical` is
    /// in [0, 1].
    pub(crate) fn fuse(
        self,
        cosines: Option<&[f32]>,
        lexical: &[f32],
        eligible: &dyn Fn(usize) -> bool,
        profile: &EmbedderProfile,
    ) -> Vec<Score> {
        let alone = |scores: &[f32]| scores.iter().copied().map(Score::or_zero).collect();
        let Some(cosines) = cosines else { return alone(lexical) };
        match self {
            Self::Agreement { lexical_weight } => {
                let weight = lexical_weight.unwrap_or(profile.lexical_weight);
                agreement(cosines, lexical, eligible, weight, profile.cosine_floor)
            }
            Self::Weighted { lexical_weight } => cosines
                .iter()
                .zip(lexical)
                .map(|(cosine, lexical)| Score::or_zero(cosine + lexical_weight * lexical))
                .collect(),
            Self::DenseOnly => alone(cosines),
            Self::LexicalOnly => alone(lexical),
            Self::Rrf { k } => rank_fusion([cosines, lexical], k, eligible),
        }
    }
}

fn agreement(
    cosines: &[f32],
    lexical: &[f32],
    eligible: &dyn Fn(usize) -> bool,
    weight: f32,
    floor: f32,
) -> Vec<Score> {
    let rows = 0..cosines.len();
    let greatest =
        rows.filter(|&row| eligible(row)).map(|row| cosines[row] - floor).fold(0.0, f32::max);
    let scale = 1.0 / greatest.max(LEAST_GREATEST);
    let (mut agreed, mut total) = (0.0_f32, 0.0_f32);
    for (&cosine, &lexical) in cosines.iter().zip(lexical) {
        let square = lexical * lexical;
        agreed += square * ((cosine - floor) * scale).clamp(0.0, 1.0);
        total += square;
    }
    let weight = if total > 0.0 { weight * agreed / total } else { 0.0 };
    let fused = |(&cosine, &lexical): (&f32, &f32)| (cosine - floor) * scale + weight * lexical;
    cosines.iter().zip(lexical).map(fused).map(Score::or_zero).collect()
}

fn rank_fusion(arms: [&[f32]; 2], k: f32, eligible: &dyn Fn(usize) -> bool) -> Vec<Score> {
    let mut fused = vec![0.0_f32; arms[0].len()];
    for arm in arms {
        let scored = arm
            .iter()
            .enumerate()
            .filter(|&(row, &score)| score > 0.0 && eligible(row))
            .map(|(row, &score)| (row, Score::or_zero(score)));
        for (rank, (row, _)) in top_k(scored, arm.len()).into_iter().enumerate() {
            fused[row] += 1.0 / (k + rank as f32 + 1.0);
        }
    }
    fused.into_iter().map(Score::or_zero).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fuse(fusion: Fusion, cosines: &[f32], lexical: &[f32]) -> Vec<f32> {
        let profile = EmbedderProfile { lexical_weight: 1.0, ..EmbedderProfile::default() };
        fusion
            .fuse(Some(cosines), lexical, &|_| true, &profile)
            .into_iter()
            .map(Score::get)
            .collect()
    }

    #[test]
    fn agreement_is_its_formula() {
        let (cosines, lexical) = ([0.6_f32, 0.3, -0.1], [0.0_f32, 1.0, 0.5]);
        // s = 1, .5, -1/6; g = (1 · .5 + .25 · 0) / 1.25 = .4
        let expected = [1.0, 0.5 + 0.4, -1.0 / 6.0 + 0.4 * 0.5];
        for (got, expected) in fuse(Fusion::default(), &cosines, &lexical).iter().zip(expected) {
            assert!((got - expected).abs() < 1e-6, "{got} {expected}");
        }
    }

    #[test]
    fn words_that_lead_astray_weigh_little() {
        let fused = fuse(Fusion::default(), &[0.8, 0.0, 0.1], &[0.0, 1.0, 0.0]);
        assert!(fused[0] > fused[1]);
        let fused = fuse(Fusion::default(), &[0.8, 0.7, 0.1], &[0.0, 1.0, 0.0]);
        assert!(fused[1] > fused[0]);
    }

    #[test]
    fn rank_fusion_counts_only_what_scores_and_is_eligible() {
        let fused = Fusion::Rrf { k: 60.0 }.fuse(
            Some(&[0.9, 0.8, -0.1]),
            &[0.0, 1.0, 0.0],
            &|row| row != 0,
            &EmbedderProfile::default(),
        );
        assert_eq!(fused[0], Score::ZERO);
        assert_eq!(fused[1], Score::new(2.0 / 61.0).unwrap());
        assert_eq!(fused[2], Score::ZERO);
    }
}
