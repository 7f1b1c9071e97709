//! What was typed, not yet what it means.

#[cfg(feature = "gateway")]
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

/// Exit codes, shown at the end of the help.
const EXIT_CODES: &str = "Exit codes:\n  \
    0  done\n  \
    1  done, and the answer is no: nothing fits, a check failed, lint found something\n  \
    2  not done: wrong arguments, or a file, model or catalog that cannot be read\n\n\
    Begin with: toolrack search tools.json \"open a helpdesk ticket\"";

/// What a catalog is, at the end of the help of commands that take one.
const CATALOG: &str = "CATALOG is a file in any format (MCP tools/list, OpenAI, Anthropic, Gemini, JSON, JSONL), a\n\
    folder of such files, or - for standard input; several are taken together. With the feature\n\
    gateway it may also be an MCP client's configuration (an object mcpServers), whose servers are\n\
    started and asked. Without one, 'catalog' of the settings is used.";

/// What is compared with what, at the end of that command's help.
const SYSTEMS: &str = "All systems are measured on the same queries and compared with the first: settings files in\n\
    their order, then --embedder by --fusion, then baselines, then --ranked. --embedder and\n\
    --fusion measure engines with default weights and gate; settings have their own.\n\n\
    R@K is the share of the labelled tools among the first K, C@K the share of queries whose tools\n\
    are all there; nDCG@K and MRR count how far up they are. Intervals hold 95 % of resampled means.\n\n\
    DATASET is a folder with tools.jsonl (as any CATALOG) and queries.jsonl, one query a line:\n\
    {\"id\": \"1\", \"query\": \"mail Ana\", \"tools\": [\"send_mail\"]}, with \"tools\": [] when none fits.";

/// What the columns mean, at the end of that command's help.
const REPLAY: &str = "Of each step's tool: visible when it is needed, rescued by find_tool, or lost. Changes are those\n\
    of the list; thrash is the share of steps whose tool was evicted within three steps before;\n\
    cached is the share of the sent bytes that a provider's prompt cache keeps.";

/// What the halves are for, at the end of that command's help.
const TUNE: &str = "Fitted are the weight of the lexical arm, the weights of its fields and the gate's thresholds, by\n\
    nDCG@10 on one half. All figures are of the other half. The settings are written as TOML:\n\
    toolrack --config FILE, or Config::read(FILE) in a program, loads them; toolrack eval refuses to\n\
    measure them on what they were fitted on, and takes the other half with --held-out.";

/// What is fitted, at the end of that command's help.
const CALIBRATION: &str = "The dataset needs requests that no tool fits (\"tools\": []), ten of them and ten others in the\n\
    half that is fitted to. The cosine for read-only tools keeps --keep of the requests that a tool\n\
    answers; the one for writing tools parts both kinds best; the one for destructive tools lets\n\
    in at most --admit of the requests that no tool fits. The settings are written as TOML:\n\
    toolrack --config FILE, or Config::read(FILE) in a program, loads them.";

