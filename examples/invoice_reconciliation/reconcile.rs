//! The rules of reconciliation, over what the tools returned.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

/// An invoice as `billing/list_invoices` and `billing/get_invoice` give it.
#[derive(Debug, Clone, Deserialize)]
pub struct Invoice {
    pub id: String,
    pub customer_id: String,
    pub po_number: Option<String>,
    pub issue_date: String,
    pub due_date: String,
    pub currency: String,
    pub lines: Vec<Line>,
    pub tax_rate_bp: i64,
    pub total_cents: i64,
    pub status: String,
}

/// A line of an invoice.
#[derive(Debug, Clone, Deserialize)]
pub struct Line {
    pub quantity: i64,
    pub unit_price_cents: i64,
}

/// A payment as `ledger/list_payments` gives it.
#[derive(Debug, Clone, Deserialize)]
pub struct Payment {
    pub id: String,
    pub date: String,
    pub amount_cents: i64,
    pub currency: String,
    pub reference: String,
    pub customer_id: Option<String>,
    pub status: String,
}

/// A credit note as `billing/list_credit_notes` gives it.
#[derive(Debug, Clone, Deserialize)]
pub struct CreditNote {
    pub invoice_id: String,
    pub amount_cents: i64,
    pub status: String,
}

/// An early-payment discount as `contracts/get_contract_terms` gives it.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Discount {
    pub percent_bp: i64,
    pub days: i64,
}

/// An exchange rate as `fx/get_exchange_rate` gives it: a fraction, so that nothing is rounded
/// before the amount is.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Rate {
    pub numerator: i64,
    pub denominator: i64,
}

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    InvoiceArithmetic,
    MissingPayment,
    CurrencyDifference,
    DuplicatePayment,
    ShortPayment,
    UnappliedCash,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::InvoiceArithmetic => "invoice arithmetic",
            Self::MissingPayment => "missing payment",
            Self::CurrencyDifference => "currency difference",
            Self::DuplicatePayment => "duplicate payment",
            Self::ShortPayment => "short payment",
            Self::UnappliedCash => "unapplied cash",
        })
    }
}

/// Whether there is too little or too much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    Under,
    Over,
}

/// One thing that does not add up.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mismatch {
    pub kind: Kind,
    pub invoice_id: Option<String>,
    pub payment_id: Option<String>,
    pub customer_id: Option<String>,
    pub amount_cents: i64,
    pub currency: String,
    pub direction: Direction,
}

impl Mismatch {
    /// The record that it is about: the invoice, or the payment when there is none.
    pub fn record(&self) -> &str {
        self.invoice_id.as_deref().or(self.payment_id.as_deref()).unwrap_or("?")
    }

    /// The amount as people write it.
    pub fn amount(&self) -> String {
        money(self.amount_cents, &self.currency)
    }
}

/// `-1,234.50 EUR`.
pub fn money(cents: i64, currency: &str) -> String {
    let whole = thousands((cents.unsigned_abs() / 100) as usize);
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{whole}.{:02} {currency}", cents.abs() % 100)
}

/// `1,234,567`.
pub fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What has been read so far.
#[derive(Debug, Default)]
pub struct Books {
    /// Invoices of the month, and others that a payment named.
    pub invoices: Vec<Invoice>,
    /// Payments of all states.
    pub payments: Vec<Payment>,
    /// Credit notes of all states.
    pub credit_notes: Vec<CreditNote>,
    /// Discounts of the customers whose contracts were read.
    pub discounts: BTreeMap<String, Option<Discount>>,
    /// Month-end rates by payment currency and invoice currency.
    pub rates: BTreeMap<(String, String), Rate>,
}

/// What can be said from the books.
#[derive(Debug, Default)]
pub struct Findings {
    /// What does not add up, by invoice and payment.
    pub mismatches: Vec<Mismatch>,
    /// Short payments that a contract might allow.
    pub terms_wanted: Vec<Mismatch>,
    /// Payments in another currency than their invoice's.
    pub foreign: Vec<String>,
    /// Rates that are not known yet, from and to which currency.
    pub rates_wanted: BTreeSet<(String, String)>,
}

