//! Catalogs from wherever they are.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use toolrack::{Catalog, ErrorKind, Listing, Reader, Snapshot, SourceUpdate, Tool};

use super::output::Output;

/// Where tools are listed.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source {
    Stdin,
    File(PathBuf),
    /// An MCP client's configuration: it names servers, and only they know their tools.
    McpConfig(PathBuf),
}

/// One catalog out of files, folders and standard input.
///
/// Tools of a file in a folder that name no namespace get the file's name as one, when several files
/// are read: the same tool name in two files is then no collision.
pub(crate) fn read(sources: &[String], output: &Output) -> anyhow::Result<Catalog> {
    let mut found = Vec::new();
    for source in sources {
        found.extend(resolve(source, output)?);
    }
    let several = found.len() > 1;
    let mut listings = Vec::new();
    for source in &found {
        listings.push(match source {
            Source::Stdin => {
                let mut text = String::new();
                std::io::stdin().read_to_string(&mut text).context("standard input is no text")?;
                if server_names(&text).is_some() {
                    bail!(
                        "standard input is an MCP client's configuration, which names servers and not \
                         their tools: give the file's name, so that its servers are asked"
                    );
                }
                ("standard input".to_owned(), Reader::new().place("standard input").parse(&text)?)
            }
            Source::File(path) => {
                let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
                let mut reader = Reader::new();
                if let (true, Some(stem)) = (several, stem) {
                    reader = reader.namespace(stem);
                }
                (path.display().to_string(), reader.read(path)?)
            }
            Source::McpConfig(path) => {
                (path.display().to_string(), Listing::from_tools(mcp_servers(path, output)?))
            }
        });
    }
    if !several && let Some((name, listing)) = listings.pop() {
        let catalog = match Catalog::from_listing(name.as_str(), listing) {
            Err(error) if error.kind() == ErrorKind::EmptyCatalog => bail!("{name}: {error}"),
            made => made?,
        };
        if catalog.snapshot().is_empty() && catalog.snapshot().builtins().next().is_some() {
            bail!(
                "{name} holds no tool to rank, as what has no name counts as a tool that is built into \
                 a provider: give a list of tool definitions"
            );
        }
        return Ok(catalog);
    }
    let catalog = Catalog::empty();
    let updates = listings.into_iter().map(|(name, listing)| (name, SourceUpdate::from(listing)));
    catalog.refresh_all(updates.collect())?;
    if catalog.snapshot().is_empty() {
        bail!("{} hold no tool: add at least one tool definition", sources.join(", "));
    }
    Ok(catalog)
}

/// The tools of the servers that a configuration names, which are asked for them.
#[cfg(feature = "gateway")]
fn mcp_servers(path: &Path, output: &Output) -> anyhow::Result<Vec<Tool>> {
    let config = toolrack::gateway::Config::read(path)?;
    let runtime = tokio::runtime::Runtime::new().context("no thread could be started")?;
    let (catalog, servers) = runtime.block_on(toolrack::gateway::catalog(config))?;
    for server in servers.iter().filter(|server| server.last_error.is_some()) {
        let why = server.last_error.as_deref().unwrap_or("it did not answer");
        output.note(&format!("left out: server '{}': {why}", server.server));
    }
    note_problems(&catalog, output);
    let tools: Vec<Tool> = catalog.snapshot().tools().cloned().collect();
    if tools.is_empty() {
        bail!("no server of {} listed a tool: see what each said above", path.display());
    }
    Ok(tools)
}

/// Without the gateway nobody can ask the servers that a configuration names.
#[cfg(not(feature = "gateway"))]
fn mcp_servers(path: &Path, _: &Output) -> anyhow::Result<Vec<Tool>> {
    let text = std::fs::read_to_string(path)?;
    let servers = server_names(&text).unwrap_or_default();
    bail!(
        "{} is an MCP client's configuration: it names servers ({}), not their tools; save what \
         each answers to tools/list and give those files, or build with the feature gateway",
        path.display(),
        servers.join(", ")
    )
}

