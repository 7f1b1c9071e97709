//! The program on the README's front page.

use toolrack::{Catalog, Engine, FindRequest, Result, SessionOptions, openai};

fn main() -> Result<()> {
    let catalog = Catalog::read("examples/data/tools.json")?;
    let engine = Engine::builder(catalog).build()?;
    let mut run = engine.session(SessionOptions::default().core(["agent/read_state"]).limit(8))?;

    let turn = run.turn("reconcile last month's invoices and flag the mismatches")?;
    println!("{}", turn.explain());

    let reply = run.find_tool(&FindRequest::new("open a helpdesk ticket").limit(2))?;
    println!("{}\n", reply.text());
    println!("{} definitions in the next request", openai::tools(run.visible()).len());
    Ok(())
}
