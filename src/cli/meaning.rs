//! What was typed, understood: settings read, names resolved, contradictions refused. Nothing is
//! ranked and no model is loaded here.

use std::path::{Path, PathBuf};
use std::str::FromStr as _;

use anyhow::{Context as _, bail};
use clap_complete::Shell;
use toolrack::eval::{
    Bootstrap, Dataset, DatasetOptions, EvalOptions, Gold, Intent, Level, LintOptions, Metric,
    ReplayOptions, ReplaySetting, Rule, TextField, TuneOptions,
};
#[cfg(feature = "gateway")]
use toolrack::gateway;
use toolrack::{Config, Timing};

use super::args::{
    Args, CalibrateArgs, ConfigArgs, DatasetArgs, EngineArgs, EvalArgs, FitArgs, GoldArg,
    IntentArg, LevelArg, LintArgs, ListArgs, ReplayArgs, SearchArgs, ShowArgs, Sub, TextArg,
    TimingArg, TuneArgs,
};
#[cfg(feature = "gateway")]
use super::args::{ModeArg, ServeArgs};
use super::systems::{SystemSpec, parse_fusion, systems};

/// The settings file that is taken when none is named.
pub(crate) const CONFIG_FILE: &str = "toolrack.toml";

/// What is to be done.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one a process")]
pub(crate) enum Command {
    Search(Search),
    List(List),
    Show(Show),
    Eval(Box<Eval>),
    Replay(Box<Replay>),
    Lint(Box<Lint>),
    Tune(Box<Tune>),
    Calibrate(Box<Calibrate>),
    Config(ConfigCommand),
    #[cfg(feature = "gateway")]
    Serve(Box<Serve>),
    Completions(Shell),
}

#[derive(Debug)]
pub(crate) struct Search {
    pub sources: Vec<String>,
    pub request: String,
    pub k: usize,
    pub namespace: Option<String>,
    pub explain: bool,
    pub config: Config,
}

#[derive(Debug)]
pub(crate) struct List {
    pub sources: Vec<String>,
    pub namespace: Option<String>,
}

#[derive(Debug)]
pub(crate) struct Show {
    pub sources: Vec<String>,
    pub name: String,
}

/// Datasets and how they are read.
#[derive(Debug)]
pub(crate) struct Data {
    pub folders: Vec<PathBuf>,
    pub options: DatasetOptions,
}

#[derive(Debug)]
pub(crate) struct Eval {
    pub data: Data,
    pub systems: Vec<SystemSpec>,
    pub held_out: bool,
    pub options: EvalOptions,
    pub markdown: bool,
    pub html: Option<PathBuf>,
    pub output: Option<PathBuf>,
    pub run: Option<PathBuf>,
    pub trec_run: Option<PathBuf>,
    pub trec_qrels: Option<PathBuf>,
    pub record: Option<PathBuf>,
    pub check: Option<PathBuf>,
}

/// Where runs are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Runs {
    Dataset(PathBuf),
    Trace(PathBuf),
}

#[derive(Debug)]
pub(crate) struct Replay {
    pub runs: Vec<Runs>,
    /// Catalogs of the traces.
    pub sources: Vec<String>,
    pub settings: Vec<ReplaySetting>,
    pub options: ReplayOptions,
    pub config: Config,
}

#[derive(Debug)]
pub(crate) struct Lint {
    pub sources: Vec<String>,
    pub labelled: Option<PathBuf>,
    pub options: LintOptions,
    /// The engine's settings.
    pub config: Config,
    pub fail_on: Option<Level>,
    pub show: usize,
    pub sarif: bool,
}

/// What is fitted, to what, and where that goes.
#[derive(Debug)]
pub(crate) struct Fit {
    pub dataset: PathBuf,
    pub output: Option<PathBuf>,
    pub seed: u64,
    pub config: Config,
}

#[derive(Debug)]
pub(crate) struct Tune {
    pub fit: Fit,
    pub options: TuneOptions,
}

