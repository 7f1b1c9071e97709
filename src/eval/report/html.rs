//! The report as one page that needs nothing but itself.

use std::fmt::Write as _;

use super::chart::{Dot, Dots, Lines, Series, escape};
use super::markdown::{interval, percent, short, signed};
use super::{DatasetReport, Difference, Group, Report, SystemReport};
use crate::eval::bootstrap::{Estimate, mean};

const STYLE: &str = include_str!("page.css");

impl Report {
    /// The report as one HTML page with charts as SVG; no script, no file beside it.
    ///
    /// The first chart shows recall against tokens sent. Every chart's lines can be reached by
    /// keyboard and are read out by screen readers, and every chart's numbers are in a table too.
    pub fn to_html(&self, title: &str) -> String {
        let mut out = format!(
            "<!doctype html><html lang=en><meta charset=utf-8>\
             <meta name=viewport content=\"width=device-width,initial-scale=1\">\
             <title>{0}</title><style>{STYLE}</style>\
             <a class=skip href=#main>Skip to the charts</a><h1>{0}</h1>",
            escape(title)
        );
        let several = self.datasets.len();
        let queries: usize = self.datasets.iter().map(|dataset| dataset.n_queries).sum();
        let _ = write!(
            out,
            "<p class=dim>{}, {queries} queries, toolrack {}; intervals hold 95 % of {} \
             resampled means (seed {}).</p>",
            if several == 1 { "1 dataset".to_owned() } else { format!("{several} datasets") },
            escape(&self.toolrack),
            self.bootstrap.samples,
            self.bootstrap.seed
        );
        out.push_str("<nav aria-label=Datasets><ul>");
        for (n, dataset) in self.datasets.iter().enumerate() {
            let _ = write!(out, "<li><a href=#d{n}>{}</a>", escape(&dataset.name));
        }
        out.push_str("</ul></nav><main id=main>");
        self.overview(&mut out);
        for (n, dataset) in self.datasets.iter().enumerate() {
            self.dataset_section(&mut out, n, dataset);
        }
        out.push_str("</main></html>\n");
        out
    }

    fn overview(&self, out: &mut String) {
        let several = self.datasets.len() > 1;
        if several {
            out.push_str(&figure(
                "Recall against tokens sent, mean over datasets",
                &self.mean_tokens(),
            ));
        } else if let Some(only) = self.datasets.first() {
            out.push_str(&figure("Recall against tokens sent", &tokens_chart(only)));
        }
        let series = self.datasets.first().map(|dataset| &dataset.systems);
        let series = series.into_iter().flatten().map(|system| system.name.clone()).collect();
        let main = self.main_metric().to_string();
        let dot = |figure: &Estimate| Dot { mean: figure.mean, low: figure.low, high: figure.high };
        let mut rows: Vec<(String, Vec<Dot>)> = Vec::new();
        if let Some(overall) = &self.overall {
            let dots =
                overall.figures.iter().filter_map(|(_, figures)| figures.get(&main).map(dot));
            rows.push(("mean".into(), dots.collect()));
        }
        for dataset in &self.datasets {
            let dots =
                dataset.systems.iter().filter_map(|system| system.figures.get(&main).map(dot));
            rows.push((dataset.name.clone(), dots.collect()));
        }
        let label = format!("{main} of each system");
        let chart = Dots { label: &label, x: &main, series, rows };
        out.push_str(&figure(&format!("{main} with intervals"), &chart.svg()));
        if let Some(overall) = &self.overall {
            out.push_str("<h2>Mean over datasets</h2>");
            let rows = overall.figures.iter().map(|(name, figures)| (name.as_str(), figures));
            self.figures(out, rows);
            self.differences(out, &overall.differences);
        }
    }

    /// Recall against the share of all tokens, each dataset counting alike.
    fn mean_tokens(&self) -> String {
        let Some(first) = self.datasets.first() else { return String::new() };
        let series = first.systems.iter().enumerate().map(|(n, system)| {
            let points = system.sweep.iter().filter_map(|point| {
                // A k that some catalog does not have is shown for none.
                let at: Vec<(f64, f64)> = self
                    .datasets
                    .iter()
                    .filter_map(|dataset| {
                        let all = dataset.all_tokens.max(1) as f64;
                        let system = dataset.systems.get(n)?;
                        let point = system.sweep.iter().find(|other| other.k == point.k)?;
                        Some((point.tokens / all * 100.0, point.recall))
                    })
                    .collect();
                if at.len() < self.datasets.len() {
                    return None;
                }
                let x = mean(&at.iter().map(|point| point.0).collect::<Vec<_>>());
                let y = mean(&at.iter().map(|point| point.1).collect::<Vec<_>>());
                Some((x, y, format!("k {}, {x:.1} % of the tokens, recall {}", point.k, short(y))))
            });
            Series { name: system.name.clone(), points: points.collect() }
        });
        Lines {
            label: "Recall of each system against the share of all tokens that is sent",
            x: "tokens sent, % of all tools' (logarithmic)",
            y: "recall",
            log: true,
            series: series.collect(),
            mark: Some((100.0, "all tools".into())),
        }
        .svg()
    }

