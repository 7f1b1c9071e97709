//! The report as Markdown tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{DatasetReport, Difference, Report, SystemReport};
use crate::eval::bootstrap::Estimate;
use crate::eval::metric::Metric;

impl Report {
    /// The report as Markdown: a table a dataset, the mean over datasets first, and where the first
    /// system loses.
    pub fn to_markdown(&self) -> String {
        let mut out = String::new();
        if let Some(overall) = &self.overall {
            let _ = writeln!(out, "## Mean over {} datasets\n", self.datasets.len());
            self.figures_table(
                &mut out,
                overall.figures.iter().map(|(name, f)| (name.as_str(), f)),
            );
            self.difference_lines(&mut out, &overall.differences);
        }
        self.losses(&mut out);
        if self.datasets.len() > 1 {
            self.by_dataset(&mut out);
        }
        for dataset in &self.datasets {
            self.dataset_tables(&mut out, dataset);
        }
        out
    }

    fn figures_table<'a>(
        &self,
        out: &mut String,
        rows: impl Iterator<Item = (&'a str, &'a BTreeMap<String, Estimate>)>,
    ) {
        let main = self.main_metric();
        let names: Vec<String> = self.metrics.iter().map(Metric::to_string).collect();
        let _ = writeln!(out, "| system | {} |", names.join(" | "));
        let _ = writeln!(out, "|---|{}", "---:|".repeat(names.len()));
        for (name, figures) in rows {
            let cells: Vec<String> = self
                .metrics
                .iter()
                .map(|metric| {
                    let figure = figures.get(&metric.to_string()).copied().unwrap_or_default();
                    if *metric == main { interval(&figure) } else { short(figure.mean) }
                })
                .collect();
            let _ = writeln!(out, "| {} | {} |", cell(name), cells.join(" | "));
        }
        out.push('\n');
    }

    fn difference_lines(&self, out: &mut String, differences: &[Difference]) {
        let main = self.main_metric();
        let compared = differences.iter().filter(|difference| difference.metric == main);
        let parts: Vec<String> =
            compared.map(|d| format!("{} − {} {}", d.a, d.b, signed(&d.difference))).collect();
        if !parts.is_empty() {
            let _ = writeln!(out, "{main}, paired: {}.\n", parts.join("; "));
        }
    }

    fn losses(&self, out: &mut String) {
        let main = self.main_metric();
        let lost = self.datasets.iter().flat_map(|dataset| {
            let lost = dataset.differences.iter();
            lost.filter(|d| d.metric == main && d.difference.mean < 0.0).map(|d| (&dataset.name, d))
        });
        let lines: Vec<String> = lost
            .map(|(dataset, d)| {
                let sure = if d.difference.is_significant() { "" } else { " (may be chance)" };
                format!("- {dataset}: {} {} {}{sure}", d.b, "leads by", signed_flip(&d.difference))
            })
            .collect();
        let Some(first) = self.datasets.first().and_then(|dataset| dataset.systems.first()) else {
            return;
        };
        if self.datasets.iter().all(|dataset| dataset.differences.is_empty()) {
            return;
        }
        let _ = writeln!(out, "## Where {} loses\n", first.name);
        if lines.is_empty() {
            let _ = writeln!(out, "Nowhere, by {main}.\n");
        } else {
            let _ = writeln!(out, "By {main}:\n\n{}\n", lines.join("\n"));
        }
    }

    /// The main measure of every system on every dataset in one table.
    fn by_dataset(&self, out: &mut String) {
        let main = self.main_metric();
        let Some(first) = self.datasets.first() else { return };
        let names: Vec<String> = first.systems.iter().map(|system| cell(&system.name)).collect();
        let _ = writeln!(out, "## {main} by dataset\n");
        let _ = writeln!(out, "| dataset | tools | queries | {} |", names.join(" | "));
        let _ = writeln!(out, "|---|---:|---:|{}", "---:|".repeat(names.len()));
        for dataset in &self.datasets {
            let values: Vec<f64> =
                dataset.systems.iter().map(|system| main_figure(system, main)).collect();
            let best = values.iter().copied().fold(f64::MIN, f64::max);
            let cells: Vec<String> = values
                .iter()
                .map(
                    |&value| {
                        if value == best { format!("**{}**", short(value)) } else { short(value) }
                    },
                )
                .collect();
            let _ = writeln!(
                out,
                "| {} | {} | {} | {} |",
                cell(&dataset.name),
                dataset.n_tools,
                dataset.n_queries,
                cells.join(" | ")
            );
        }
        out.push('\n');
    }

    fn dataset_tables(&self, out: &mut String, dataset: &DatasetReport) {
        let _ = writeln!(
            out,
            "## {}\n\n{} tools ({} tokens), {} queries.\n",
            dataset.name, dataset.n_tools, dataset.all_tokens, dataset.n_queries
        );
        let rows = dataset.systems.iter().map(|system| (system.name.as_str(), &system.figures));
        self.figures_table(out, rows);
        self.difference_lines(out, &dataset.differences);
        sweep(out, dataset);
        let _ = writeln!(out, "| system | build, s | query p50, µs | p95 | wrongly refused |");
        let _ = writeln!(out, "|---|---:|---:|---:|---:|");
        for system in &dataset.systems {
            let refused = system.wrongly_refused.map_or_else(|| "–".to_owned(), percent);
            let _ = writeln!(
                out,
                "| {} | {:.2} | {:.0} | {:.0} | {refused} |",
                cell(&system.name),
                system.build_s,
                system.query_us_p50,
                system.query_us_p95
            );
        }
        out.push('\n');
        let Some(first) = dataset.systems.first() else { return };
        if let Some(count) = &first.no_match {
            let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), short);
            let _ = writeln!(
                out,
                "No-match of {}: precision {}, recall {} over {} requests that nothing fits.\n",
                first.name,
                figure(count.precision()),
                figure(count.recall()),
                count.unanswerable
            );
        }
        if first.kinds.len() > 1 {
            let kinds: Vec<String> = first
                .kinds
                .iter()
                .map(|kind| format!("{} {} ({})", kind.name, short(kind.ndcg_10), kind.n))
                .collect();
            let _ = writeln!(out, "nDCG@10 of {} by kind: {}.\n", first.name, kinds.join(", "));
        }
    }
}