fn resolve(source: &str, output: &Output) -> anyhow::Result<Vec<Source>> {
    if source == "-" {
        return Ok(vec![Source::Stdin]);
    }
    let path = PathBuf::from(source);
    if path.is_dir() {
        let entries = std::fs::read_dir(&path).with_context(|| format!("cannot read {source}"))?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|ext| ext == "json" || ext == "jsonl"))
            .collect();
        files.sort();
        // A dataset's folder is a catalog too.
        let tools = ["tools.jsonl", "tools.json"].map(|name| path.join(name));
        if let Some(tools) = tools.into_iter().find(|tools| tools.is_file()) {
            let beside = files.len() - 1;
            if beside > 0 && !path.join("queries.jsonl").is_file() {
                output.note(&format!(
                    "of {source} only {} is read; name the {beside} other files to read them, too",
                    tools.display()
                ));
            }
            return Ok(vec![Source::File(tools)]);
        }
        // Nobody expects that a folder's name starts programs.
        let (configs, files): (Vec<PathBuf>, Vec<PathBuf>) =
            files.into_iter().partition(|file| is_client_config(file));
        for config in &configs {
            output.note(&format!(
                "left out: {} is an MCP client's configuration: name it by itself to ask its servers",
                config.display()
            ));
        }
        if files.is_empty() {
            bail!("{source} holds no .json or .jsonl file: give a folder of tool listings");
        }
        return Ok(files.into_iter().map(Source::File).collect());
    }
    Ok(vec![if is_client_config(&path) { Source::McpConfig(path) } else { Source::File(path) }])
}

fn is_client_config(path: &Path) -> bool {
    path.is_file()
        && path.metadata().is_ok_and(|meta| meta.len() < 1_000_000)
        && std::fs::read_to_string(path).ok().and_then(|text| server_names(&text)).is_some()
}

/// The servers that an MCP client's configuration names; `None` when `text` is none.
fn server_names(text: &str) -> Option<Vec<String>> {
    let text = text.trim_start_matches('\u{feff}');
    let Ok(value) = serde_json::from_str::<serde_json::Value>(text) else {
        // Editors' files have comments and a comma too many; the gateway reads those.
        let has = |key: &str| text.contains(&format!("\"{key}\""));
        let first = text.lines().find(|line| !line.trim().is_empty())?;
        let is_lines = serde_json::from_str::<serde_json::Value>(first).is_ok();
        let is_config = first.trim_start().starts_with(['{', '/'])
            && !is_lines
            && (has("mcpServers") || has("servers") && (has("command") || has("url")));
        return is_config.then(Vec::new);
    };
    if value.get("tools").is_some_and(serde_json::Value::is_array) {
        return None;
    }
    let servers = value.get("mcpServers").or_else(|| value.get("servers"))?.as_object()?;
    Some(servers.keys().cloned().collect())
}

/// Says so when no tool has the namespace that was asked for.
pub(crate) fn note_namespace(snapshot: &Snapshot, asked: &str, output: &Output) {
    const SHOWN: usize = 10;
    let known: std::collections::BTreeSet<&str> =
        snapshot.tools().map(toolrack::Tool::namespace).collect();
    if known.contains(asked) {
        return;
    }
    let shown: Vec<&str> = known.iter().take(SHOWN).copied().collect();
    let more = if known.len() > SHOWN { ", ..." } else { "" };
    output.note(&format!(
        "no tool has the namespace '{asked}': there are {}{more}",
        shown.join(", ")
    ));
}

/// Tells of definitions that were left out.
pub(crate) fn note_problems(catalog: &Catalog, output: &Output) {
    const SHOWN: usize = 5;
    let snapshot = catalog.snapshot();
    let problems: Vec<&str> = snapshot.problems().collect();
    for problem in problems.iter().take(SHOWN) {
        output.note(&format!("left out: {problem}"));
    }
    if problems.len() > SHOWN {
        output.note(&format!("and {} more", problems.len() - SHOWN));
    }
}

/// Estimated tokens of a tool's definition.
pub(crate) fn tokens(tool: &Tool) -> usize {
    toolrack::eval::definition_tokens(tool)
}
