//! An agent that reconciles last month's invoices over a catalog of 206 tools, of which it sees
//! twelve at a time.
//!
//! ```text
//! cargo run --example invoice_reconciliation
//! ```
//!
//! The default model is a script that runs offline and can call only what is in the list that it
//! was sent. For a real one set `TOOLRACK_BASE_URL`, `TOOLRACK_MODEL` and, if the server wants one,
//! `TOOLRACK_API_KEY`.

// The tests take these files in as modules of their own and need what is public in them.
#![allow(unreachable_pub)]

mod agent;
mod model;
mod reconcile;
mod report;
mod script;
mod seen;
mod summary;
mod task;
mod world;

use std::collections::BTreeSet;
use std::io::{ErrorKind, IsTerminal, Write, stdout};

use anyhow::{Result, bail};
use toolrack::{Catalog, Engine};

use agent::Model;
use model::HttpModel;
use report::Style;
use script::Script;
use summary::Totals;
use world::World;

/// Calls after which a model that wanders is stopped.
const MOST_CALLS: usize = 80;

fn main() -> Result<()> {
    if let Some(argument) = std::env::args().nth(1) {
        bail!(
            "'{argument}' is not understood: this example takes no arguments; set \
             TOOLRACK_BASE_URL, TOOLRACK_MODEL and TOOLRACK_API_KEY to run it with a real model"
        );
    }
    let http = HttpModel::from_settings(|name| std::env::var(name).ok())?;
    let (name, mut model): (String, Box<dyn Model>) = match http {
        Some(http) => (http.name(), Box::new(http)),
        None => {
            ("a script, offline (TOOLRACK_BASE_URL selects a real one)".into(), Box::new(Script))
        }
    };
    let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let style = Style { colour };

    let engine = Engine::builder(Catalog::parse(include_str!("../data/tools.json"))?).build()?;
    let snapshot = engine.snapshot();
    let namespaces: BTreeSet<&str> = snapshot.tools().map(|tool| tool.namespace()).collect();
    let options = agent::options();
    let limit = options.working_set.limit;
    show(&report::opening(snapshot.len(), namespaces.len(), limit, &name, style))?;

    let mut world = World::new()?;
    let mut totals = Totals::default();
    let outcome = agent::run(
        &engine,
        options,
        &mut world,
        model.as_mut(),
        (task::SYSTEM, &task::MESSAGES),
        MOST_CALLS,
        &mut |step| {
            totals.add(step);
            show(&report::step(step, style))
        },
    );
    // What was done before a failure was done: show it either way.
    if outcome.is_ok() || totals.model_calls > 0 {
        show(&summary::findings(&world, style)?)?;
        show(&summary::totals(&world, &totals, style))?;
    }
    outcome
}

fn show(text: &str) -> Result<()> {
    match stdout().write_all(text.as_bytes()) {
        // The reader, a pager for example, has seen enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        other => Ok(other?),
    }
}
