//! `toolrack eval`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use toolrack::eval::{
    Dataset, Difference, EngineSettings, Estimate, Report, RunMeta, System, check, evaluate,
    halves, rank_with, read_run, write_qrels, write_run, write_trec_run,
};
use toolrack::{Config, Fitted};

use super::Outcome;
use super::meaning::{Data, Eval};
use super::output::{Bar, Output, Table};
use super::systems::SystemSpec;

pub(crate) fn run(eval: Eval, output: &mut Output) -> anyhow::Result<Outcome> {
    // Nobody should wait for figures to hear that there is nothing to hold them to.
    let recorded = eval.check.as_ref().map(Report::read).transpose()?;
    let fitted = fitted(&eval.systems);
    let datasets = read(&eval.data, &fitted, eval.held_out)?;
    let systems = eval
        .systems
        .iter()
        .map(|spec| open(spec, &datasets, output))
        .collect::<anyhow::Result<Vec<_>>>()?;
    write_files(&eval, &datasets, &systems)?;
    let mut bar = Bar::new();
    let report = evaluate(&datasets, &systems, &eval.options, &mut |step| {
        bar.step(&format!("{}, {}", step.dataset, step.system), step.done, step.total);
    })?;
    drop(bar);
    let title = match &datasets[..] {
        [only] => format!("Retrieval on {}", only.name()),
        several => format!("Retrieval on {} datasets", several.len()),
    };
    if let Some(path) = &eval.html {
        write(path, &report.to_html(&title))?;
    }
    if let Some(folder) = &eval.output {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        write(&folder.join("report.json"), &(serde_json::to_string_pretty(&report)? + "\n"))?;
        write(&folder.join("report.md"), &format!("# {title}\n\n{}", report.to_markdown()))?;
        write(&folder.join("report.html"), &report.to_html(&title))?;
    }
    if let Some(path) = &eval.record {
        write(path, &(serde_json::to_string_pretty(&report.record())? + "\n"))?;
    }
    let drops = recorded.map(|recorded| check(&report, &recorded)).transpose()?;
    if output.json {
        output.json(&report)?;
    } else if eval.markdown {
        // A table without the command that made it cannot be made again.
        let typed: Vec<String> = std::env::args().skip(1).collect();
        output.raw(&format!(
            "# {title}\n\nMade by `toolrack {}` (toolrack {}).\n\n{}",
            typed.join(" "),
            report.toolrack,
            report.to_markdown()
        ));
    } else {
        text(&report, output);
    }
    let Some(drops) = drops else { return Ok(Outcome::Yes) };
    for drop in &drops {
        output.note(&format!("dropped: {drop}"));
    }
    if drops.is_empty() {
        output.note("No recorded figure fell by more than its interval.");
        return Ok(Outcome::Yes);
    }
    Ok(Outcome::No)
}

/// What the settings to be measured were fitted on.
fn fitted(systems: &[SystemSpec]) -> Vec<Fitted> {
    let configured = systems.iter().filter_map(|system| match system {
        SystemSpec::Configured { config, .. } => config.fitted.clone(),
        _ => None,
    });
    configured.collect()
}

