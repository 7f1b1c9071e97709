//! What a request holds, as a model has to read it: the tool list, and what tools returned.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use toolrack::{Call, openai};

use super::agent::Request;
use super::reconcile::{Books, Discount, Invoice, Rate};

/// A call that the model wants to make.
pub type Wanted = (&'static str, Value);

/// A call in the conversation and what it gave.
pub struct Exchange {
    /// Number of the user's message before it.
    pub message: usize,
    pub tool: String,
    pub arguments: Value,
    pub result: Value,
}

/// What the request holds.
pub struct Seen {
    /// Names in the tool list.
    pub tools: BTreeSet<String>,
    /// User messages so far.
    pub message: usize,
    pub exchanges: Vec<Exchange>,
}

impl Seen {
    /// What `request` holds.
    pub fn read(request: &Request) -> Result<Self> {
        let mut tools = BTreeSet::new();
        for definition in request.tools.iter() {
            let definition: Value = serde_json::from_str(definition)?;
            tools.extend(definition["function"]["name"].as_str().map(str::to_owned));
        }
        let mut seen = Self { tools, message: 0, exchanges: Vec::new() };
        let mut open: BTreeMap<String, Call> = BTreeMap::new();
        for message in &request.messages {
            match message["role"].as_str() {
                Some("user") => seen.message += 1,
                Some("assistant") => {
                    for call in openai::calls(message) {
                        open.insert(call.id.clone().context("a call without an id")?, call);
                    }
                }
                Some("tool") => {
                    let id = message["tool_call_id"].as_str().unwrap_or_default();
                    let call = open.remove(id).context("an answer to no call")?;
                    let content = message["content"].as_str().unwrap_or_default();
                    seen.exchanges.push(Exchange {
                        message: seen.message,
                        tool: call.name,
                        arguments: call.arguments,
                        result: serde_json::from_str(content).unwrap_or_else(|_| content.into()),
                    });
                }
                _ => {}
            }
        }
        Ok(seen)
    }

    /// An assistant's message with these calls; ids count through the conversation.
    pub fn calls(&self, calls: Vec<Wanted>) -> Value {
        let calls: Vec<Value> = calls
            .into_iter()
            .enumerate()
            .map(|(place, (name, arguments))| {
                json!({
                    "id": format!("call_{}", self.exchanges.len() + place + 1),
                    "type": "function",
                    "function": {"name": name, "arguments": arguments.to_string()},
                })
            })
            .collect();
        json!({"role": "assistant", "content": null, "tool_calls": calls})
    }

    /// Exchanges with `tool` since the user's last message.
    pub fn now<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a Exchange> {
        self.all(tool).filter(|exchange| exchange.message == self.message)
    }

    /// Exchanges with `tool` in the whole conversation.
    pub fn all<'a>(&'a self, tool: &'a str) -> impl Iterator<Item = &'a Exchange> {
        self.exchanges.iter().filter(move |exchange| exchange.tool == tool)
    }

    /// Whether `tool` was called since the user's last message.
    pub fn was_called_now(&self, tool: &str) -> bool {
        self.now(tool).next().is_some()
    }

    /// Calls for those of `ids` that were not asked before, each once.
    pub fn missing(
        &self,
        tool: &'static str,
        argument: &str,
        ids: impl IntoIterator<Item = String>,
    ) -> Vec<Wanted> {
        let ids: BTreeSet<String> = ids.into_iter().collect();
        let asked = |id: &String| self.all(tool).any(|x| x.arguments[argument] == **id);
        ids.into_iter().filter(|id| !asked(id)).map(|id| (tool, json!({argument: id}))).collect()
    }

    /// The call for the first page that was not read yet; none when the listing is complete.
    pub fn next_page(
        &self,
        tool: &'static str,
        call: &dyn Fn(Option<&Value>) -> Value,
    ) -> Vec<Wanted> {
        let mut wanted = call(None);
        while let Some(page) = self.all(tool).find(|exchange| exchange.arguments == wanted) {
            match &page.result["next_cursor"] {
                Value::Null => return Vec::new(),
                cursor => wanted = call(Some(cursor)),
            }
        }
        vec![(tool, wanted)]
    }

    /// Everything that was read in this conversation.
    pub fn books(&self) -> Result<Books> {
        let mut books = Books::default();
        for exchange in &self.exchanges {
            let result = &exchange.result;
            match exchange.tool.as_str() {
                "billing__list_invoices" => books.invoices.extend(records(result, "invoices")?),
                "billing__get_invoice" if result.get("error").is_none() => {
                    let invoice: Invoice = record(result)?;
                    if books.invoices.iter().all(|known| known.id != invoice.id) {
                        books.invoices.push(invoice);
                    }
                }
                "billing__list_credit_notes" => {
                    books.credit_notes.extend(records(result, "credit_notes")?);
                }
                "ledger__list_payments" => books.payments.extend(records(result, "payments")?),
                "contracts__get_contract_terms" => {
                    let discount: Option<Discount> = record(&result["early_payment_discount"])?;
                    let customer = text(&result["customer_id"])?;
                    books.discounts.insert(customer, discount);
                }
                "fx__get_exchange_rate" => {
                    let pair = (text(&result["base"])?, text(&result["quote"])?);
                    books.rates.insert(pair, record::<Rate>(result)?);
                }
                _ => {}
            }
        }
        Ok(books)
    }
}

/// `value` as a record of this form.
pub fn record<T: DeserializeOwned>(value: &Value) -> Result<T> {
    T::deserialize(value).with_context(|| format!("a tool answered in an unknown form: {value}"))
}

fn records<T: DeserializeOwned>(result: &Value, field: &str) -> Result<Vec<T>> {
    record(&result[field])
}

fn text(value: &Value) -> Result<String> {
    record(value)
}
