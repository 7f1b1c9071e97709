//! What an ONNX file says that it takes and gives.
//!
//! ONNX Runtime would tell as well, but only once the model runs and in its own words; fastembed
//! does not pass the session on. The few protobuf fields that matter are walked by hand instead of
//! adding a protobuf compiler. Field numbers: <https://github.com/onnx/onnx/blob/v1.17.0/onnx/onnx.proto>.

use crate::error::{Error, ErrorKind, Result};

/// Inputs that fastembed can fill.
const INPUTS: [&str; 3] = ["input_ids", "attention_mask", "token_type_ids"];

/// Outputs that fastembed picks out of several.
const OUTPUTS: [&str; 3] = ["text_embeds", "last_hidden_state", "sentence_embedding"];

// TensorProto.DataType.
const FLOAT: u64 = 1;
const INT64: u64 = 7;

/// A named tensor of the graph's signature.
#[derive(Debug, PartialEq, Eq)]
struct Port {
    name: String,
    /// `None` when the file does not say.
    element: Option<u64>,
    /// `None` when the file does not say.
    rank: Option<usize>,
}

/// What is needed to know of a graph that fits.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Graph {
    /// Activations are quantised by the range that they have in the whole batch, so that a text's
    /// vector depends on the texts beside it.
    pub dynamic: bool,
}

/// Checks that `model` takes tokens and gives vectors; `place` names the file in errors.
///
/// # Errors
/// [`ErrorKind::ModelFile`] when the bytes are no whole ONNX model or its signature is another.
pub(super) fn check(model: &[u8], place: &str) -> Result<Graph> {
    let unfit = |message: String| Error::new(ErrorKind::ModelFile, format!("{place} {message}"));
    let Some((inputs, outputs, dynamic)) = signature(model) else {
        return Err(unfit("is damaged or not an ONNX model: fetch it again".into()));
    };
    for port in &inputs {
        if !INPUTS.contains(&port.name.as_str()) {
            return Err(unfit(format!(
                "asks for an input '{}', but a text model takes input_ids, attention_mask and \
                 token_type_ids: use the file of a text embedding model",
                port.name
            )));
        }
        if port.element.is_some_and(|element| element != INT64) {
            return Err(unfit(format!(
                "does not take int64 numbers for '{}': export it with int64 inputs",
                port.name
            )));
        }
    }
    // fastembed feeds these two to every model, and ONNX Runtime refuses what it does not know.
    for name in &INPUTS[..2] {
        if !inputs.iter().any(|port| port.name == *name) {
            return Err(unfit(format!(
                "has no input '{name}': use the file of a text embedding model, exported with \
                 input_ids and attention_mask"
            )));
        }
    }
    let output = match outputs.as_slice() {
        [only] if only.name != "logits" => Some(only),
        several => OUTPUTS.iter().find_map(|name| several.iter().find(|port| port.name == *name)),
    };
    let Some(output) = output else {
        let names: Vec<&str> = outputs.iter().map(|port| port.name.as_str()).collect();
        return Err(unfit(format!(
            "gives {} but neither last_hidden_state nor text_embeds nor sentence_embedding: use \
             the file of a text embedding model",
            if names.is_empty() { "nothing".to_string() } else { names.join(", ") }
        )));
    };
    let fits = output.element.is_none_or(|element| element == FLOAT)
        && output.rank.is_none_or(|rank| rank == 2 || rank == 3);
    if !fits {
        return Err(unfit(format!(
            "gives '{}' in another form than 32-bit floats per text or per token: export it so",
            output.name
        )));
    }
    Ok(Graph { dynamic })
}

/// Inputs (without those that have a default in the file) and outputs of the model's graph, and
/// whether it quantises dynamically.
fn signature(model: &[u8]) -> Option<(Vec<Port>, Vec<Port>, bool)> {
    let graph = first(model, 7)?;
    let (mut inputs, mut outputs, mut defaults) = (Vec::new(), Vec::new(), Vec::new());
    let mut dynamic = false;
    for field in Fields(graph) {
        match field? {
            (1, Value::Bytes(node)) => {
                // DynamicQuantizeLinear and com.microsoft's DynamicQuantizeMatMul.
                dynamic |= first(node, 4).is_some_and(|kind| kind.starts_with(b"DynamicQuantize"));
            }
            (5, Value::Bytes(tensor)) => defaults.push(text(tensor, 8)?),
            (11, Value::Bytes(value)) => inputs.push(port(value)?),
            (12, Value::Bytes(value)) => outputs.push(port(value)?),
            _ => {}
        }
    }
    inputs.retain(|input: &Port| !defaults.contains(&input.name));
    Some((inputs, outputs, dynamic))
}

fn port(value: &[u8]) -> Option<Port> {
    let tensor = first(value, 2).and_then(|kind| first(kind, 1));
    let element = tensor.and_then(|tensor| {
        Fields(tensor).flatten().find_map(|field| match field {
            (1, Value::Number(number)) => Some(number),
            _ => None,
        })
    });
    let rank = tensor
        .and_then(|tensor| first(tensor, 2))
        .map(|shape| Fields(shape).flatten().filter(|(number, _)| *number == 1).count());
    Some(Port { name: text(value, 1)?, element, rank })
}

