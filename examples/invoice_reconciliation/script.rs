//! A model that needs no network: it follows a plan, but sees only what it is sent.
//!
//! Each answer is a function of the request. It reads the tool list for what it wants to call, asks
//! `find_tool` for what is not there, in other words if the first did not help, and fails when it
//! runs out of words. Whatever it says about invoices comes from tool results in the conversation.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::agent::{Model, Request};
use super::reconcile::{Direction, Findings, Invoice, Kind, Mismatch, money};
use super::seen::{Seen, Wanted, record};
use super::task::{AS_OF, FINDINGS};

const MONTH: &str = "2026-10";
const NEXT_MONTH: &str = "2026-11";
const MONTH_END: &str = "2026-10-31";

/// The tools of the plan, and how it asks for each one that it does not see.
const WORDS: [(&str, [&str; 2]); 12] = [
    (
        "billing__list_invoices",
        ["list the invoices that were issued in a month", "customer invoices with their lines"],
    ),
    (
        "billing__get_invoice",
        ["get one invoice in full, with lines, tax and total", "look up an invoice by its number"],
    ),
    (
        "billing__list_credit_notes",
        ["list credit notes that correct invoices", "which credit notes were issued"],
    ),
    (
        "ledger__list_payments",
        ["list incoming payments booked in the ledger", "which money came in during a month"],
    ),
    (
        "ledger__get_payment",
        ["get one payment with its reference text", "look up a booked payment by its id"],
    ),
    (
        "fx__get_exchange_rate",
        ["exchange rate between two currencies on a day", "month-end reference rate"],
    ),
    (
        "contracts__get_contract_terms",
        ["early-payment discount in a customer's contract", "commercial terms of a customer"],
    ),
    (
        "crm__get_customer",
        ["customer record with the account owner on our side", "look up a customer by its id"],
    ),
    (
        "helpdesk__list_tickets",
        ["see whether a case is already being handled", "list open support tickets of a customer"],
    ),
    (
        "helpdesk__create_ticket",
        ["create a case for a customer and assign it to a person", "open a new helpdesk ticket"],
    ),
    (
        "hr__search_employees",
        ["find a colleague by job title", "look people up in the staff directory"],
    ),
    (
        "email__send_email",
        ["send an email to a colleague", "send a message from my mailbox at once"],
    ),
];

/// What the model wants to do next.
enum Move {
    Call(Vec<Wanted>),
    Say(String),
}

/// The scripted model. It keeps nothing between requests.
#[derive(Debug, Default)]
pub struct Script;

impl Model for Script {
    fn respond(&mut self, request: &Request) -> Result<Value> {
        let seen = Seen::read(request)?;
        match seen.next()? {
            Move::Say(text) => Ok(json!({"role": "assistant", "content": text})),
            Move::Call(wanted) => {
                let (mut calls, missing): (Vec<Wanted>, Vec<Wanted>) =
                    wanted.into_iter().partition(|(tool, _)| seen.tools.contains(*tool));
                let missing: BTreeSet<&str> = missing.into_iter().map(|(tool, _)| tool).collect();
                for tool in missing {
                    calls.push(("find_tool", json!({"intent": seen.words_for(tool)?})));
                }
                Ok(seen.calls(calls))
            }
        }
    }
}

