//! A new report against a recorded one.

use std::fmt;

use serde::Serialize;

use super::report::{Report, SystemReport};
use crate::error::{Error, ErrorKind, Result};

/// A figure that fell below the interval of the recorded one.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Drop {
    /// Name of the dataset.
    pub dataset: String,
    /// Name of the system.
    pub system: String,
    /// The measure.
    pub metric: String,
    /// What was recorded.
    pub recorded: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// What is measured now.
    pub now: f64,
}

impl fmt::Display for Drop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {}: {} is {:.3}, below the {:.3} of the recorded {:.3}'s interval",
            self.dataset, self.system, self.metric, self.now, self.low, self.recorded
        )
    }
}

/// The figures of `recorded` that fell by more than their interval in `now`, in order.
///
/// All datasets, systems and measures of `recorded` have to be in `now`; what is only in `now` does
/// not matter.
///
/// # Errors
/// [`ErrorKind::InvalidSetting`] when something recorded was not measured, when a dataset's queries
/// are not those of the record, or when the record holds no figure: what checks nothing must not pass.
pub fn check(now: &Report, recorded: &Report) -> Result<Vec<Drop>> {
    let systems = recorded.datasets.iter().flat_map(|set| &set.systems);
    if systems.map(|system| system.figures.len()).sum::<usize>() == 0 {
        return Err(missing("the record holds no figure".to_owned()));
    }
    let mut drops = Vec::new();
    for old in &recorded.datasets {
        let new = now.datasets.iter().find(|new| new.name == old.name).ok_or_else(|| {
            missing(format!("dataset '{}' is recorded but was not measured", old.name))
        })?;
        if new.fingerprint != old.fingerprint {
            return Err(missing(format!("the queries of '{}' are not those recorded", old.name)));
        }
        for old_system in &old.systems {
            let find = |system: &&SystemReport| system.name == old_system.name;
            let new_system = new.systems.iter().find(find).ok_or_else(|| {
                missing(format!("system '{}' is recorded but was not measured", old_system.name))
            })?;
            for (metric, figure) in &old_system.figures {
                let now = new_system.figures.get(metric).ok_or_else(|| {
                    missing(format!("measure {metric} is recorded but was not measured"))
                })?;
                // What was written with few digits must not fail by the last of them.
                if now.mean < figure.low - 1e-6 {
                    drops.push(Drop {
                        dataset: old.name.clone(),
                        system: old_system.name.clone(),
                        metric: metric.clone(),
                        recorded: figure.mean,
                        low: figure.low,
                        now: now.mean,
                    });
                }
            }
        }
    }
    Ok(drops)
}

fn missing(what: String) -> Error {
    Error::new(
        ErrorKind::InvalidSetting,
        format!("{what}: measure what is recorded, or record anew with --json"),
    )
}
