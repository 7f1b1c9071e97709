//! The company that the agent works for: data that ships with the example, and the tools that run
//! on it. It knows nothing of reconciliation.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};
use toolrack::Tool;

use super::task::AS_OF;

/// What a tool answers: a value, or one sentence that says what was wrong with the call.
pub type Answer = std::result::Result<Value, String>;

/// The data of the company and what the agent changed.
#[derive(Debug)]
pub struct World {
    invoices: Vec<Value>,
    payments: Vec<Value>,
    credit_notes: Vec<Value>,
    customers: Vec<Value>,
    rates: Vec<Value>,
    tickets: Vec<Value>,
    people: Vec<Value>,
    /// The agent's notes.
    pub notes: BTreeMap<String, Value>,
    /// Tickets that the agent opened, in order.
    pub opened: Vec<Value>,
    /// Mail that the agent sent, in order.
    pub outbox: Vec<Value>,
}

impl World {
    /// The company as it is on the morning of the run.
    pub fn new() -> Result<Self> {
        let read = |name: &str, text: &str| -> Result<Vec<Value>> {
            serde_json::from_str(text).with_context(|| format!("{name} is no list of records"))
        };
        Ok(Self {
            invoices: read("invoices.json", include_str!("../data/invoices.json"))?,
            payments: read("payments.json", include_str!("../data/payments.json"))?,
            credit_notes: read("credit_notes.json", include_str!("../data/credit_notes.json"))?,
            customers: read("customers.json", include_str!("../data/customers.json"))?,
            rates: read("exchange_rates.json", include_str!("../data/exchange_rates.json"))?,
            tickets: read("tickets.json", include_str!("../data/tickets.json"))?,
            people: read("people.json", include_str!("../data/people.json"))?,
            notes: BTreeMap::new(),
            opened: Vec::new(),
            outbox: Vec::new(),
        })
    }

    /// Runs a tool.
    pub fn run(&mut self, tool: &Tool, arguments: &Value) -> Answer {
        let arguments = Arguments::check(tool, arguments)?;
        match tool.id().to_string().as_str() {
            "agent/read_state" => self.read_state(&arguments),
            "agent/write_state" => self.write_state(&arguments),
            "billing/list_invoices" => self.list_invoices(&arguments),
            "billing/get_invoice" => by_id(&self.invoices, arguments.text("invoice_id")),
            "billing/list_credit_notes" => self.list_credit_notes(&arguments),
            "ledger/list_payments" => self.list_payments(&arguments),
            "ledger/get_payment" => by_id(&self.payments, arguments.text("payment_id")),
            "fx/get_exchange_rate" => self.exchange_rate(&arguments),
            "contracts/get_contract_terms" => self.contract_terms(&arguments),
            "crm/get_customer" => self.customer(&arguments),
            "hr/search_employees" => self.search_employees(&arguments),
            "helpdesk/list_tickets" => self.list_tickets(&arguments),
            "helpdesk/create_ticket" => self.create_ticket(&arguments),
            "email/send_email" => {
                self.outbox.push(Value::Object(arguments.0.clone()));
                Ok(json!({"sent": true, "id": format!("MSG-{}", self.outbox.len())}))
            }
            other => Err(format!(
                "{other} is in the catalog but has no data behind it in this example: use another \
                 tool"
            )),
        }
    }

    /// Billing tickets that somebody is on, those that the agent opened included.
    pub fn billing_tickets_at_work(&self) -> impl Iterator<Item = &Value> {
        self.tickets.iter().chain(&self.opened).filter(|ticket| {
            ticket["category"] == "billing" && ticket["status"].as_str() != Some("closed")
        })
    }

    fn read_state(&self, arguments: &Arguments) -> Answer {
        Ok(match arguments.text("key") {
            Some(key) => json!({key: self.notes.get(key)}),
            None => json!(self.notes),
        })
    }

    fn write_state(&mut self, arguments: &Arguments) -> Answer {
        let key = arguments.text("key").unwrap_or_default();
        let mut value = arguments.get("value").cloned().unwrap_or_default();
        // Some models write lists and objects as JSON inside a string.
        if let Some(Ok(inner @ (Value::Array(_) | Value::Object(_)))) =
            value.as_str().map(serde_json::from_str)
        {
            value = inner;
        }
        self.notes.insert(key.to_owned(), value);
        Ok(json!({"saved": key}))
    }

