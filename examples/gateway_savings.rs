//! What the gateway saves on a catalog: tokens of the tool list that a client sends its model, counted
//! with GPT-4o's vocabulary.
//!
//! `gateway_savings FAKE_SERVER TOOLS.jsonl`: each server of the file is run behind the gateway, a
//! client connects in both modes, reads the list and searches. Fails when a list saves less than 90 %.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    JsonObject, Tool,
};
use rmcp::service::{RunningService, serve_client};
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::{Value, json};
use toolrack::gateway::{Config, Gateway, Mode, Options};
use toolrack::{Catalog, Engine, TiktokenCounter, TokenCounter};

/// What somebody might want of such a catalog.
const WISHES: [&str; 12] = [
    "open a pull request for my branch",
    "which issues are assigned to me",
    "add a page to our Notion wiki",
    "send a message to the team channel",
    "take a screenshot of the web page",
    "run a SQL query against the database",
    "read a file from disk",
    "look up the documentation of a library",
    "restart the failing deployment",
    "create a calendar event for Friday",
    "list the metrics of this dashboard",
    "search the web for recent news",
];

/// Tokens of the list as a client hands it to a model: name, description and parameters.
fn tokens(counter: &TiktokenCounter, tools: &[Tool]) -> usize {
    let shown = |tool: &Tool| {
        json!({
            "name": tool.name, "description": tool.description, "parameters": tool.input_schema,
        })
    };
    tools.iter().map(|tool| counter.count(&shown(tool).to_string())).sum()
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let fake = arguments.next().context("give the fake server's program")?;
    let file = arguments.next().context("give a catalog of JSON lines")?;
    let text = std::fs::read_to_string(&file)?;
    let lines: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let servers: BTreeSet<&str> = lines.iter().filter_map(|tool| tool["server"].as_str()).collect();
    let entries: serde_json::Map<String, Value> = servers
        .iter()
        .map(|server| {
            let args = json!(["--catalog", file, "--only", server]);
            ((*server).to_owned(), json!({"command": fake, "args": args}))
        })
        .collect();
    let config = json!({"mcpServers": entries}).to_string();
    let counter = TiktokenCounter::o200k();

    // What a client without the gateway sends: every tool of every server.
    let whole: Vec<Tool> = lines
        .iter()
        .map(|tool| {
            // Some listings were published without parameters.
            let schema = tool["parameters"].as_object().cloned();
            let schema =
                schema.unwrap_or_else(|| JsonObject::from_iter([("type".into(), json!("object"))]));
            let text = |key: &str| tool[key].as_str().unwrap_or_default().to_owned();
            Ok(Tool::new(text("name"), text("description"), schema))
        })
        .collect::<Result<_>>()?;
    let naive = tokens(&counter, &whole);
    println!("{} tools of {} servers: {naive} tokens", whole.len(), servers.len());

    for (mode, name) in [(Mode::List, "list"), (Mode::Bridge, "bridge")] {
        let engine = Engine::builder(Catalog::empty()).build()?;
        let mut options = Options::default();
        options.mode = Some(mode);
        let gateway = Gateway::new(engine, Config::parse(&config, "catalog")?, &options)?;
        let client = connect(&gateway).await?;
        while gateway.status().iter().any(|status| status.indexed == 0) {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let first = tokens(&counter, &client.list_tools(None).await?.tools);
        println!(
            "{name}: {first} tokens at the beginning, {:.1} % less",
            100.0 * (1.0 - first as f64 / naive as f64)
        );
        let (mut replies, mut lists, mut most) = (0, 0, 0);
        for wish in WISHES {
            let wish: JsonObject = serde_json::from_value(json!({"intent": wish}))?;
            let call = CallToolRequestParams::new("find_tool").with_arguments(wish);
            let CallToolResponse::Complete(reply) = client.call_tool_once(call).await? else {
                anyhow::bail!("a search was not answered")
            };
            let said = reply.content.iter().filter_map(|block| block.as_text());
            replies += said.map(|text| counter.count(&text.text)).sum::<usize>();
            let list = tokens(&counter, &client.list_tools(None).await?.tools);
            lists += list;
            most = most.max(list);
        }
        println!(
            "{name}: over {} searches a list of {} tokens on the mean and {most} at most ({:.1} % \
             less), and {} tokens a reply",
            WISHES.len(),
            lists / WISHES.len(),
            100.0 * (1.0 - most as f64 / naive as f64),
            replies / WISHES.len()
        );
        client.cancel().await?;
        gateway.close().await;
        anyhow::ensure!(10 * most <= naive, "the list in mode {name} saves less than 90 %");
    }
    Ok(())
}

async fn connect(gateway: &Gateway) -> Result<RunningService<RoleClient, ClientConfig>> {
    let (near, far) = tokio::io::duplex(1 << 20);
    let serving = gateway.clone();
    tokio::spawn(async move {
        let (input, output) = tokio::io::split(far);
        serving.serve_streams(input, output).await
    });
    let (input, output) = tokio::io::split(near);
    // A client of this name reads the list anew when a change is announced.
    let own = Implementation::new("Visual Studio Code", "1");
    let client = ClientConfig::new(ClientCapabilities::default(), own)
        .with_protocol_version(rmcp::model::ProtocolVersion::LATEST_WITH_INITIALIZE);
    Ok(serve_client(client, AsyncRwTransport::new_client(input, output)).await?)
}