    fn figures<'a>(
        &self,
        out: &mut String,
        rows: impl Iterator<Item = (&'a str, &'a std::collections::BTreeMap<String, Estimate>)>,
    ) {
        out.push_str("<div class=scroll tabindex=0 role=region aria-label=Figures><table><thead><tr><th>system");
        for metric in &self.metrics {
            let _ = write!(out, "<th>{metric}");
        }
        out.push_str("<tbody>");
        for (name, figures) in rows {
            let _ = write!(out, "<tr><td>{}", escape(name));
            for metric in &self.metrics {
                let figure = figures.get(&metric.to_string()).copied().unwrap_or_default();
                // Who has no mouse sees no title: the measure that counts has its interval in sight.
                let _ = match *metric == self.main_metric() {
                    true => write!(out, "<td>{}", interval(&figure)),
                    false => {
                        write!(out, "<td title=\"{}\">{}", interval(&figure), short(figure.mean))
                    }
                };
            }
        }
        out.push_str("</table></div>");
    }

    fn differences(&self, out: &mut String, differences: &[Difference]) {
        let main = self.main_metric();
        let compared = differences.iter().filter(|difference| difference.metric == main);
        let parts: Vec<String> = compared
            .map(|d| format!("{} − {} {}", escape(&d.a), escape(&d.b), signed(&d.difference)))
            .collect();
        if !parts.is_empty() {
            let _ = write!(out, "<p>{main}, paired: {}.</p>", parts.join("; "));
        }
    }

    fn dataset_section(&self, out: &mut String, n: usize, dataset: &DatasetReport) {
        let _ = write!(
            out,
            "<h2 id=d{n}>{}</h2><p class=dim>{} tools, {} tokens for all of them, {} queries.</p>",
            escape(&dataset.name),
            dataset.n_tools,
            dataset.all_tokens,
            dataset.n_queries
        );
        let rows = dataset.systems.iter().map(|system| (system.name.as_str(), &system.figures));
        self.figures(out, rows);
        self.differences(out, &dataset.differences);
        if self.datasets.len() > 1 {
            out.push_str(&figure("Recall against tokens sent", &tokens_chart(dataset)));
        }
        let recall = dataset.systems.iter().map(|system| Series {
            name: system.name.clone(),
            points: system
                .sweep
                .iter()
                .map(|point| {
                    let said = format!("k {}, recall {}", point.k, short(point.recall));
                    (point.k as f64, point.recall, said)
                })
                .collect(),
        });
        let chart = Lines {
            label: "Recall of each system for each k",
            x: "k (logarithmic)",
            y: "recall",
            log: true,
            series: recall.collect(),
            mark: None,
        };
        out.push_str(&folded("Recall by k", &figure("Recall by k", &chart.svg())));
        sweep_table(out, dataset);
        if let Some(system) = dataset.systems.iter().find(|system| !system.thresholds.is_empty()) {
            out.push_str(&folded("What a gate lets through", &thresholds_chart(system)));
        }
        costs_table(out, dataset);
        if let Some(first) = dataset.systems.first() {
            groups_table(out, "kind", &first.kinds);
            groups_table(out, "group", &first.groups);
            groups_table(out, "namespace", &first.namespaces);
            misses_table(out, first);
        }
    }
}

fn tokens_chart(dataset: &DatasetReport) -> String {
    let series = dataset.systems.iter().map(|system| Series {
        name: system.name.clone(),
        points: system
            .sweep
            .iter()
            .map(|point| {
                let (k, tokens) = (point.k, point.tokens);
                let said = format!("k {k}, {tokens:.0} tokens, recall {}", short(point.recall));
                (tokens, point.recall, said)
            })
            .collect(),
    });
    Lines {
        label: "Recall of each system against the tokens that are sent",
        x: "tokens sent (logarithmic)",
        y: "recall",
        log: true,
        series: series.collect(),
        mark: Some((dataset.all_tokens as f64, "all tools".into())),
    }
    .svg()
}

