//! A model behind an OpenAI-compatible HTTP interface: a provider's, or a local server's.

use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde::Serialize;
use serde_json::{Value, json};
use toolrack::{ToolList, openai};

use super::agent::{Model, Request};

/// How often a request is sent to a server that is busy.
const ATTEMPTS: u32 = 4;

/// A chat completions endpoint.
#[derive(Debug)]
pub struct HttpModel {
    url: String,
    key: Option<String>,
    model: String,
    /// How long to wait before a busy server is asked again; doubled each time.
    pub pause: Duration,
    http: ureq::Agent,
    answers: usize,
}

/// The body of a request; `tools` travels with exactly the bytes that were rendered.
#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    temperature: u8,
    messages: &'a [Value],
    tools: &'a ToolList,
}

impl HttpModel {
    /// The model named by `TOOLRACK_BASE_URL`, `TOOLRACK_MODEL` and `TOOLRACK_API_KEY`; `None`
    /// when none of them is set. Local servers mostly need no key.
    ///
    /// # Errors
    /// When the address or the model's name is missing.
    pub fn from_settings(setting: impl Fn(&str) -> Option<String>) -> Result<Option<Self>> {
        let setting = |name: &str| setting(name).filter(|value| !value.trim().is_empty());
        let (base, model) = (setting("TOOLRACK_BASE_URL"), setting("TOOLRACK_MODEL"));
        let key = setting("TOOLRACK_API_KEY");
        match (base, model) {
            (Some(base), Some(model)) => Ok(Some(Self::new(&base, model, key))),
            (Some(_), None) => {
                bail!(
                    "TOOLRACK_BASE_URL is set but TOOLRACK_MODEL is not: name the model to ask for"
                )
            }
            (None, None) if key.is_none() => Ok(None),
            (None, _) => bail!(
                "TOOLRACK_BASE_URL is not set: give the address of the server, for example \
                 http://localhost:8080/v1, or unset TOOLRACK_MODEL and TOOLRACK_API_KEY"
            ),
        }
    }

    /// A model at `base`, to which `/chat/completions` is added.
    pub fn new(base: &str, model: String, key: Option<String>) -> Self {
        let http = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(600)))
            .build()
            .into();
        let url = format!("{}/chat/completions", base.trim_end_matches('/'));
        Self { url, key, model, pause: Duration::from_secs(2), http, answers: 0 }
    }

    /// Where the requests go, and to which model.
    pub fn name(&self) -> String {
        format!("{} at {}", self.model, self.url)
    }

    /// Status and body of the answer; waits when the server says that it is busy.
    fn post(&self, body: &Body<'_>) -> Result<(u16, String)> {
        let (mut pause, mut attempt) = (self.pause, 1);
        loop {
            let mut post = self.http.post(&self.url);
            if let Some(key) = &self.key {
                post = post.header("authorization", format!("Bearer {key}"));
            }
            let mut response = post.send_json(body).with_context(|| {
                format!("{} cannot be reached: check TOOLRACK_BASE_URL and the server", self.url)
            })?;
            let status = response.status().as_u16();
            let busy = status == 429 || status >= 500;
            if !busy || attempt == ATTEMPTS {
                let text = response.body_mut().read_to_string();
                return Ok((status, text.context("the server's answer broke off")?));
            }
            sleep(pause);
            pause *= 2;
            attempt += 1;
        }
    }
}

impl Model for HttpModel {
    fn respond(&mut self, request: &Request) -> Result<Value> {
        let body = Body {
            model: &self.model,
            temperature: 0,
            messages: &request.messages,
            tools: &request.tools,
        };
        let (status, text) = self.post(&body)?;
        let answer: Option<Value> = serde_json::from_str(&text).ok();
        if !(200..300).contains(&status) {
            let error = answer.as_ref().map(|answer| &answer["error"]);
            let said = error.and_then(|e| e["message"].as_str().or(e.as_str())).unwrap_or(&text);
            let said: String = said.trim().chars().take(300).collect();
            let advice = match status {
                401 | 403 => ": check TOOLRACK_API_KEY",
                404 => ": check TOOLRACK_BASE_URL and TOOLRACK_MODEL",
                429 => ": try again later",
                _ => "",
            };
            bail!("{} answered {status}{advice}; it says: {said}", self.url);
        }
        let answer = answer.ok_or_else(|| {
            anyhow!("{} did not answer with JSON: is it OpenAI-compatible?", self.url)
        })?;
        let choice = &answer["choices"][0];
        if !choice["message"].is_object() {
            bail!("{} answered without a message: is it OpenAI-compatible?", self.url);
        }
        if choice["finish_reason"] == "length" {
            bail!(
                "{} was cut off at its output limit: give the server a larger context or take \
                 another model",
                self.model
            );
        }
        self.answers += 1;
        Ok(as_sent_back(&choice["message"], self.answers))
    }
}

/// The message as history takes it: fields that servers refuse to read are left out, every call has
/// an id, and arguments are text.
fn as_sent_back(message: &Value, answer: usize) -> Value {
    let mut kept = json!({"role": "assistant", "content": message["content"]});
    let calls: Vec<Value> = openai::calls(message)
        .into_iter()
        .enumerate()
        .map(|(place, call)| {
            let id = call.id.filter(|id| !id.is_empty());
            let arguments = match call.arguments {
                Value::String(broken) => broken,
                value => value.to_string(),
            };
            json!({
                "id": id.unwrap_or_else(|| format!("call_{answer}_{place}")),
                "type": "function",
                "function": {"name": call.name, "arguments": arguments},
            })
        })
        .collect();
    if !calls.is_empty() {
        kept["tool_calls"] = Value::Array(calls);
    }
    kept
}