/// The datasets; of one on which settings were fitted only the half that they have not seen.
pub(crate) fn read(data: &Data, fitted: &[Fitted], held_out: bool) -> anyhow::Result<Vec<Dataset>> {
    let mut datasets = Vec::new();
    for folder in &data.folders {
        let set = Dataset::read_with(folder, &data.options)?;
        let fitted = fitted.iter().filter(|fitted| fitted.fingerprint == set.fingerprint());
        let mut seeds: Vec<u64> = fitted.map(|fitted| fitted.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        match seeds[..] {
            [] => datasets.push(set),
            [seed] if held_out => datasets.push(halves(&set, seed).1),
            [_] => bail!(
                "the settings were fitted on {}: add --held-out to measure them on the other half, \
                 or leave the dataset out",
                set.name()
            ),
            [..] => bail!(
                "the settings were fitted on halves of {} by seeds {seeds:?}, and what one has not \
                 seen the other has: measure them one by one, or leave the dataset out",
                set.name()
            ),
        }
    }
    Ok(datasets)
}

/// Loads what a system needs.
fn open(spec: &SystemSpec, datasets: &[Dataset], output: &Output) -> anyhow::Result<System> {
    Ok(match spec {
        SystemSpec::Engine { name, embedder, fusion } => {
            let mut config = Config::default();
            config.engine.embedder.clone_from(embedder);
            let mut settings = EngineSettings::default().fusion(*fusion);
            settings.embedder = config.open_embedder()?;
            System::engine(name, settings)
        }
        SystemSpec::Configured { name, config } => {
            System::engine(name, EngineSettings::from_config(config)?)
        }
        SystemSpec::Jaccard => System::jaccard(),
        SystemSpec::Bm25 => System::bm25(),
        SystemSpec::Ranked { name, file } => {
            let rankings = datasets
                .iter()
                .map(|set| {
                    let ranked = read_run(file, set)?;
                    let none = ranked.iter().filter(|rows| rows.is_empty()).count();
                    if none > 0 {
                        output.note(&format!(
                            "{} ranks nothing for {none} of {} queries: they count as missed",
                            file.display(),
                            set.len()
                        ));
                    }
                    Ok((set.name().to_owned(), ranked))
                })
                .collect::<anyhow::Result<Vec<_>>>()?;
            System::ranked(name, rankings)
        }
    })
}

/// Files for other programs, of the first system.
fn write_files(eval: &Eval, datasets: &[Dataset], systems: &[System]) -> anyhow::Result<()> {
    let Some(system) = systems.first() else { return Ok(()) };
    for set in datasets {
        if let Some(path) = &eval.trec_qrels {
            write(&named(path, set), &write_qrels(set))?;
        }
        if eval.run.is_none() && eval.trec_run.is_none() {
            continue;
        }
        let mut bar = Bar::new();
        let rankings = rank_with(set, system, eval.options.depth.max(20), &mut |done| {
            bar.step(&format!("{}, for its file", set.name()), done, set.len());
        })?;
        drop(bar);
        if let Some(path) = &eval.run {
            let path = named(path, set);
            write(&path, &write_run(set, &rankings)?)?;
            let mut meta = path.into_os_string();
            meta.push(".meta.json");
            let text = serde_json::to_string(&RunMeta::of(set, &rankings))? + "\n";
            write(&PathBuf::from(meta), &text)?;
        }
        if let Some(path) = &eval.trec_run {
            write(&named(path, set), &write_trec_run(set, &rankings.ranked, system.name()))?;
        }
    }
    Ok(())
}

fn named(path: &Path, set: &Dataset) -> PathBuf {
    path.to_string_lossy().replace("{}", set.name()).into()
}

pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text).with_context(|| {
        format!("cannot write {}: give a path that can be written", path.display())
    })
}

/// The report as tables for a terminal.
fn text(report: &Report, output: &mut Output) {
    for dataset in &report.datasets {
        output.line(format!(
            "{}: {} tools ({} tokens), {} queries",
            dataset.name, dataset.n_tools, dataset.all_tokens, dataset.n_queries
        ));
        if dataset.n_judged == 0 {
            output.line("No query needs a tool that is ranked: what is 0 was not measured.");
        }
        let mut table = figures_table(report, true);
        for system in &dataset.systems {
            let mut cells = vec![system.name.clone()];
            cells.extend(report.metrics.iter().map(|metric| {
                let figure = system.figures.get(&metric.to_string());
                figure.map_or_else(String::new, |figure| short(figure.mean))
            }));
            cells.push(format!("{:.0}", system.query_us_p50));
            table.row(cells);
        }
        output.raw(&table.render());
        differences(report, &dataset.differences, output);
        for system in &dataset.systems {
            let Some(count) = &system.no_match else { continue };
            let share = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), short);
            output.line(format!(
                "  {} on {} queries that nothing fits: no-match precision {}, recall {}, and {} of the \
                 others are refused",
                system.name,
                count.unanswerable,
                share(count.precision()),
                share(count.recall()),
                share(system.wrongly_refused)
            ));
        }
        output.line("");
    }
    let Some(overall) = &report.overall else { return };
    output.line(format!("Mean over {} datasets", report.datasets.len()));
    let mut table = figures_table(report, false);
    for (name, figures) in &overall.figures {
        let mut cells = vec![name.clone()];
        cells.extend(report.metrics.iter().map(|metric| {
            let figure = figures.get(&metric.to_string());
            figure.map_or_else(String::new, |figure| short(figure.mean))
        }));
        table.row(cells);
    }
    output.raw(&table.render());
    differences(report, &overall.differences, output);
}

fn differences(report: &Report, differences: &[Difference], output: &mut Output) {
    let main = report.main_metric();
    for difference in differences.iter().filter(|difference| difference.metric == main) {
        output.line(format!(
            "  {} - {} by {main}: {}",
            difference.a,
            difference.b,
            interval(&difference.difference)
        ));
    }
}

fn figures_table(report: &Report, timed: bool) -> Table {
    let mut heads = vec!["system".to_owned()];
    heads.extend(report.metrics.iter().map(|metric| format!(">{metric}")));
    if timed {
        heads.push(">µs".to_owned());
    }
    Table::with_heads(heads)
}

fn short(value: f64) -> String {
    format!("{value:.3}")
}

fn interval(estimate: &Estimate) -> String {
    format!("{:+.3} [{:+.3}, {:+.3}]", estimate.mean, estimate.low, estimate.high)
}