    fn list_invoices(&self, arguments: &Arguments) -> Answer {
        let mut found = arguments.filter(&self.invoices, &["status", "customer_id"]);
        found.retain(|invoice| arguments.month_is("month", &invoice["issue_date"]));
        found.sort_by_key(|invoice| key(invoice, "issue_date"));
        found.reverse();
        if arguments.get("include_lines") != Some(&json!(true)) {
            for invoice in found.iter_mut().filter_map(Value::as_object_mut) {
                invoice
                    .retain(|field, _| !["lines", "tax_rate_bp", "tax_cents"].contains(&&**field));
            }
        }
        arguments.page("invoices", found, 20)
    }

    fn list_credit_notes(&self, arguments: &Arguments) -> Answer {
        let fields = ["invoice_id", "customer_id", "status"];
        let mut found = arguments.filter(&self.credit_notes, &fields);
        found.retain(|note| arguments.month_is("month", &note["date"]));
        Ok(json!({"credit_notes": found}))
    }

    fn list_payments(&self, arguments: &Arguments) -> Answer {
        let mut found = arguments.filter(&self.payments, &["status", "customer_id"]);
        found.retain(|payment| {
            arguments.month_is("month", &payment["date"])
                && arguments
                    .text("reference")
                    .is_none_or(|part| lower(&payment["reference"]).contains(&part.to_lowercase()))
        });
        found.sort_by_key(|payment| key(payment, "date"));
        arguments.page("payments", found, 20)
    }

    /// A fraction: direct rates as they are, others by way of the euro.
    fn exchange_rate(&self, arguments: &Arguments) -> Answer {
        let (base, quote) = (arguments.text("base"), arguments.text("quote"));
        let (base, quote) = (base.unwrap_or_default(), quote.unwrap_or_default());
        let asked = arguments.text("date").unwrap_or(AS_OF);
        let days = self.rates.iter().filter_map(|rate| rate["date"].as_str());
        let Some(day) = days.filter(|day| *day <= asked).max() else {
            return Err(format!("there are no rates on or before {asked}: ask for a later day"));
        };
        let of_euro = |currency: &str| -> std::result::Result<i64, String> {
            if currency == "EUR" {
                return Ok(1_000_000);
            }
            self.rates
                .iter()
                .find(|rate| rate["date"] == day && rate["quote"] == currency)
                .and_then(|rate| rate["rate_micros"].as_i64())
                .ok_or_else(|| {
                    format!("there is no rate for '{currency}': use EUR, USD, GBP or CHF")
                })
        };
        let (denominator, numerator) = (of_euro(base)?, of_euro(quote)?);
        Ok(json!({
            "base": base,
            "quote": quote,
            "date": day,
            "numerator": numerator,
            "denominator": denominator,
            "use": format!("{quote} = {base} x numerator / denominator"),
        }))
    }

    fn contract_terms(&self, arguments: &Arguments) -> Answer {
        let customer = by_id(&self.customers, arguments.text("customer_id"))?;
        let mut terms = customer["contract"].clone();
        let valid = terms["valid_until"].as_str().unwrap_or_default();
        let on = arguments.text("on").unwrap_or(AS_OF);
        if valid < on {
            return Err(format!("the contract ended on {valid}: ask for an earlier day"));
        }
        terms["customer_id"] = customer["id"].clone();
        terms["currency"] = customer["currency"].clone();
        Ok(terms)
    }

    fn customer(&self, arguments: &Arguments) -> Answer {
        let mut customer = by_id(&self.customers, arguments.text("customer_id"))?;
        if let Some(fields) = customer.as_object_mut() {
            fields.remove("contract");
        }
        Ok(customer)
    }

    fn search_employees(&self, arguments: &Arguments) -> Answer {
        let words = arguments.text("query").unwrap_or_default().to_lowercase();
        let mut found = arguments.filter(&self.people, &["team", "office"]);
        found.retain(|person| {
            let fields = ["name", "title", "team", "office"].map(|field| lower(&person[field]));
            words.split_whitespace().all(|word| fields.iter().any(|text| text.contains(word)))
        });
        Ok(json!({"employees": found}))
    }

    fn list_tickets(&self, arguments: &Arguments) -> Answer {
        let all: Vec<Value> = self.tickets.iter().chain(&self.opened).cloned().collect();
        let fields = ["status", "category", "customer_id", "related_record_id", "assignee_email"];
        arguments.page("tickets", arguments.filter(&all, &fields), 50)
    }