impl Books {
    /// Applies the rules to the invoices of `month` as of a day.
    pub fn reconcile(&self, month: &str, as_of: &str) -> Findings {
        let mut findings = Findings::default();
        let mut paid: BTreeMap<&str, Vec<&Payment>> = BTreeMap::new();
        for payment in self.settled() {
            match self.invoice_of(payment) {
                Some(invoice) => paid.entry(&invoice.id).or_default().push(payment),
                None => findings.mismatches.push(Mismatch {
                    kind: Kind::UnappliedCash,
                    invoice_id: None,
                    payment_id: Some(payment.id.clone()),
                    customer_id: payment.customer_id.clone(),
                    amount_cents: payment.amount_cents,
                    currency: payment.currency.clone(),
                    direction: Direction::Over,
                }),
            }
        }
        let in_scope =
            |invoice: &&Invoice| invoice.issue_date.starts_with(month) && invoice.status != "void";
        for invoice in self.invoices.iter().filter(in_scope) {
            let payments = paid.get(invoice.id.as_str()).map_or(&[][..], Vec::as_slice);
            self.check_total(invoice, &mut findings);
            if payments.iter().any(|payment| payment.currency != invoice.currency) {
                self.check_foreign(invoice, payments, &mut findings);
            } else {
                self.check_payments(invoice, payments, as_of, &mut findings);
            }
        }
        findings.mismatches.sort();
        findings
    }

