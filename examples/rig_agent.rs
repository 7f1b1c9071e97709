//! A rig agent whose tools are driven by a session, against a scripted model: no network, no key.
//!
//! ```text
//! cargo run --example rig_agent --features rig
//! ```
//!
//! The model plays fair: it can only call what it was sent. It ends in an error when the list that
//! rig sends after `find_tool` lacks what was found.

#[path = "support/scripted_model.rs"]
mod scripted_model;

use anyhow::{Result, ensure};
use rig_agent::AgentBuilder;
use scripted_model::{Step, scripted, sent};
use serde_json::json;
use toolrack::{Catalog, Engine, SessionOptions, rig};

const CATALOG: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/tools.json");
const PROMPT: &str = "Which invoices did we send last month? Open a ticket for what is wrong.";

#[tokio::main]
async fn main() -> Result<()> {
    let engine = Engine::builder(Catalog::read(CATALOG)?).build()?;
    println!("{} tools in the catalog", engine.snapshot().len());
    retrieved(&engine).await?;
    driven(&engine).await
}

fn tools(engine: &Engine) -> toolrack::Result<rig_agent::tool::ToolSet> {
    rig::toolset(engine, |id, arguments| async move {
        println!("    ran {id} with {arguments}");
        Ok(json!({"tool": id.to_string(), "ok": true}).into())
    })
}

/// The engine as rig's index: k tools a prompt, no working set.
async fn retrieved(engine: &Engine) -> Result<()> {
    println!("\nretrieved_tools(4, index, tools):");
    let (model, log) = scripted([Step::Say("That is all I was shown.")]);
    let index = rig::EngineIndex::new(engine.clone());
    let agent = AgentBuilder::new(model).retrieved_tools(4, index, tools(engine)?).build();
    agent.prompt(PROMPT).await?;
    let shown = sent(&log);
    println!("  the model was sent {}", shown.concat().join(", "));
    ensure!(!shown.concat().is_empty(), "nothing was retrieved for: {PROMPT}");
    Ok(())
}

/// A session behind the agent: working set, `find_tool`, gate.
async fn driven(engine: &Engine) -> Result<()> {
    println!("\nSessionTools:");
    let steps = [
        Step::Call("billing__list_invoices", json!({"status": "sent"})),
        // The tool exists but was never shown: the session refuses, in words.
        Step::Guess("identity__list_audit_events", json!({})),
        Step::Call("find_tool", json!({"names": ["helpdesk/create_ticket"]})),
        Step::Call("helpdesk__create_ticket", json!({"subject": "Invoice 7 has no VAT number"})),
        Step::Say("Invoice 7 is wrong; I opened a ticket."),
    ];
    let (model, log) = scripted(steps.clone());
    let options = SessionOptions::default().core(["billing/list_invoices"]).limit(8).retrieve(2);
    let run = rig::SessionTools::new(engine.session(options)?);
    let agent = run.attach(AgentBuilder::new(model), tools(engine)?)?.default_max_turns(8).build();
    let answer = agent.prompt(PROMPT).await?;
    println!("  the agent said: {answer}");
    let lists = sent(&log);
    for (names, step) in lists.iter().zip(&steps) {
        println!("  sent {}\n    the model: {step}", names.join(", "));
    }
    for (earlier, later) in lists.iter().zip(lists.iter().skip(1)) {
        ensure!(later.starts_with(earlier), "the list did not only grow: {earlier:?}, {later:?}");
    }
    println!("  every list began with the one before it: the provider's cache held");
    let visible = run.session().visible().await?;
    println!("  {}", visible.to_string().lines().last().unwrap_or_default());
    Ok(())
}
