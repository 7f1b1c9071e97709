//! A completion model for rig that plays a script and keeps what it was sent.

use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use futures::stream;
use rig_core::completion::options::{Mapping, OptionFields, OptionMap};
use rig_core::completion::{Accepts, CompletionRequest, FinishReason, ReplayTarget, Usage};
use rig_core::driver::{DynModel, Exchange, Model, Opened, Opening, Transport};
use rig_core::error::{EncodeError, ProviderError};
use rig_core::message::Api;
use rig_core::operation::{Block, CallFragment, Completion, Finish};
use rig_core::wire::document::{Reassemble, Serves};
use rig_core::wire::{Decoder, Descriptor, Flow, Mode, Out, Wire, WireEvent};
use serde_json::{Value, json};

/// What the model does next.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// Calls a tool; fails when it was not sent, since a model calls what it was sent.
    Call(&'static str, Value),
    /// Calls a tool whether it was sent or not.
    Guess(&'static str, Value),
    /// Ends the run with a text.
    Say(&'static str),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call(name, arguments) | Self::Guess(name, arguments) => {
                write!(f, "{name} {arguments}")
            }
            Self::Say(text) => write!(f, "\"{text}\""),
        }
    }
}

/// The tool names of every request.
pub(crate) type Log = Arc<Mutex<Vec<Vec<String>>>>;

/// The tool names of every request so far.
pub(crate) fn sent(log: &Log) -> Vec<Vec<String>> {
    log.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A model that plays `steps`, one a request.
pub(crate) fn scripted(steps: impl IntoIterator<Item = Step>) -> (DynModel<Completion>, Log) {
    let log = Log::default();
    let steps = Arc::new(Mutex::new(steps.into_iter().collect()));
    (Model::new(Script, Runtime { steps, log: Arc::clone(&log) }).erase(), log)
}

/// The model itself.
#[derive(Clone)]
struct Runtime {
    steps: Arc<Mutex<VecDeque<Step>>>,
    log: Log,
}

impl Transport<Script> for Runtime {
    fn send(&self, request: CompletionRequest, _exchange: Exchange) -> Opening<Frame> {
        let names: Vec<String> = request.tools.iter().map(|tool| tool.name.to_string()).collect();
        let step = self.steps.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let frames = match step {
            Some(Step::Call(name, _)) if !names.iter().any(|other| other == name) => {
                return Opening::failed(ProviderError::Provider(format!(
                    "the model wants {name} and was not sent it"
                )));
            }
            Some(Step::Call(name, arguments) | Step::Guess(name, arguments)) => {
                vec![Frame::Call(name, arguments.to_string()), Frame::Done(FinishReason::ToolCalls)]
            }
            Some(Step::Say(text)) => vec![Frame::Text(text), Frame::Done(FinishReason::Stop)],
            None => return Opening::failed(ProviderError::Provider("the script is over".into())),
        };
        self.log.lock().unwrap_or_else(PoisonError::into_inner).push(names);
        Opening::ready(Opened::new(stream::iter(frames.into_iter().map(Ok))))
    }
}

/// One piece of an answer.
#[derive(Debug, Clone)]
enum Frame {
    Text(&'static str),
    Call(&'static str, String),
    Done(FinishReason),
}

/// How rig talks to the model.
#[derive(Debug, Clone)]
struct Script;

impl Wire for Script {
    type Op = Completion;
    type Payload = CompletionRequest;
    type Frame = Frame;
    type Decoder<'id> = ScriptDecoder<'id>;
    type Reassembler = Document;

    fn describe(&self) -> Descriptor<'_> {
        Descriptor::new("script").replay(self)
    }

    fn encode(
        &self,
        request: CompletionRequest,
        _mode: Mode,
    ) -> Result<CompletionRequest, EncodeError> {
        Ok(request)
    }

    fn decoder<'id>(&self) -> ScriptDecoder<'id> {
        ScriptDecoder(PhantomData)
    }
}

/// Branded with the reply that it decodes, as rig demands.
struct ScriptDecoder<'id>(PhantomData<fn(&'id ()) -> &'id ()>);

impl<'id> Decoder<'id, Completion, Frame> for ScriptDecoder<'id> {
    type Event = Frame;

    fn classify(&self, frame: Frame) -> WireEvent<Frame> {
        WireEvent::Known(frame)
    }

    fn decode(
        &mut self,
        frame: Frame,
        mut out: Out<'id, Completion>,
    ) -> Result<Flow, ProviderError> {
        match frame {
            Frame::Text(text) => {
                out.run(Block::Text, text)?;
            }
            Frame::Call(name, arguments) => out.fragment(
                Some(0),
                CallFragment { id: Some("call"), name: Some(name), arguments: Some(&arguments) },
            )?,
            Frame::Done(reason) => {
                out.end_run()?;
                out.finish_open()?;
                let reason = Some(reason);
                return Ok(out.end(Finish {
                    usage: Usage::default(),
                    reason,
                    ..Finish::default()
                }));
            }
        }
        Ok(Flow::More)
    }
}

impl ReplayTarget for Script {
    fn api(&self) -> Api {
        Api::from_static("script")
    }

    fn provider(&self) -> &str {
        "script"
    }

    fn model(&self) -> &str {
        ""
    }

    fn accepts(&self, _model: &str) -> Accepts {
        Accepts::ALL
    }

    fn map_options(&self, _request: &CompletionRequest, fields: OptionFields<'_>) -> OptionMap {
        let ignored = |set: bool| {
            if set { Mapping::Omit("a script takes no options") } else { Mapping::Nothing }
        };
        OptionMap {
            reasoning: ignored(fields.reasoning.is_some()),
            cache: ignored(fields.cache.is_some()),
            service_tier: ignored(fields.service_tier.is_some()),
            verbosity: ignored(fields.verbosity.is_some()),
            parallel_tool_calls: ignored(fields.parallel_tool_calls.is_some()),
            top_p: ignored(fields.top_p.is_some()),
            seed: ignored(fields.seed.is_some()),
            stop: ignored(!fields.stop.is_empty()),
        }
    }
}

/// The answer as a document, which rig keeps with it.
#[derive(Default)]
struct Document(Vec<Value>);

impl Serves<Completion> for Document {}

impl Reassemble<Frame> for Document {
    fn absorb(&mut self, frame: &Frame) {
        match frame {
            Frame::Text(text) => self.0.push(json!({"text": text})),
            Frame::Call(name, arguments) => {
                self.0.push(json!({"name": name, "arguments": arguments}));
            }
            Frame::Done(_) => {}
        }
    }

    fn finish(self) -> Value {
        Value::Array(self.0)
    }
}
