//! Two lists of scores into one.

use serde::{Deserialize, Serialize};

use super::top_k::top_k;
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
    /// cosine + w · BM25 / the request's greatest BM25. The default.
    ///
    /// A clear winner of either arm stays one, which ranks alone would flatten. Without a weight the
    /// embedder's own is taken ([`EmbedderProfile`](crate::EmbedderProfile)).
    Weighted {
        /// w, at least 0; `None` for the embedder's.
        lexical_weight: Option<f32>,
    },
    /// Reciprocal rank fusion: Σ 1 / (k + rank) over the arms in which the tool scores above 0
    /// (Cormack, Clarke, Büttcher, SIGIR 2009).
    Rrf {
        /// k, above 0; 60 in the paper.
        k: f32,
    },
    /// The cosine alone.
    DenseOnly,
    /// BM25 / the request's greatest BM25 alone.
    LexicalOnly,
}

impl Default for Fusion {
    fn default() -> Self {
        Self::Weighted { lexical_weight: None }
    }
}

impl Fusion {
    pub(crate) fn validate(&self) -> Result<()> {
        match *self {
            Self::Weighted { lexical_weight: Some(weight) }
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

    /// The fused score of every row. `cosines` is `None` when the dense arm has no say.
    ///
    /// `default_weight` is the embedder's lexical weight.
    pub(crate) fn fuse(
        self,
        cosines: Option<&[f32]>,
        bm25: &[f32],
        eligible: &dyn Fn(usize) -> bool,
        default_weight: f32,
    ) -> Vec<Score> {
        let greatest = bm25.iter().copied().fold(0.0_f32, f32::max);
        let lexical = |row: usize| if greatest > 0.0 { bm25[row] / greatest } else { 0.0 };
        let rows = 0..bm25.len();
        let Some(cosines) = cosines else {
            return rows.map(|row| Score::or_zero(lexical(row))).collect();
        };
        match self {
            Self::Weighted { lexical_weight } => {
                let weight = lexical_weight.unwrap_or(default_weight);
                rows.map(|row| Score::or_zero(cosines[row] + weight * lexical(row))).collect()
            }
            Self::DenseOnly => rows.map(|row| Score::or_zero(cosines[row])).collect(),
            Self::LexicalOnly => rows.map(|row| Score::or_zero(lexical(row))).collect(),
            Self::Rrf { k } => {
                let mut fused = vec![0.0_f32; bm25.len()];
                for arm in [cosines, bm25] {
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
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clear_winner_of_either_arm_stays_one() {
        let fused =
            Fusion::default().fuse(Some(&[0.9, 0.3, 0.3]), &[0.0, 8.0, 1.0], &|_| true, 0.2);
        assert!(fused[0] > fused[1] && fused[1] > fused[2]);
        let fused =
            Fusion::default().fuse(Some(&[0.31, 0.3, 0.3]), &[0.0, 8.0, 1.0], &|_| true, 0.2);
        assert!(fused[1] > fused[0]);
    }

    #[test]
    fn rank_fusion_counts_only_what_scores_and_is_eligible() {
        let fused = Fusion::Rrf { k: 60.0 }.fuse(
            Some(&[0.9, 0.8, -0.1]),
            &[0.0, 2.0, 0.0],
            &|row| row != 0,
            0.0,
        );
        assert_eq!(fused[0], Score::ZERO);
        assert_eq!(fused[1], Score::new(2.0 / 61.0).unwrap());
        assert_eq!(fused[2], Score::ZERO);
    }
}