/// Recall against tokens, of the first system.
fn sweep(out: &mut String, dataset: &DatasetReport) {
    let Some(first) = dataset.systems.first() else { return };
    let all = dataset.all_tokens.max(1) as f64;
    let _ = writeln!(out, "| {}: k | recall | complete | tokens | of all |", cell(&first.name));
    let _ = writeln!(out, "|---:|---:|---:|---:|---:|");
    for point in &first.sweep {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {:.0} | {} |",
            point.k,
            short(point.recall),
            short(point.complete),
            point.tokens,
            percent(point.tokens / all)
        );
    }
    out.push('\n');
}

fn main_figure(system: &SystemReport, main: Metric) -> f64 {
    system.figures.get(&main.to_string()).map(|figure| figure.mean).unwrap_or_default()
}

/// Three digits without the zero before the point: `.648`, `1.000`.
pub(crate) fn short(value: f64) -> String {
    let text = format!("{value:.3}");
    match (text.strip_prefix("0."), text.strip_prefix("-0.")) {
        (Some(digits), _) => format!(".{digits}"),
        (_, Some("000")) => ".000".to_owned(),
        (_, Some(digits)) => format!("−.{digits}"),
        _ => text,
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

pub(crate) fn interval(figure: &Estimate) -> String {
    format!("{} [{}, {}]", short(figure.mean), short(figure.low), short(figure.high))
}

pub(crate) fn signed(figure: &Estimate) -> String {
    let sign = if figure.mean >= 0.0 { "+" } else { "" };
    format!("{sign}{}", interval(figure))
}

fn signed_flip(figure: &Estimate) -> String {
    let flipped = Estimate { mean: -figure.mean, low: -figure.high, high: -figure.low };
    interval(&flipped)
}

/// Text that cannot end a table's cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