fn thresholds_chart(system: &SystemReport) -> String {
    let line = |name: &str, y: &dyn Fn(&super::ThresholdPoint) -> Option<f64>| Series {
        name: name.to_owned(),
        points: system
            .thresholds
            .iter()
            .filter_map(|point| {
                let y = y(point)?;
                let said = format!("threshold {:.2}, {}", point.threshold, short(y));
                Some((point.threshold, y, said))
            })
            .collect(),
    };
    let mut series = vec![
        line("recall of the admitted", &|point| Some(point.recall)),
        line("wrongly refused", &|point| Some(point.wrongly_refused)),
        line("no-match precision", &|point| point.no_match_precision),
        line("no-match recall", &|point| point.no_match_recall),
    ];
    // Without requests that nothing fits there is nothing to say of them.
    if system.no_match.is_none() {
        series.truncate(2);
    }
    let chart = Lines {
        label: "What a gate lets through at each cosine threshold",
        x: "cosine asked for",
        y: "share",
        log: false,
        series,
        mark: None,
    };
    figure(&format!("Threshold sweep of {}", system.name), &chart.svg())
}

fn sweep_table(out: &mut String, dataset: &DatasetReport) {
    let mut table = String::from(
        "<table><thead><tr><th>system<th>k<th>recall<th>complete<th>tools<th>tokens<th>of all<tbody>",
    );
    let all = dataset.all_tokens.max(1) as f64;
    for system in &dataset.systems {
        for point in &system.sweep {
            let _ = write!(
                table,
                "<tr><td>{}<td>{}<td>{}<td>{}<td>{:.1}<td>{:.0}<td>{}",
                escape(&system.name),
                point.k,
                short(point.recall),
                short(point.complete),
                point.tools,
                point.tokens,
                percent(point.tokens / all)
            );
        }
    }
    out.push_str(&folded("Numbers of the charts", &scroll(&(table + "</table>"))));
}

fn costs_table(out: &mut String, dataset: &DatasetReport) {
    let mut table = String::from(
        "<table><thead><tr><th>system<th>build, s<th>query p50, µs<th>p95, µs<th>wrongly refused\
         <th>no-match precision<th>no-match recall<tbody>",
    );
    let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), short);
    for system in &dataset.systems {
        let _ = write!(
            table,
            "<tr><td>{}<td>{:.2}<td>{:.0}<td>{:.0}<td>{}<td>{}<td>{}",
            escape(&system.name),
            system.build_s,
            system.query_us_p50,
            system.query_us_p95,
            figure(system.wrongly_refused),
            figure(system.no_match.and_then(|count| count.precision())),
            figure(system.no_match.and_then(|count| count.recall()))
        );
    }
    out.push_str(&folded("Time, and the gate", &scroll(&(table + "</table>"))));
}

fn groups_table(out: &mut String, what: &str, groups: &[Group]) {
    if groups.len() < 2 {
        return;
    }
    let mut table = format!("<table><thead><tr><th>{what}<th>n<th>R@5<th>R@10<th>nDCG@10<tbody>");
    let mut worst: Vec<&Group> = groups.iter().collect();
    worst.sort_by(|a, b| a.ndcg_10.total_cmp(&b.ndcg_10));
    for group in worst {
        let _ = write!(
            table,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}",
            escape(&group.name),
            group.n,
            short(group.recall_5),
            short(group.recall_10),
            short(group.ndcg_10)
        );
    }
    out.push_str(&folded(&format!("By {what}, worst first"), &scroll(&(table + "</table>"))));
}

fn misses_table(out: &mut String, system: &SystemReport) {
    if system.misses.is_empty() {
        return;
    }
    let mut table = String::from(
        "<table><thead><tr><th>query<th class=text>request<th class=text>missed<th>rank\
         <th class=text>outranked by<tbody>",
    );
    for miss in &system.misses {
        let rank = miss.rank.map_or_else(|| "–".to_owned(), |rank| rank.to_string());
        let _ = write!(
            table,
            "<tr><td>{}<td class=text>{}<td class=text>{}<td>{rank}<td class=text>{}",
            escape(&miss.id),
            escape(&miss.request),
            escape(&miss.tool),
            escape(&miss.outranked_by.join(", "))
        );
    }
    let title =
        format!("Misses of {}: {} of {}", system.name, system.misses.len(), system.n_misses);
    out.push_str(&folded(&title, &scroll(&(table + "</table>"))));
}

fn figure(caption: &str, body: &str) -> String {
    format!("<figure><figcaption>{}</figcaption>{body}</figure>", escape(caption))
}

fn folded(title: &str, body: &str) -> String {
    format!("<details><summary>{}</summary>{body}</details>", escape(title))
}

fn scroll(table: &str) -> String {
    format!("<div class=scroll tabindex=0 role=region aria-label=Table>{table}</div>")
}