impl Seen {
    /// The first words that were not tried since the tool was last there, or the user spoke.
    fn words_for(&self, tool: &str) -> Result<&'static str> {
        let (_, words) =
            WORDS.iter().find(|(name, _)| *name == tool).context("a tool without words")?;
        let recent = || self.exchanges.iter().rev().take_while(|x| x.message == self.message);
        let lacking = || recent().take_while(|x| x.tool != tool);
        let tried = |intent: &str| lacking().any(|x| x.arguments["intent"] == intent);
        match words.iter().find(|intent| !tried(intent)) {
            Some(intent) if self.tools.contains("find_tool") => Ok(intent),
            Some(_) => bail!("the scripted model wants {tool} and has no find_tool to ask for it"),
            None => bail!(
                "the scripted model wants {tool}, but find_tool did not bring it for: {}",
                words.join("; ")
            ),
        }
    }

    fn next(&self) -> Result<Move> {
        match self.message {
            1 => self.compare(),
            2 => self.value(),
            3 => self.owners(),
            4 => self.follow_up(),
            5 => self.look_again(),
            6 => self.report(),
            n => bail!("the scripted model has no plan for message {n}"),
        }
    }

    fn compare(&self) -> Result<Move> {
        if !self.was_called_now("agent__read_state") {
            return Ok(Move::Call(vec![("agent__read_state", json!({}))]));
        }
        let listing = |cursor: Option<&Value>| {
            let mut call = json!({"month": MONTH, "include_lines": true, "limit": 40});
            if let Some(cursor) = cursor {
                call["cursor"] = cursor.clone();
            }
            call
        };
        let calls = self.next_page("billing__list_invoices", &listing);
        if !calls.is_empty() {
            return Ok(Move::Call(calls));
        }
        let mut calls = Vec::new();
        for month in [MONTH, NEXT_MONTH] {
            calls.extend(self.next_page("ledger__list_payments", &|cursor| {
                let mut call = json!({"month": month, "limit": 40});
                if let Some(cursor) = cursor {
                    call["cursor"] = cursor.clone();
                }
                call
            }));
        }
        if !calls.is_empty() {
            return Ok(Move::Call(calls));
        }
        if !self.was_called_now("billing__list_credit_notes") {
            return Ok(Move::Call(vec![("billing__list_credit_notes", json!({}))]));
        }
        let calls =
            self.missing("billing__get_invoice", "invoice_id", self.books()?.named_elsewhere());
        if !calls.is_empty() {
            return Ok(Move::Call(calls));
        }
        let findings = self.findings()?;
        Ok(self.noted(FINDINGS, json!(findings.mismatches), || {
            format!(
                "{} things do not add up so far: {}. {} short payments may be early-payment \
                 discounts, and {} payments came in another currency; I have not judged those yet.",
                findings.mismatches.len(),
                counts(&findings.mismatches),
                findings.terms_wanted.len(),
                findings.foreign.len(),
            )
        }))
    }

    fn value(&self) -> Result<Move> {
        let findings = self.findings()?;
        let customers = findings.terms_wanted.iter().filter_map(|short| short.customer_id.clone());
        let mut calls = self.missing("contracts__get_contract_terms", "customer_id", customers);
        for (base, quote) in &findings.rates_wanted {
            let rate = json!({"base": base, "quote": quote, "date": MONTH_END});
            calls.push(("fx__get_exchange_rate", rate));
        }
        calls.extend(self.missing("ledger__get_payment", "payment_id", findings.foreign.clone()));
        if !calls.is_empty() {
            return Ok(Move::Call(calls));
        }
        Ok(self.noted(FINDINGS, json!(findings.mismatches), || {
            let of = |kind: Kind| {
                let list = findings.mismatches.iter().filter(|found| found.kind == kind);
                let list: Vec<String> =
                    list.map(|found| format!("{} ({})", found.record(), found.amount())).collect();
                list.join(", ")
            };
            format!(
                "Not covered by a contract: {}. More than 1 % apart at the month-end rate: {}. \
                 That makes {} mismatches in all.",
                of(Kind::ShortPayment),
                of(Kind::CurrencyDifference),
                findings.mismatches.len(),
            )
        }))
    }

    fn owners(&self) -> Result<Move> {
        let findings = self.findings()?;
        let customers = findings.mismatches.iter().filter_map(|found| found.customer_id.clone());
        let calls = self.missing("crm__get_customer", "customer_id", customers);
        if !calls.is_empty() {
            return Ok(Move::Call(calls));
        }
        let mut by_owner: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for found in &findings.mismatches {
            by_owner.entry(self.owner_of(found)).or_default().push(found.record());
        }
        let list: Vec<String> = by_owner
            .iter()
            .map(|(owner, records)| format!("{owner}: {}", records.join(", ")))
            .collect();
        Ok(Move::Say(format!("{}.", list.join("; "))))
    }

    fn follow_up(&self) -> Result<Move> {
        if !self.was_called_now("helpdesk__list_tickets") {
            let call = json!({"status": ["open", "pending"], "category": "billing"});
            return Ok(Move::Call(vec![("helpdesk__list_tickets", call)]));
        }
        let findings = self.findings()?;
        let (handled, rest): (Vec<&Mismatch>, Vec<&Mismatch>) =
            findings.mismatches.iter().partition(|found| self.ticket_about(found).is_some());
        let calls: Vec<Wanted> = rest
            .into_iter()
            .filter(|found| self.opened_for(found).is_none())
            .map(|found| ("helpdesk__create_ticket", self.ticket(found)))
            .collect();
        if !calls.is_empty() {
            return Ok(Move::Call(calls));
        }
        let opened: BTreeMap<&str, String> = findings
            .mismatches
            .iter()
            .filter_map(|found| Some((found.record(), self.opened_for(found)?)))
            .collect();
        let handled: Vec<String> = handled
            .iter()
            .filter_map(|found| Some(format!("{} ({})", found.record(), self.ticket_about(found)?)))
            .collect();
        Ok(self.noted("tickets", json!({"opened": opened, "already_handled": handled}), || {
            format!(
                "{} follow-ups are with the account owners. Somebody was already on {}.",
                opened.len(),
                handled.join(", ")
            )
        }))
    }

    fn look_again(&self) -> Result<Move> {
        let findings = self.findings()?;
        let wrong = findings.mismatches.iter().filter(|m| m.kind == Kind::InvoiceArithmetic);
        let ids: Vec<String> = wrong.filter_map(|found| found.invoice_id.clone()).collect();
        if !self.was_called_now("billing__get_invoice") {
            let call = |id: String| ("billing__get_invoice", json!({"invoice_id": id}));
            return Ok(Move::Call(ids.into_iter().map(call).collect()));
        }
        let mut said = Vec::new();
        for exchange in self.now("billing__get_invoice") {
            let invoice: Invoice = record(&exchange.result)?;
            said.push(format!(
                "{} says {} and should say {}",
                invoice.id,
                money(invoice.total_cents, &invoice.currency),
                money(invoice.right_total(), &invoice.currency),
            ));
        }
        Ok(Move::Say(format!("{}.", said.join("; "))))
    }

    fn report(&self) -> Result<Move> {
        if !self.was_called_now("agent__read_state") {
            return Ok(Move::Call(vec![("agent__read_state", json!({}))]));
        }
        let Some(search) = self.now("hr__search_employees").next() else {
            return Ok(Move::Call(vec![(
                "hr__search_employees",
                json!({"query": "finance lead"}),
            )]));
        };
        let lead = &search.result["employees"][0];
        let to = lead["email"].as_str().context("the staff directory knows no finance lead")?;
        let notes = self.now("agent__read_state").next().map_or(&Value::Null, |x| &x.result);
        let found: Vec<Mismatch> = record(&notes[FINDINGS])?;
        let opened = notes["tickets"]["opened"].as_object().map_or(0, serde_json::Map::len);
        if !self.was_called_now("email__send_email") {
            let mut lines: Vec<String> = found
                .iter()
                .map(|m| format!("- {}, {}: {}", m.kind, m.record(), signed(m)))
                .collect();
            lines.push(format!("Started: {opened} tickets. {}.", notes["tickets"]["opened"]));
            lines.push(format!("Open from before: {}.", notes["tickets"]["already_handled"]));
            let mail = json!({
                "to": [to],
                "subject": format!("Invoices of {MONTH}: {} mismatches", found.len()),
                "body": lines.join("\n"),
            });
            return Ok(Move::Call(vec![("email__send_email", mail)]));
        }
        Ok(Move::Say(format!(
            "Sent to {}: {} mismatches, {opened} tickets started, none of them settled yet.",
            lead["name"].as_str().unwrap_or(to),
            found.len(),
        )))
    }

    /// Saves the note, and speaks when it is saved.
    fn noted(&self, key: &str, value: Value, say: impl FnOnce() -> String) -> Move {
        if self.was_called_now("agent__write_state") {
            return Move::Say(say());
        }
        Move::Call(vec![("agent__write_state", json!({"key": key, "value": value}))])
    }

    fn findings(&self) -> Result<Findings> {
        Ok(self.books()?.reconcile(MONTH, AS_OF))
    }

    /// E-mail address of the account owner, as the customer record gives it.
    fn owner_of(&self, found: &Mismatch) -> String {
        let customer = found.customer_id.as_deref();
        self.all("crm__get_customer")
            .find(|exchange| exchange.result["id"].as_str() == customer && customer.is_some())
            .and_then(|exchange| exchange.result["account_owner"]["email"].as_str())
            .unwrap_or("ar@haldenmess.example")
            .to_owned()
    }

    /// An open or pending ticket that was there before.
    fn ticket_about(&self, found: &Mismatch) -> Option<String> {
        let tickets =
            self.all("helpdesk__list_tickets").filter_map(|x| x.result["tickets"].as_array());
        let about = |ticket: &&Value| {
            let record = ticket["related_record_id"].as_str();
            record.is_some()
                && (record == found.invoice_id.as_deref() || record == found.payment_id.as_deref())
        };
        tickets.flatten().find(about)?["id"].as_str().map(str::to_owned)
    }

    fn opened_for(&self, found: &Mismatch) -> Option<String> {
        self.all("helpdesk__create_ticket")
            .find(|exchange| exchange.arguments["related_record_id"] == found.record())?
            .result["id"]
            .as_str()
            .map(str::to_owned)
    }

    fn ticket(&self, found: &Mismatch) -> Value {
        let mut ticket = json!({
            "subject": format!("{}: {} {}", found.record(), found.kind, signed(found)),
            "description": format!(
                "Found when the invoices of {MONTH} were compared with the ledger on {AS_OF}. \
                 Invoice: {}. Payment: {}.",
                found.invoice_id.as_deref().unwrap_or("none"),
                found.payment_id.as_deref().unwrap_or("see the ledger"),
            ),
            "category": "billing",
            "assignee_email": self.owner_of(found),
            "related_record_id": found.record(),
        });
        if let Some(customer) = &found.customer_id {
            ticket["customer_id"] = json!(customer);
        }
        ticket
    }
}

fn signed(found: &Mismatch) -> String {
    let direction = match found.direction {
        Direction::Under => "too little",
        Direction::Over => "too much",
    };
    format!("{} {direction}", found.amount())
}

fn counts(list: &[Mismatch]) -> String {
    let mut counts: BTreeMap<Kind, usize> = BTreeMap::new();
    for found in list {
        *counts.entry(found.kind).or_default() += 1;
    }
    let parts: Vec<String> = counts.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    parts.join(", ")
}
