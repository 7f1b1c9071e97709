//! The agent loop: what it sends, what it runs, what it records.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use serde::Serialize;
use serde_json::{Value, json};
use toolrack::{
    Call, Delta, Engine, FindReply, Refusal, Session, SessionOptions, TokenCount, ToolId, ToolList,
    Verdict, Visible, openai,
};

use super::world::{Answer, World};

/// What is sent to a model, as chat completions take it.
#[derive(Debug, Clone, Serialize)]
pub struct Request {
    /// The definitions of the visible tools.
    pub tools: ToolList,
    /// The conversation so far.
    pub messages: Vec<Value>,
}

/// Something that answers requests.
pub trait Model {
    /// The assistant's message, with `content`, `tool_calls` or both.
    fn respond(&mut self, request: &Request) -> Result<Value>;
}

/// One call of the model, and what came of it.
#[derive(Debug)]
pub struct Step {
    /// Which call of the model, from 1 on.
    pub number: usize,
    /// The user's message, when this is the first call after it.
    pub message: Option<String>,
    /// The list that was sent.
    pub visible: Visible,
    /// How it differs from the list of the call before.
    pub delta: Delta,
    /// The list as it was sent.
    pub tools: String,
    /// Tokens of the conversation that was sent along.
    pub conversation: TokenCount,
    /// What the model called.
    pub calls: Vec<Done>,
    /// What it said.
    pub text: String,
}

/// A call and its outcome.
#[derive(Debug)]
pub struct Done {
    /// As the model made it.
    pub call: Call,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a call.
#[derive(Debug)]
pub enum Outcome {
    /// The tool ran.
    Ran(ToolId, Answer),
    /// It was a search.
    Found(Box<FindReply>),
    /// It was refused.
    Refused(Refusal),
}

impl Outcome {
    /// What the model is told.
    fn content(&self) -> String {
        match self {
            Self::Ran(_, Ok(value)) => value.to_string(),
            Self::Ran(_, Err(why)) => json!({"error": why}).to_string(),
            Self::Found(reply) => reply.text(),
            Self::Refused(why) => why.text().to_owned(),
        }
    }
}

/// How the run is sized. The list is small enough that tools have to leave, and the notes never do.
pub fn options() -> SessionOptions {
    SessionOptions::default()
        .core(["agent/read_state", "agent/write_state"])
        .limit(10)
        .stale_after(4)
        .find_limit(3)
}

/// Holds the conversation, shows each step to `watch`, and leaves what was done in `world`.
///
/// # Errors
/// When the model fails, or has not finished after `most_calls` calls.
pub fn run(
    engine: &Engine,
    options: SessionOptions,
    world: &mut World,
    model: &mut dyn Model,
    (system, user): (&str, &[&str]),
    most_calls: usize,
    watch: &mut dyn FnMut(&Step) -> Result<()>,
) -> Result<()> {
    let mut session = engine.session(options)?;
    let mut messages = vec![json!({"role": "system", "content": system})];
    let mut number = 0;
    for &message in user {
        messages.push(json!({"role": "user", "content": message}));
        let mut turn = session.turn(message)?;
        let mut first = Some(message.to_owned());
        loop {
            number += 1;
            if number > most_calls {
                bail!(
                    "the model has not finished after {most_calls} calls: allow more, or take a \
                       stronger model"
                );
            }
            let request = Request { tools: openai::tools(&turn), messages };
            let reply = model.respond(&request)?;
            let tools = request.tools.json();
            messages = request.messages;
            let count = |message: &Value| engine.token_counter().count(&message.to_string());
            let conversation = messages.iter().map(count).sum();

            let calls = carry_out(&mut session, world, openai::calls(&reply))?;
            let text = reply["content"].as_str().unwrap_or_default().trim().to_owned();
            messages.push(reply);
            for done in &calls {
                messages.push(json!({
                    "role": "tool",
                    "tool_call_id": done.call.id,
                    "content": done.outcome.content(),
                }));
            }
            if !text.is_empty() {
                session.note_reply(text.as_str());
            }
            let finished = calls.is_empty();
            watch(&Step {
                number,
                message: first.take(),
                visible: turn.visible,
                delta: turn.delta,
                tools,
                conversation,
                calls,
                text,
            })?;
            if finished {
                break;
            }
            // Takes in what was used and found: the next request has the list of now.
            turn = session.step();
        }
    }
    Ok(())
}

/// Judges all calls of one answer by the list that the model saw, and only then runs them: neither a
/// search among them nor a first guess may make another guess pass, and no search may take away a
/// tool that was called.
fn carry_out(session: &mut Session, world: &mut World, calls: Vec<Call>) -> Result<Vec<Done>> {
    let mut refused: BTreeMap<&str, Refusal> = BTreeMap::new();
    let mut verdicts = Vec::with_capacity(calls.len());
    for call in &calls {
        let verdict = match refused.get(call.name.as_str()) {
            Some(why) => Verdict::Refused(why.clone()),
            None => session.authorize(call)?,
        };
        if let Verdict::Refused(why) = &verdict {
            refused.insert(&call.name, why.clone());
        }
        verdicts.push(verdict);
    }
    let mut done = Vec::with_capacity(calls.len());
    for (call, verdict) in calls.into_iter().zip(verdicts) {
        let outcome = match verdict {
            Verdict::MetaTool(search) => Outcome::Found(Box::new(session.find_tool(&search)?)),
            Verdict::Run(tool) => {
                let answer = world.run(tool.tool(), &call.arguments);
                session.record_use(&tool);
                Outcome::Ran(tool.id().clone(), answer)
            }
            Verdict::Refused(why) => Outcome::Refused(why),
            other => bail!("this release of the example does not know the verdict {other:?}"),
        };
        done.push(Done { call, outcome });
    }
    Ok(done)
}