    fn create_ticket(&mut self, arguments: &Arguments) -> Answer {
        let assignee = arguments.text("assignee_email").unwrap_or("jonas.wendt@haldenmess.example");
        let ids =
            self.tickets.iter().chain(&self.opened).filter_map(|ticket| ticket["id"].as_str());
        let numbers = ids.filter_map(|id| id.strip_prefix("TCK-")?.parse::<u32>().ok());
        let ticket = json!({
            "id": format!("TCK-{}", numbers.max().unwrap_or(0) + 1),
            "subject": arguments.get("subject"),
            "description": arguments.get("description"),
            "status": "open",
            "priority": arguments.text("priority").unwrap_or("normal"),
            "category": arguments.get("category"),
            "related_record_id": arguments.get("related_record_id"),
            "customer_id": arguments.get("customer_id"),
            "assignee_email": assignee,
            "created_at": format!("{AS_OF}T09:00:00Z"),
            "closed_at": null,
        });
        self.opened.push(ticket.clone());
        Ok(ticket)
    }
}

/// Arguments that fit the tool's schema, nulls left out.
struct Arguments(Map<String, Value>);

impl Arguments {
    /// Checks names, presence and enumerations: a filter that was misspelt would give everything.
    fn check(tool: &Tool, arguments: &Value) -> std::result::Result<Self, String> {
        let Value::Object(given) = arguments else {
            return Err("the arguments are no JSON object: send one".into());
        };
        let mut given = given.clone();
        given.retain(|_, value| !value.is_null());
        let schema: Value =
            serde_json::from_str(tool.parameters().unwrap_or("{}")).unwrap_or_default();
        let known = schema["properties"].as_object().cloned().unwrap_or_default();
        for (name, value) in &given {
            let Some(property) = known.get(name) else {
                let mut names: Vec<&str> = known.keys().map(String::as_str).collect();
                // A dependency may make serde_json keep the order of the file.
                names.sort_unstable();
                return Err(format!(
                    "there is no argument '{name}': use some of {}",
                    names.join(", ")
                ));
            };
            if property["type"] == "string" && !value.is_string() {
                return Err(format!("'{name}' has to be a string"));
            }
            if let Some(allowed) = property["enum"].as_array().filter(|list| !list.contains(value))
            {
                let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
                return Err(format!("'{name}' has to be one of {}", allowed.join(", ")));
            }
        }
        let required = schema["required"].as_array().into_iter().flatten();
        match required.filter_map(Value::as_str).find(|name| !given.contains_key(*name)) {
            Some(missing) => Err(format!("'{missing}' is missing: add it")),
            None => Ok(Self(given)),
        }
    }

    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name)
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name)?.as_str()
    }

    /// The records whose `fields` are as asked; a list allows each of its values.
    fn filter(&self, records: &[Value], fields: &[&str]) -> Vec<Value> {
        let fits = |record: &&Value| {
            fields.iter().all(|field| match self.get(field) {
                None => true,
                Some(Value::Array(allowed)) => {
                    allowed.is_empty() || allowed.contains(&record[*field])
                }
                Some(value) => record[*field] == *value,
            })
        };
        records.iter().filter(fits).cloned().collect()
    }

    fn month_is(&self, name: &str, date: &Value) -> bool {
        self.text(name).is_none_or(|month| date.as_str().is_some_and(|day| day.starts_with(month)))
    }

    /// One page of `records` under `name`; the cursor says where the next one begins.
    fn page(&self, name: &str, records: Vec<Value>, default: usize) -> Answer {
        let size = match self.get("limit").map(Value::as_u64) {
            None => default,
            Some(Some(limit @ 1..=100)) => limit as usize,
            Some(_) => return Err("'limit' has to be a whole number from 1 to 100".into()),
        };
        let start = match self.text("cursor") {
            None => 0,
            Some(cursor) => cursor
                .strip_prefix("from-")
                .and_then(|place| place.parse().ok())
                .ok_or("the cursor is unknown: use next_cursor of the previous page")?,
        };
        let total = records.len();
        let page: Vec<Value> = records.into_iter().skip(start).take(size).collect();
        let end = start.saturating_add(page.len());
        let next = (end < total).then(|| format!("from-{end}"));
        Ok(json!({name: page, "total": total, "next_cursor": next}))
    }
}

fn by_id(records: &[Value], id: Option<&str>) -> Answer {
    let id = id.unwrap_or_default();
    records
        .iter()
        .find(|record| record["id"] == id)
        .cloned()
        .ok_or_else(|| format!("there is no record {id}"))
}

fn lower(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_lowercase()
}

fn key(record: &Value, date: &str) -> (String, String) {
    let text = |field: &str| record[field].as_str().unwrap_or_default().to_owned();
    (text(date), text("id"))
}