fn text(message: &[u8], number: u64) -> Option<String> {
    std::str::from_utf8(first(message, number)?).ok().map(str::to_string)
}

/// The first length-delimited field `number`; `None` also when the message breaks off before it.
fn first(message: &[u8], number: u64) -> Option<&[u8]> {
    for field in Fields(message) {
        if let (found, Value::Bytes(bytes)) = field?
            && found == number
        {
            return Some(bytes);
        }
    }
    None
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// The fields of a protobuf message; yields `None` once, at the first byte that is out of form.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(usize::try_from(length).ok()?)?;
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let key = self.varint()?;
        let value = match key & 7 {
            0 => Value::Number(self.varint()?),
            1 => self.take(8).map(|_| Value::Fixed)?,
            2 => {
                let length = self.varint()?;
                Value::Bytes(self.take(length)?)
            }
            5 => self.take(4).map(|_| Value::Fixed)?,
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Option<(u64, Value<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![(number << 3) | 2, payload.len() as u8];
        out.extend_from_slice(payload);
        out
    }

    fn value(name: &str, element: u8, rank: usize) -> Vec<u8> {
        let shape = message(2, &message(1, &[0x08, 4]).repeat(rank));
        let tensor = message(1, &[vec![0x08, element], shape].concat());
        [message(1, name.as_bytes()), message(2, &tensor)].concat()
    }

    fn model(inputs: &[Vec<u8>], outputs: &[Vec<u8>]) -> Vec<u8> {
        let mut graph = Vec::new();
        inputs.iter().for_each(|input| graph.extend(message(11, input)));
        outputs.iter().for_each(|output| graph.extend(message(12, output)));
        let mut out = vec![0x08, 0x08, 7 << 3 | 2];
        let length = graph.len();
        out.extend([(length & 0x7f) as u8 | 0x80, (length >> 7) as u8]);
        out.extend(graph);
        out
    }

    fn refusal(inputs: &[Vec<u8>], outputs: &[Vec<u8>]) -> String {
        let error = check(&model(inputs, outputs), "m.onnx").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ModelFile);
        error.to_string()
    }

    #[test]
    fn signatures_that_fit_and_that_do_not() {
        let (ids, mask) = (value("input_ids", 7, 2), value("attention_mask", 7, 2));
        let hidden = value("last_hidden_state", 1, 3);
        let text = [ids.clone(), mask.clone()];
        check(&model(&text, std::slice::from_ref(&hidden)), "m.onnx").unwrap();
        check(&model(&text, &[value("embedding", 1, 2)]), "m.onnx").unwrap();
        check(&model(&text, &[value("pooler_output", 1, 2), hidden.clone()]), "m.onnx").unwrap();

        let pixels = [ids.clone(), mask.clone(), value("pixel_values", 1, 4)];
        assert!(refusal(&pixels, std::slice::from_ref(&hidden)).contains("'pixel_values'"));
        assert!(
            refusal(std::slice::from_ref(&ids), std::slice::from_ref(&hidden))
                .contains("no input 'attention_mask'")
        );
        assert!(
            refusal(&[value("input_ids", 6, 2), mask], std::slice::from_ref(&hidden))
                .contains("int64")
        );
        assert!(refusal(&text, &[value("logits", 1, 2)]).contains("gives logits but neither"));
        assert!(refusal(&text, &[value("last_hidden_state", 10, 3)]).contains("32-bit floats"));
        assert!(refusal(&text, &[value("x", 1, 4)]).contains("per token"));
        assert!(refusal(&text, &[]).contains("gives nothing"));
    }

    #[test]
    fn dynamic_quantisation_is_seen() {
        let ports = [value("input_ids", 7, 2), value("attention_mask", 7, 2)];
        let plain = model(&ports, &[value("last_hidden_state", 1, 3)]);
        assert_eq!(check(&plain, "m.onnx").unwrap(), Graph { dynamic: false });
        let mut graph = message(1, &message(4, b"DynamicQuantizeLinear"));
        graph.extend(first(&plain, 7).unwrap());
        let mut quantised = vec![7 << 3 | 2, (graph.len() & 0x7f) as u8 | 0x80];
        quantised.push((graph.len() >> 7) as u8);
        quantised.extend(graph);
        assert_eq!(check(&quantised, "m.onnx").unwrap(), Graph { dynamic: true });
    }

    #[test]
    fn bytes_that_are_no_model_are_damaged_at_every_length() {
        let ids = [value("input_ids", 7, 2), value("attention_mask", 7, 2)];
        let whole = model(&ids, &[value("last_hidden_state", 1, 3)]);
        for end in 0..whole.len() {
            let error = check(&whole[..end], "m.onnx").unwrap_err();
            assert!(error.to_string().contains("damaged"), "{end}: {error}");
        }
        assert!(check(b"<!DOCTYPE html>", "m.onnx").is_err());
    }
}
