//! Halves of a dataset: one to fit on, one to report on.

use super::bootstrap::SplitMix;
use super::dataset::Dataset;
use super::query::Query;

/// `dataset` cut into a half to fit on and a half to report on.
///
/// Each query is drawn by the seed and its id (or its `template`, so that requests made from one
/// sentence stay together), not by its place: a set that grows keeps its halves.
///
/// # Example
/// ```
/// use toolrack::eval::{Dataset, halves};
///
/// let queries: String = (0..100)
///     .map(|n| format!("{{\"id\": \"{n}\", \"query\": \"mail {n}\", \"tools\": [\"send_mail\"]}}\n"))
///     .collect();
/// let set = Dataset::parse("demo", r#"[{"name": "send_mail"}]"#, &queries)?;
/// let (fit, report) = halves(&set, 17);
/// assert_eq!(fit.len() + report.len(), 100);
/// assert!(fit.len().abs_diff(50) < 20);
/// # Ok::<(), toolrack::Error>(())
/// ```
pub fn halves(dataset: &Dataset, seed: u64) -> (Dataset, Dataset) {
    let is_first = |query: &Query| {
        let key = query.template.as_ref().unwrap_or(&query.id);
        // FNV-1a, so that a draw depends on every byte of the key.
        let hash = key.bytes().fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        SplitMix(hash ^ seed).next() & 1 == 0
    };
    (dataset.filtered(is_first), dataset.filtered(|query| !is_first(query)))
}