/// Find the few tools that a request needs, and measure how well that works.
#[derive(Debug, Parser)]
#[command(name = "toolrack", version, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Args {
    /// Settings in a TOML file; toolrack.toml in this folder when it is there
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Write JSON instead of text, errors too
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Sub,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Sub {
    /// Rank the tools of a catalog for a request
    #[command(after_help = CATALOG, override_usage = "toolrack search [OPTIONS] [CATALOG]... <REQUEST>")]
    Search(SearchArgs),
    /// List the tools of a catalog with what each costs
    #[command(after_help = CATALOG)]
    List(ListArgs),
    /// Show one tool as the engine sees it
    #[command(after_help = CATALOG, override_usage = "toolrack show [OPTIONS] [CATALOG]... <NAME>")]
    Show(ShowArgs),
    /// Measure rankings on labelled requests
    #[command(after_help = SYSTEMS)]
    Eval(Box<EvalArgs>),
    /// Play runs again under settings of the working set, side by side
    #[command(after_help = REPLAY)]
    Replay(ReplayArgs),
    /// Say which tools will not be found, why, and what to do
    #[command(after_help = CATALOG)]
    Lint(LintArgs),
    /// Fit settings to a dataset's one half and report on the other
    #[command(after_help = TUNE)]
    Tune(TuneArgs),
    /// Fit the gate's thresholds to a model on a dataset's one half and report on the other
    #[command(after_help = CALIBRATION)]
    Calibrate(CalibrateArgs),
    /// Print all settings with their defaults, or check a file
    Config(ConfigArgs),
    /// Serve an MCP client the tools of many MCP servers
    #[cfg(feature = "gateway")]
    Serve(ServeArgs),
    /// Write completions for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct EngineArgs {
    /// Model: static, static:DIMENSIONS, none, or a model's folder
    #[arg(long, value_name = "MODEL")]
    pub embedder: Option<String>,
    /// Fusion: hybrid, dense, lexical, rrf[:K], weighted:W, agreement[:W]
    #[arg(long, value_name = "FUSION")]
    pub fusion: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SearchArgs {
    /// Catalogs, then the request in one word or in quotes
    #[arg(required = true, value_name = "CATALOG... REQUEST", num_args = 1..)]
    pub words: Vec<String>,
    /// How many tools at most
    #[arg(short, default_value_t = toolrack::DEFAULT_K)]
    pub k: usize,
    /// Only tools of this namespace
    #[arg(long)]
    pub namespace: Option<String>,
    /// Show how the scores of each tool come about
    #[arg(long)]
    pub explain: bool,
    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ListArgs {
    /// Catalogs; those of the settings when none is given
    #[arg(value_name = "CATALOG")]
    pub catalogs: Vec<String>,
    /// Only tools of this namespace
    #[arg(long)]
    pub namespace: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ShowArgs {
    /// Catalogs, then the tool: its name, id, or the unique end of its name
    #[arg(required = true, value_name = "CATALOG... NAME", num_args = 1..)]
    pub words: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GoldArg {
    /// All labelled tools
    All,
    /// The main tool alone, where one is marked
    Main,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TextArg {
    /// `request` where there is one, else `query`
    Request,
    /// Always `query`
    Query,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DatasetArgs {
    /// Folders with tools.jsonl and queries.jsonl, or folders of such folders
    #[arg(required = true, value_name = "DATASET")]
    pub datasets: Vec<PathBuf>,
    /// Leave out the dataset of this name
    #[arg(long, value_name = "NAME")]
    pub exclude: Vec<String>,
    /// Which tools of a query are gold
    #[arg(long, value_enum, default_value_t = GoldArg::All)]
    pub gold: GoldArg,
    /// Which field of a query is its request
    #[arg(long, value_enum, default_value_t = TextArg::Request)]
    pub text: TextArg,
    /// Judgements in TREC's format instead of the dataset's
    #[arg(long, value_name = "FILE")]
    pub qrels: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct EvalArgs {
    #[command(flatten)]
    pub data: DatasetArgs,
    /// Models to compare: static (the bundled one, by default), static:DIMENSIONS, none, or a model's
    /// folder
    #[arg(long, value_name = "MODEL", value_delimiter = ',')]
    pub embedder: Vec<String>,
    /// Fusions to compare: hybrid, lexical and dense (the default), rrf[:K], weighted:W, agreement[:W]
    #[arg(long, value_name = "FUSION", value_delimiter = ',')]
    pub fusion: Vec<String>,
    /// Baselines to compare with: jaccard, bm25
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub baseline: Vec<String>,
    /// Settings files to compare, each under its file's name
    #[arg(long, value_name = "FILE", value_delimiter = ',')]
    pub settings: Vec<PathBuf>,
    /// Rankings of another program to compare with: a TREC run or JSON lines, for one dataset
    #[arg(long, value_name = "FILE")]
    pub ranked: Vec<PathBuf>,
    /// Measure settings on the half that they were not fitted on
    #[arg(long)]
    pub held_out: bool,
    /// The k of the sweep, which tells what sending the best k finds and costs; 1,2,3,5,8,10,15,20,30,50
    /// by default
    #[arg(short, long = "k", value_name = "K", value_delimiter = ',')]
    pub ks: Vec<usize>,
    /// Cosine thresholds of the gate's sweep, in the JSON and HTML reports; 0 to 0.7 in steps of 0.05 by
    /// default
    #[arg(long, value_name = "COSINE", value_delimiter = ',', allow_negative_numbers = true)]
    pub thresholds: Vec<f32>,
    /// Measures: R@K, C@K, nDCG@K, MRR; R@1,R@5,R@10,C@5,C@10,nDCG@10,MRR by default
    #[arg(long, value_name = "MEASURE", value_delimiter = ',')]
    pub metrics: Vec<String>,
    /// How many tools are ranked for a query; what lies deeper counts as missed
    #[arg(long, default_value_t = 100)]
    pub depth: usize,
    /// Resampled means behind each interval
    #[arg(long, default_value_t = 1_000)]
    pub samples: usize,
    /// Seed of the resampling
    #[arg(long, default_value_t = 17)]
    pub seed: u64,
    /// The most misses, with what outranked them, that the JSON and HTML reports list for a system
    #[arg(long, default_value_t = 20)]
    pub misses: usize,
    /// Write Markdown to standard output
    #[arg(long, conflicts_with = "json")]
    pub markdown: bool,
    /// Write the report as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write report.json, report.md and report.html into this folder
    #[arg(short, long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Write the first system's ranking as JSON lines, and FILE.meta.json beside it; {} in the name
    /// stands for the dataset
    #[arg(long, value_name = "FILE")]
    pub run: Option<PathBuf>,
    /// Write the first system's ranking as a TREC run; {} stands for the dataset
    #[arg(long, value_name = "FILE")]
    pub trec_run: Option<PathBuf>,
    /// Write the labels as TREC qrels; {} stands for the dataset
    #[arg(long, value_name = "FILE")]
    pub trec_qrels: Option<PathBuf>,
    /// Write the figures with their intervals, and nothing else, for --check
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// Fail when a figure of this record or report (JSON) fell by more than its interval
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ConfigArgs {
    /// Check this file; the one of --config, or toolrack.toml, when none is given
    #[arg(long, value_name = "FILE", num_args = 0..=1)]
    pub check: Option<Option<PathBuf>>,
}

#[cfg(feature = "gateway")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeArg {
    /// By the client's name
    Auto,
    /// Core and found tools in the list, changes announced
    List,
    /// Always the same list: the prompt cache stays warm
    Bridge,
}

/// What `toolrack serve` prints at the end of its help.
#[cfg(feature = "gateway")]
const SERVE_HELP: &str = "--config names the servers: the file of your MCP client (an object\n\
    mcpServers), or a toolrack.toml with a table [gateway].\n\n\
    Standard output belongs to the protocol; what happens is told on standard error, as much as\n\
    the variable TOOLRACK_LOG asks for (error, warn, info, debug). With the feature otel, spans go\n\
    to OTEL_EXPORTER_OTLP_ENDPOINT when that is set.";

#[cfg(feature = "gateway")]
#[derive(Debug, ClapArgs)]
#[command(after_help = SERVE_HELP)]
pub(crate) struct ServeArgs {
    /// Serve streamable HTTP at /mcp here, in place of standard input and output
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub http: Option<SocketAddr>,
    /// How tools are offered; as the settings say, else by the client's name
    #[arg(long, value_enum)]
    pub mode: Option<ModeArg>,
    /// Serve the live X-ray page here
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub xray: Option<SocketAddr>,
    /// Serve figures for Prometheus at /metrics here
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub metrics: Option<SocketAddr>,
    /// Keep sessions in this file over a restart
    #[arg(long, value_name = "FILE")]
    pub state: Option<PathBuf>,
    /// Let in who has one of the bearer tokens in this file; needed beyond this machine
    #[arg(long, value_name = "FILE")]
    pub tokens: Option<PathBuf>,
}

#[cfg(feature = "gateway")]
fn address(text: &str) -> Result<SocketAddr, String> {
    let example = "write an address like 127.0.0.1:8080, or a port";
    toolrack::gateway::address(text).ok_or_else(|| example.to_owned())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TimingArg {
    /// Tools leave at the edges of an epoch: the prompt cache stays warm
    Epoch,
    /// Tools leave at once
    Immediate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IntentArg {
    /// The needed tool's first sentence: an upper bound of what is rescued
    Description,
    /// The turn's message: a lower bound
    Message,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReplayArgs {
    /// Dataset folders, traces of sessions, or files of runs (JSON lines with `turns` or
    /// `steps`)
    #[arg(required = true, value_name = "DATASET|TRACE")]
    pub runs: Vec<PathBuf>,
    /// Catalogs of the traces and files of runs
    #[arg(long, value_name = "CATALOG")]
    pub catalog: Vec<String>,
    /// Limits of the working set to compare; by default the settings' and half of it
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub limit: Vec<usize>,
    /// Timings to compare; both by default
    #[arg(long, value_enum, value_delimiter = ',')]
    pub timing: Vec<TimingArg>,
    /// Steps after which an unwanted tool is stale, to compare
    #[arg(long, value_name = "STEPS", value_delimiter = ',')]
    pub stale_after: Vec<u64>,
    /// Tools that a turn's message brings in, to compare
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    pub retrieve: Vec<usize>,
    /// Tools that are always visible
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub core: Vec<String>,
    /// Baselines that show the best k for each turn; by default what a turn brings in, and the limit
    #[arg(long, value_name = "K", value_delimiter = ',')]
    pub top_k: Vec<usize>,
    /// What the model says to find_tool
    #[arg(long, value_enum, default_value_t = IntentArg::Description)]
    pub intent: IntentArg,
    /// Share of steps whose tool should be visible, for the recommendation
    #[arg(long, default_value_t = 0.95)]
    pub goal: f64,
    #[command(flatten)]
    pub engine: EngineArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum LevelArg {
    /// Anything that was found
    Note,
    /// Warnings and errors
    Warning,
    /// Errors only
    Error,
    /// Never
    Never,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct LintArgs {
    /// Catalogs; those of the settings when none is given
    #[arg(value_name = "CATALOG")]
    pub catalogs: Vec<String>,
    /// A labelled dataset over the same tools: tools that it never retrieves are told too
    #[arg(long, value_name = "DATASET")]
    pub labelled: Option<PathBuf>,
    /// The most tokens that a definition should take
    #[arg(long, default_value_t = 1_000)]
    pub max_tokens: usize,
    /// Exit with 1 when something of this level or worse was found
    #[arg(long, value_enum, default_value_t = LevelArg::Error)]
    pub fail_on: LevelArg,
    /// Leave out findings of this rule, by the name that the findings have
    #[arg(long, value_name = "RULE", value_delimiter = ',')]
    pub allow: Vec<String>,
    /// The most findings of a rule that the text lists
    #[arg(long, default_value_t = 10)]
    pub show: usize,
    /// Write SARIF 2.1.0 instead of text
    #[arg(long, conflicts_with = "json")]
    pub sarif: bool,
}

/// What fitting takes, whatever is fitted.
#[derive(Debug, ClapArgs)]
pub(crate) struct FitArgs {
    /// A dataset's folder
    #[arg(value_name = "DATASET")]
    pub dataset: PathBuf,
    /// Where to write the settings; --config loads them
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Seed by which the dataset is cut into halves
    #[arg(long, default_value_t = 17)]
    pub seed: u64,
    /// Model: static, static:DIMENSIONS, none, or a model's folder
    #[arg(long, value_name = "MODEL")]
    pub embedder: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TuneArgs {
    #[command(flatten)]
    pub fit: FitArgs,
    /// Share of the requests that have a tool to which the gate should admit it
    #[arg(long, default_value_t = 0.97)]
    pub keep: f64,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CalibrateArgs {
    #[command(flatten)]
    pub fit: FitArgs,
    /// Share of the requests that a tool answers to which a read-only tool is admitted
    #[arg(long, default_value_t = 0.97)]
    pub keep: f64,
    /// Share of the other requests to which a destructive tool may be admitted
    #[arg(long, default_value_t = 0.1)]
    pub admit: f64,
}
