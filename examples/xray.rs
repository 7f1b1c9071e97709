//! Traces a short run and writes its X-ray: `cargo run --example xray -- [FOLDER]`.
//!
//! The folder (the working directory by default) gets `xray.jsonl`, the trace, and `xray.html`, a
//! page that needs no network. The trace is the operator's: it lists hidden tools with the reason.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use toolrack::trace::{Trace, TraceLevel, TraceWriter};
use toolrack::{
    Call, Catalog, Engine, Listing, RuntimeContext, Session, SessionOptions, Verdict, xray,
};

fn main() -> Result<()> {
    let folder = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".to_owned()));
    let tools = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/tools.json");
    let engine = Engine::builder(Catalog::read(tools)?).build()?;

    // The caller may use these integrations only; the others are hidden.
    let context = RuntimeContext::default().approve_namespaces([
        "agent",
        "billing",
        "ledger",
        "fx",
        "contracts",
        "crm",
        "helpdesk",
        "email",
        "hr",
    ]);
    let options = SessionOptions::default()
        .core(["agent/read_state", "agent/write_state"])
        .limit(9)
        .retrieve(5)
        .find_limit(3)
        .stale_after(2)
        .context(context.clone());
    let mut run = engine.session(options)?;
    let file = folder.join("xray.jsonl");
    run.trace_at(TraceLevel::Operator, TraceWriter::create(&file)?);

    run.turn("Reconcile last month's invoices against the payments and flag the mismatches.")?;
    call(&mut run, "agent__read_state", json!({}))?;
    call(&mut run, "billing__list_invoices", json!({"month": "2026-10"}))?;
    call(&mut run, "ledger__list_payments", json!({"month": "2026-10"}))?;
    run.step();
    // The model lacks something and asks for it.
    call(
        &mut run,
        "find_tool",
        json!({"intent": "exchange rate of a day between two currencies"}),
    )?;
    run.step();
    call(&mut run, "fx__get_exchange_rate", json!({"base": "USD", "quote": "EUR"}))?;
    call(&mut run, "billing__list_credit_notes", json!({}))?;
    run.note_reply("Three invoices do not match. Shall I tell the finance lead?");

    run.turn("yes, do it")?;
    call(&mut run, "find_tool", json!({"intents": ["who is the finance lead", "send an e-mail"]}))?;
    run.step();
    call(&mut run, "hr__search_employees", json!({"query": "finance lead"}))?;
    call(&mut run, "email__send_email", json!({"to": "lead@example.com"}))?;
    // Called unseen: refused once, with the definition.
    call(&mut run, "helpdesk__create_ticket", json!({"title": "guessed"}))?;

    // The history is compacted, and a source lists a new tool.
    run.on_compaction();
    let news = r#"[{"name": "flag_invoice", "namespace": "billing", "risk": "write",
        "description": "Flag an invoice as disputed, with a reason."}]"#;
    engine.refresh("billing-extras", Listing::parse(news)?)?;
    run.turn("Flag the disputed invoices and open a ticket for each of them.")?;
    call(&mut run, "billing__flag_invoice", json!({"invoice": "INV-1"}))?;
    call(&mut run, "helpdesk__create_ticket", json!({"title": "INV-1 disputed"}))?;
    call(&mut run, "billing__void_invoices", json!({"invoice": "INV-1"}))?;

    // The caller loses an integration in the middle of the run.
    run.set_context(context.approve_namespaces(["agent", "billing", "ledger", "email"]));
    run.turn("Compose a haiku about the sea.")?;
    run.turn("Close the accounting period and send the aging report by mail.")?;
    call(&mut run, "ledger__get_aging_report", json!({}))?;
    call(&mut run, "email__send_email", json!({"to": "board@example.com"}))?;
    run.end_trace();

    let trace = Trace::read(&file)?;
    let page = folder.join("xray.html");
    std::fs::write(&page, xray::page_of(&trace))
        .with_context(|| format!("{} cannot be written", page.display()))?;
    println!("{} events in {}, shown by {}", trace.events.len(), file.display(), page.display());
    Ok(())
}

/// Does what a runtime does with a call.
fn call(run: &mut Session, name: &str, arguments: Value) -> Result<()> {
    match run.authorize(&Call::new(name, arguments))? {
        Verdict::MetaTool(search) => println!("{}", run.find_tool(&search)?.text()),
        Verdict::Run(tool) => run.record_use(&tool),
        Verdict::Refused(why) => println!("{}", why.text()),
        other => bail!("unexpected verdict {other:?}"),
    }
    Ok(())
}