#[cfg(feature = "gateway")]
#[derive(Debug)]
pub(crate) struct Serve {
    /// The file that names the servers.
    pub place: String,
    pub servers: gateway::Config,
    /// The engine's settings.
    pub config: Config,
    pub options: gateway::Options,
}

#[derive(Debug)]
pub(crate) struct Calibrate {
    pub fit: Fit,
    pub keep: f64,
    pub admit: f64,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ConfigCommand {
    Template,
    Check(PathBuf),
}

impl Command {
    /// The meaning of `args`.
    pub(crate) fn of(args: Args) -> anyhow::Result<Self> {
        if let Sub::Config(config) = &args.command {
            return config_command(config, args.config.as_deref());
        }
        if let Sub::Completions { shell } = args.command {
            return Ok(Self::Completions(shell));
        }
        #[cfg(feature = "gateway")]
        if let Sub::Serve(typed) = args.command {
            return Ok(Self::Serve(Box::new(serve(typed, args.config)?)));
        }
        let config = read_config(args.config.as_deref())?;
        Ok(match args.command {
            Sub::Search(args) => Self::Search(search(args, config)?),
            Sub::List(ListArgs { catalogs, namespace }) => {
                Self::List(List { sources: sources(catalogs, &config)?, namespace })
            }
            Sub::Show(ShowArgs { words }) => {
                let (catalogs, name) = split_last(words);
                let sources = sources_before(catalogs, &config, "tool's name", &name)?;
                Self::Show(Show { sources, name })
            }
            Sub::Eval(args) => Self::Eval(Box::new(eval(*args, config)?)),
            Sub::Replay(args) => Self::Replay(Box::new(replay(args, config)?)),
            Sub::Lint(args) => Self::Lint(Box::new(lint(args, config)?)),
            Sub::Tune(args) => Self::Tune(Box::new(tune(args, config))),
            #[cfg(feature = "gateway")]
            Sub::Serve(_) => bail!("handled above"),
            Sub::Calibrate(args) => Self::Calibrate(Box::new(calibrate(args, config))),
            Sub::Config(_) | Sub::Completions { .. } => bail!("handled above"),
        })
    }
}

fn read_config(path: Option<&Path>) -> anyhow::Result<Config> {
    match path {
        Some(path) => Ok(Config::read(path)?),
        None if Path::new(CONFIG_FILE).is_file() => Ok(Config::read(CONFIG_FILE)?),
        None => Ok(Config::default()),
    }
}

fn config_command(args: &ConfigArgs, global: Option<&Path>) -> anyhow::Result<Command> {
    let path = match (&args.check, global) {
        (None, _) => return Ok(Command::Config(ConfigCommand::Template)),
        (Some(Some(path)), _) => path.clone(),
        (Some(None), Some(path)) => path.to_owned(),
        (Some(None), None) => CONFIG_FILE.into(),
    };
    Ok(Command::Config(ConfigCommand::Check(path)))
}

#[cfg(feature = "gateway")]
fn serve(typed: ServeArgs, path: Option<PathBuf>) -> anyhow::Result<Serve> {
    let path = match path {
        Some(path) => path,
        None if Path::new(CONFIG_FILE).is_file() => CONFIG_FILE.into(),
        None => bail!(
            "no servers are given: name the file of your MCP client, as in toolrack serve --config \
             mcp.json"
        ),
    };
    let place = path.display().to_string();
    let (config, mut servers) = if is_toml(&path) {
        let config = Config::read(&path)?;
        let servers = gateway::Config::of(&config, &place)?;
        (config, servers)
    } else {
        (Config::default(), gateway::Config::read(&path)?)
    };
    if servers.servers.is_empty() {
        let how = match is_toml(&path) {
            true => "set gateway.config to the file of your MCP client",
            false => "add one under 'mcpServers'",
        };
        bail!("{place} names no server: {how}");
    }
    let mut options = gateway::Options::default();
    match typed.mode {
        None => {}
        Some(ModeArg::Auto) => servers.settings.options.mode = None,
        Some(ModeArg::List) => options.mode = Some(gateway::Mode::List),
        Some(ModeArg::Bridge) => options.mode = Some(gateway::Mode::Bridge),
    }
    options.http = typed.http;
    options.xray = typed.xray;
    options.metrics = typed.metrics;
    options.state = typed.state;
    options.tokens = typed.tokens;
    Ok(Serve { place, servers, config, options })
}

/// Whether the file is toolrack's own configuration and not an MCP client's.
#[cfg(feature = "gateway")]
pub(crate) fn is_toml(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// The words before the last, and the last.
fn split_last(mut words: Vec<String>) -> (Vec<String>, String) {
    let last = words.pop().unwrap_or_default();
    (words, last)
}

fn sources(typed: Vec<String>, config: &Config) -> anyhow::Result<Vec<String>> {
    match (typed.is_empty(), config.catalog.is_empty()) {
        (false, _) => Ok(typed),
        (true, false) => Ok(config.sources()),
        (true, true) => bail!(
            "no catalog is given: name a file, a folder or - for standard input, or set 'catalog' \
             in {CONFIG_FILE}"
        ),
    }
}

/// Like [`sources`], before a last word: who typed one word may have meant it as the catalog.
fn sources_before(
    typed: Vec<String>,
    config: &Config,
    what: &str,
    last: &str,
) -> anyhow::Result<Vec<String>> {
    if typed.is_empty() && config.catalog.is_empty() {
        bail!(
            "no catalog is given, as the last word ('{last}') is the {what}: name a file, a folder or \
             - for standard input before it, or set 'catalog' in {CONFIG_FILE}"
        );
    }
    sources(typed, config)
}

fn search(args: SearchArgs, mut config: Config) -> anyhow::Result<Search> {
    let (catalogs, request) = split_last(args.words);
    engine(&args.engine, &mut config)?;
    if args.k == 0 {
        bail!("-k is 0: ask for at least one tool");
    }
    Ok(Search {
        sources: sources_before(catalogs, &config, "request", &request)?,
        request,
        k: args.k,
        namespace: args.namespace,
        explain: args.explain,
        config,
    })
}

/// Takes over what was typed of the engine's settings.
fn engine(args: &EngineArgs, config: &mut Config) -> anyhow::Result<()> {
    if let Some(embedder) = &args.embedder {
        config.engine.embedder = absolute(embedder);
    }
    if let Some(fusion) = &args.fusion {
        config.engine.fusion = parse_fusion(fusion)?.1;
    }
    Ok(())
}

/// A typed folder is one of the current folder, not of the settings file's.
pub(crate) fn absolute(embedder: &str) -> String {
    let path = Path::new(embedder);
    match path.is_dir().then(|| path.canonicalize()) {
        Some(Ok(path)) => path.display().to_string(),
        _ => embedder.to_owned(),
    }
}

pub(crate) fn data(args: DatasetArgs) -> anyhow::Result<Data> {
    let mut folders = Vec::new();
    for path in &args.datasets {
        folders.extend(Dataset::discover(path)?);
    }
    let is_called = |folder: &PathBuf, excluded: &String| {
        folder.file_name().is_some_and(|name| *name == **excluded)
    };
    if let Some(excluded) =
        args.exclude.iter().find(|excluded| !folders.iter().any(|f| is_called(f, excluded)))
    {
        bail!("--exclude names '{excluded}', but no dataset is called that: name a folder given");
    }
    folders.retain(|folder| {
        let name = folder.file_name().map(|name| name.to_string_lossy());
        name.is_none_or(|name| !args.exclude.iter().any(|exclude| *exclude == name))
    });
    if folders.is_empty() {
        bail!("every dataset is excluded: leave at least one");
    }
    if args.qrels.is_some() && folders.len() > 1 {
        bail!("--qrels judges one dataset, but {} are given: give one", folders.len());
    }
    let text = match args.text {
        TextArg::Request => TextField::Request,
        TextArg::Query => TextField::Query,
    };
    let gold = match args.gold {
        GoldArg::All => Gold::All,
        GoldArg::Main => Gold::Main,
    };
    let mut options = DatasetOptions::default().text(text).gold(gold);
    options.qrels = args.qrels;
    Ok(Data { folders, options })
}

fn eval(args: EvalArgs, config: Config) -> anyhow::Result<Eval> {
    let data = data(args.data)?;
    let systems = systems(
        &args.embedder,
        &args.fusion,
        &args.baseline,
        &args.settings,
        &args.ranked,
        &config,
    )?;
    if !args.ranked.is_empty() && data.folders.len() > 1 {
        bail!("--ranked ranks one dataset, but {} are given: give one", data.folders.len());
    }
    for (option, path) in
        [("--run", &args.run), ("--trec-run", &args.trec_run), ("--trec-qrels", &args.trec_qrels)]
    {
        if let Some(path) = path
            && data.folders.len() > 1
            && !path.to_string_lossy().contains("{}")
        {
            bail!(
                "{option} would write {} datasets into one file: put {{}} in its name, for the \
                   dataset's",
                data.folders.len()
            );
        }
    }
    let bootstrap = Bootstrap::default().samples(args.samples).seed(args.seed);
    let mut options =
        EvalOptions::default().depth(args.depth).misses(args.misses).bootstrap(bootstrap);
    if !args.ks.is_empty() {
        options.ks = args.ks;
        options.ks.sort_unstable();
        options.ks.dedup();
    }
    if !args.thresholds.is_empty() {
        options.thresholds = args.thresholds;
    }
    if !args.metrics.is_empty() {
        options.metrics = args
            .metrics
            .iter()
            .map(|metric| Metric::from_str(metric))
            .collect::<toolrack::Result<_>>()?;
    }
    Ok(Eval {
        data,
        systems,
        held_out: args.held_out,
        options,
        markdown: args.markdown,
        html: args.html,
        output: args.output,
        run: args.run,
        trec_run: args.trec_run,
        trec_qrels: args.trec_qrels,
        record: args.record,
        check: args.check,
    })
}

fn replay(args: ReplayArgs, mut config: Config) -> anyhow::Result<Replay> {
    engine(&args.engine, &mut config)?;
    if !(args.goal > 0.0 && args.goal <= 1.0) {
        bail!("the goal is {}: give a share above 0 and at most 1", args.goal);
    }
    let mut runs = Vec::new();
    for path in &args.runs {
        if path.is_file() && !path.ends_with("queries.jsonl") {
            runs.push(Runs::Trace(path.clone()));
        } else {
            runs.extend(Dataset::discover(path)?.into_iter().map(Runs::Dataset));
        }
    }
    let traces = runs.iter().any(|runs| matches!(runs, Runs::Trace(_)));
    let sources = match traces {
        true => sources(args.catalog, &config)
            .context("a file of runs needs the catalog that it ran over: add --catalog")?,
        false => Vec::new(),
    };
    let base = config.session_options();
    let or = |typed: Vec<usize>, default: &[usize]| {
        if typed.is_empty() { default.to_vec() } else { typed }
    };
    let retrieve = or(args.retrieve, &[base.retrieve]);
    let mut settings = vec![ReplaySetting::all_tools()];
    let top_k = or(args.top_k, &[base.retrieve, base.working_set.limit]);
    settings.extend(top_k.into_iter().map(ReplaySetting::top_k));
    let timings = match args.timing.is_empty() {
        true => vec![TimingArg::Epoch, TimingArg::Immediate],
        false => args.timing,
    };
    let stale = match args.stale_after.is_empty() {
        true => vec![base.working_set.stale_after],
        false => args.stale_after,
    };
    let half = base.working_set.limit.div_ceil(2);
    for limit in or(args.limit, &[half, base.working_set.limit]) {
        for timing in &timings {
            for &stale in &stale {
                for &retrieve in &retrieve {
                    let timing = match timing {
                        TimingArg::Epoch => Timing::Epoch,
                        TimingArg::Immediate => Timing::Immediate,
                    };
                    let mut options = base.clone().limit(limit).timing(timing);
                    options = options.stale_after(stale).retrieve(retrieve);
                    if !args.core.is_empty() {
                        options = options.core(args.core.clone());
                    }
                    settings.push(ReplaySetting::working_set(options));
                }
            }
        }
    }
    let intent = match args.intent {
        IntentArg::Description => Intent::Description,
        IntentArg::Message => Intent::Message,
    };
    let options = ReplayOptions::default().intent(intent).goal(args.goal);
    Ok(Replay { runs, sources, settings, options, config })
}

fn lint(args: LintArgs, config: Config) -> anyhow::Result<Lint> {
    let rules: Vec<Rule> =
        args.allow.iter().map(|rule| rule.parse()).collect::<toolrack::Result<_>>()?;
    let sources = match (args.catalogs.is_empty(), &args.labelled) {
        // The dataset's own tools.
        (true, Some(_)) => Vec::new(),
        _ => sources(args.catalogs, &config)?,
    };
    Ok(Lint {
        sources,
        labelled: args.labelled,
        options: LintOptions::default().max_tokens(args.max_tokens).allow(rules),
        config,
        fail_on: match args.fail_on {
            LevelArg::Note => Some(Level::Note),
            LevelArg::Warning => Some(Level::Warning),
            LevelArg::Error => Some(Level::Error),
            LevelArg::Never => None,
        },
        show: args.show,
        sarif: args.sarif,
    })
}

fn fit(args: FitArgs, mut config: Config) -> Fit {
    let FitArgs { dataset, output, seed, embedder } = args;
    if let Some(embedder) = embedder {
        config.engine.embedder = absolute(&embedder);
    }
    Fit { dataset, output, seed, config }
}

fn tune(args: TuneArgs, config: Config) -> Tune {
    let options = TuneOptions::default().seed(args.fit.seed).keep(args.keep);
    Tune { fit: fit(args.fit, config), options }
}

fn calibrate(args: CalibrateArgs, config: Config) -> Calibrate {
    Calibrate { fit: fit(args.fit, config), keep: args.keep, admit: args.admit }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn command(line: &str) -> anyhow::Result<Command> {
        let words = std::iter::once("toolrack").chain(line.split(' '));
        Command::of(Args::try_parse_from(words)?)
    }

    #[test]
    fn the_last_word_is_the_request() {
        let Command::Search(search) = command("search a.json b.json mail -k 3").unwrap() else {
            panic!()
        };
        assert_eq!((search.sources.len(), search.request.as_str(), search.k), (2, "mail", 3));
        let error = command("search mail").unwrap_err();
        assert!(
            error.to_string().starts_with("no catalog is given, as the last word ('mail') is"),
            "{error}"
        );
        let error = command("search a.json mail -k 0").unwrap_err();
        assert_eq!(error.to_string(), "-k is 0: ask for at least one tool");
    }

    #[test]
    fn contradictions_are_refused() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
        for (line, message) in [
            ("--fusion mean", "'mean' is no fusion: write hybrid"),
            ("--fusion rrf:x", "fusion 'rrf:x': 'x' is no number"),
            ("--baseline tfidf", "'tfidf' is no baseline"),
            ("--baseline dense", "'dense' is a fusion"),
            ("--metrics P@5", "'P@5' is no measure"),
            ("--run out.jsonl", "--run would write 2 datasets into one file: put {} in its name"),
            ("--qrels x", "--qrels judges one dataset, but 2 are given"),
            ("--exclude registry61 --exclude trec", "every dataset is excluded"),
            ("--exclude registry", "--exclude names 'registry', but no dataset is called that"),
        ] {
            let error = command(&format!("eval {folder} {line}")).unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
        }
    }
}
