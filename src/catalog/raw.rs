//! JSON objects whose fields keep their bytes and their order.

use std::fmt;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::error::{Error, ErrorKind, Result};

/// A JSON object as it was written: fields in order, every value byte for byte.
///
/// `serde_json::Map` would sort the keys (or not, depending on what another crate switches on) and
/// rewrite numbers and white space; a tool definition has to come out as it went in.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawObject(Vec<(String, Arc<RawValue>)>);

impl RawObject {
    /// The object in `text`, or `None` when `text` is any other JSON.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// The value of `key`, the last one when the key is repeated, as JSON readers do.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<RawValue>> {
        self.0.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn contains(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &Arc<RawValue>)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn push(&mut self, key: impl Into<String>, value: Arc<RawValue>) {
        self.0.push((key.into(), value));
    }

    /// Takes out what is at `key`, every time.
    pub(crate) fn remove(&mut self, key: &str) {
        self.0.retain(|(name, _)| name != key);
    }

    /// Of each of `keys` that is repeated leaves the last one, which is the one that counts.
    pub(crate) fn keep_last(&mut self, keys: &[&str]) {
        for key in keys {
            let mut more = self.0.iter().filter(|(name, _)| name == key).count();
            self.0.retain(|(name, _)| {
                let is_before_last = name == key && more > 1;
                more -= usize::from(name == key);
                !is_before_last
            });
        }
    }

    /// The string at `key`: `None` when absent or null, an error when of another type.
    pub(crate) fn string(&self, key: &str) -> Result<Option<String>> {
        self.typed(key, "a string")
    }

    /// The list of strings at `key`, empty when absent or null.
    pub(crate) fn strings(&self, key: &str) -> Result<Vec<String>> {
        Ok(self.typed(key, "a list of strings")?.unwrap_or_default())
    }

    /// The boolean at `key`.
    pub(crate) fn boolean(&self, key: &str) -> Result<Option<bool>> {
        self.typed(key, "true or false")
    }

    /// The object at `key`.
    pub(crate) fn object(&self, key: &str) -> Result<Option<Self>> {
        self.typed(key, "an object")
    }

    fn typed<T: for<'a> Deserialize<'a>>(&self, key: &str, expected: &str) -> Result<Option<T>> {
        match self.get(key) {
            None => Ok(None),
            Some(raw) => serde_json::from_str(raw.get()).map_err(|_| {
                let found = describe(raw.get());
                let message = if found == expected {
                    format!("field '{key}' has an escape that is no character: mend its text")
                } else {
                    format!("field '{key}' is {found}, not {expected}: give {expected}")
                };
                Error::new(ErrorKind::InvalidTool, message)
            }),
        }
    }
}

/// A few words for what kind of JSON `text` is.
pub(crate) fn describe(text: &str) -> &'static str {
    match text.trim_start().as_bytes().first() {
        Some(b'{') => "an object",
        Some(b'[') => "a list",
        Some(b'"') => "a string",
        Some(b't' | b'f') => "a boolean",
        Some(b'n') => "null",
        Some(_) => "a number",
        None => "nothing",
    }
}

/// Any JSON value as its raw bytes.
pub(crate) fn raw(value: &impl Serialize) -> Result<Arc<RawValue>> {
    serde_json::value::to_raw_value(value).map(Arc::from).map_err(|error| {
        Error::new(ErrorKind::Format, "a value cannot be written as JSON").with_source(error)
    })
}

impl<'de> Deserialize<'de> for RawObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = RawObject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawObject, A::Error> {
                let mut fields = Vec::new();
                while let Some((key, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    fields.push((key, Arc::from(value)));
                }
                Ok(RawObject(fields))
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

impl Serialize for RawObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}
