//! A definition as it was read.

use std::sync::Arc;

use serde_json::value::RawValue;

use super::{NEST, Shape};
use crate::catalog::raw::{RawObject, raw};
use crate::error::Result;

/// A definition as it was read, so that it can be written in the same shape.
#[derive(Debug, Clone)]
pub(crate) struct Original {
    pub shape: Shape,
    /// The fields of the definition itself.
    pub fields: RawObject,
    /// The fields around it (OpenAI chat), with [`NEST`] where the definition goes.
    pub envelope: Option<RawObject>,
    /// Keys of `fields` that were understood.
    pub known: &'static [&'static str],
}

impl Original {
    /// The fields that were not understood, in order, those around the definition last. A type that
    /// is not the usual one of the shape is among them: what it makes of the tool is not known.
    pub(crate) fn unknown(&self) -> impl Iterator<Item = (&str, &Arc<RawValue>)> {
        let usual = match self.shape {
            Shape::Anthropic => r#""custom""#,
            _ => r#""function""#,
        };
        let is_known = move |known: &[&str], key: &str, value: &RawValue| {
            known.contains(&key) && (key != "type" || value.get() == usual)
        };
        let around = self.envelope.iter().flat_map(RawObject::iter);
        self.fields
            .iter()
            .filter(move |(key, value)| !is_known(self.known, key, value))
            .chain(around.filter(move |(key, value)| !is_known(&[NEST, "type"], key, value)))
    }

    /// The definition with another name, without the fields in `drop` and with those in `set`, in
    /// their place or at the end; everything else as it came.
    pub(crate) fn edited(
        &self,
        name: &str,
        drop: &[&str],
        set: &[(&str, Arc<RawValue>)],
    ) -> Result<Arc<RawValue>> {
        let set_to = |key: &str| set.iter().find(|(other, _)| *other == key).map(|(_, new)| new);
        let mut fields = RawObject::default();
        for (key, value) in self.fields.iter().filter(|(key, _)| !drop.contains(key)) {
            let value = if key == "name" { raw(&name)? } else { Arc::clone(value) };
            fields.push(key, set_to(key).map_or(value, Arc::clone));
        }
        for (key, value) in
            set.iter().filter(|(key, _)| drop.contains(key) || !self.fields.contains(key))
        {
            fields.push(*key, Arc::clone(value));
        }
        let Some(envelope) = &self.envelope else { return raw(&fields) };
        let mut outer = RawObject::default();
        for (key, value) in envelope.iter() {
            let value = if key == NEST { raw(&fields)? } else { Arc::clone(value) };
            outer.push(key, value);
        }
        raw(&outer)
    }
}