    /// Ids of invoices that settled payments name and that were not read yet.
    pub fn named_elsewhere(&self) -> Vec<String> {
        let mut ids: Vec<String> = Vec::new();
        for payment in self.settled().filter(|payment| self.invoice_of(payment).is_none()) {
            let reference = normal(&payment.reference);
            let digits = reference.find("INV").and_then(|at| reference.get(at + 3..at + 11));
            let Some(digits) = digits.filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
            else {
                continue;
            };
            let id = format!("INV-{}-{}", &digits[..4], &digits[4..]);
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    fn settled(&self) -> impl Iterator<Item = &Payment> {
        self.payments.iter().filter(|payment| payment.status == "settled")
    }

    fn invoice_of(&self, payment: &Payment) -> Option<&Invoice> {
        let reference = normal(&payment.reference);
        let live = || self.invoices.iter().filter(|invoice| invoice.status != "void");
        let same_customer =
            |invoice: &Invoice| payment.customer_id.as_ref() == Some(&invoice.customer_id);
        let by_id = |invoice: &&Invoice| reference.contains(&normal(&invoice.id));
        let by_digits = |invoice: &&Invoice| {
            digits(&reference) == digits(&invoice.id)
                && same_customer(invoice)
                && payment.currency == invoice.currency
                && (payment.amount_cents - invoice.total_cents).abs() <= invoice.tolerance()
        };
        let by_order = |invoice: &&Invoice| {
            same_customer(invoice)
                && invoice.po_number.as_ref().is_some_and(|order| normal(order) == reference)
        };
        live().find(by_id).or_else(|| live().find(by_digits)).or_else(|| live().find(by_order))
    }

    fn owed(&self, invoice: &Invoice) -> i64 {
        let notes = self.credit_notes.iter();
        let issued = notes.filter(|note| note.invoice_id == invoice.id && note.status == "issued");
        invoice.total_cents - issued.map(|note| note.amount_cents).sum::<i64>()
    }

    fn check_total(&self, invoice: &Invoice, findings: &mut Findings) {
        let off = invoice.total_cents - invoice.right_total();
        if off.abs() > invoice.tolerance() {
            findings.mismatches.push(invoice.mismatch(Kind::InvoiceArithmetic, off, None));
        }
    }

    fn check_foreign(&self, invoice: &Invoice, payments: &[&Payment], findings: &mut Findings) {
        let owed = self.owed(invoice);
        let (mut received, mut foreign, mut unknown) = (0, None, false);
        for payment in payments {
            if payment.currency == invoice.currency {
                received += payment.amount_cents;
                continue;
            }
            foreign = Some(payment.id.clone());
            findings.foreign.push(payment.id.clone());
            let pair = (payment.currency.clone(), invoice.currency.clone());
            match self.rates.get(&pair) {
                Some(rate) => {
                    received += rounded(payment.amount_cents * rate.numerator, rate.denominator);
                }
                None => {
                    unknown = true;
                    findings.rates_wanted.insert(pair);
                }
            }
        }
        if unknown {
            return;
        }
        let off = received - owed;
        if off.abs() * 100 > owed {
            findings.mismatches.push(invoice.mismatch(Kind::CurrencyDifference, off, foreign));
        }
    }

    fn check_payments(
        &self,
        invoice: &Invoice,
        payments: &[&Payment],
        as_of: &str,
        findings: &mut Findings,
    ) {
        let (owed, tolerance) = (self.owed(invoice), invoice.tolerance());
        let past_due = invoice.due_date.as_str() < as_of;
        if payments.is_empty() {
            if past_due && owed > tolerance {
                findings.mismatches.push(invoice.mismatch(Kind::MissingPayment, -owed, None));
            }
            return;
        }
        let mut payments = payments.to_vec();
        payments.sort_by_key(|payment| (&payment.date, &payment.id));
        let mut received = 0;
        for (place, payment) in payments.iter().enumerate() {
            let same = |earlier: &&Payment| {
                (earlier.amount_cents - payment.amount_cents).abs() <= tolerance
            };
            if received >= owed - tolerance && payments[..place].iter().any(same) {
                let mut twice = invoice.mismatch(
                    Kind::DuplicatePayment,
                    payment.amount_cents,
                    Some(payment.id.clone()),
                );
                twice.direction = Direction::Over;
                findings.mismatches.push(twice);
            }
            received += payment.amount_cents;
        }
        if !past_due || received >= owed - tolerance {
            return;
        }
        let short = invoice.mismatch(Kind::ShortPayment, received - owed, None);
        let Some(discount) = self.discounts.get(&invoice.customer_id) else {
            findings.terms_wanted.push(short);
            return;
        };
        let in_time = |days: i64| {
            payments.iter().all(|p| day_number(&p.date) <= day_number(&invoice.issue_date) + days)
        };
        let allowed = discount
            .filter(|discount| in_time(discount.days))
            .map_or(0, |discount| rounded(invoice.total_cents * discount.percent_bp, 10_000));
        if received < owed - allowed - tolerance {
            findings.mismatches.push(short);
        }
    }
}

impl Invoice {
    /// What the total should have been.
    pub fn right_total(&self) -> i64 {
        let net: i64 = self.lines.iter().map(|line| line.quantity * line.unit_price_cents).sum();
        net + rounded(net * self.tax_rate_bp, 10_000)
    }

    fn tolerance(&self) -> i64 {
        self.lines.len() as i64
    }

    /// A mismatch of this invoice; `off` is negative when there is too little.
    fn mismatch(&self, kind: Kind, off: i64, payment_id: Option<String>) -> Mismatch {
        Mismatch {
            kind,
            invoice_id: Some(self.id.clone()),
            payment_id,
            customer_id: Some(self.customer_id.clone()),
            amount_cents: off.abs(),
            currency: self.currency.clone(),
            direction: if off < 0 { Direction::Under } else { Direction::Over },
        }
    }
}

/// `numerator / denominator`, half up; neither is negative.
fn rounded(numerator: i64, denominator: i64) -> i64 {
    (2 * numerator + denominator) / (2 * denominator)
}

fn normal(text: &str) -> String {
    text.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_uppercase()).collect()
}

fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

/// Days of an ISO date on a count without gaps, so that two of them can be subtracted
/// (howardhinnant.github.io/date_algorithms.html#days_from_civil, for years from 0 on).
fn day_number(date: &str) -> i64 {
    let mut parts = date.split('-').map(|part| part.parse::<i64>().unwrap_or(0));
    let (year, month, day) =
        (parts.next().unwrap_or(0), parts.next().unwrap_or(0), parts.next().unwrap_or(0));
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year / 4 - year / 100 + year / 400 + day_of_year
}
