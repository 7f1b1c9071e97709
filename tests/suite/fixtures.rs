//! Tools, engines and models that the tests of this folder build.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use toolrack::{
    Authorized, Call, Catalog, Embedder, Engine, Error, Refusal, Result, Session, Tool, ToolId,
    Verdict,
};

/// The id written `namespace/name`.
pub(crate) fn id(written: &str) -> ToolId {
    written.parse().unwrap()
}

/// A tool with the id `written` and a description.
pub(crate) fn tool(written: &str, description: &str) -> Tool {
    let id = id(written);
    Tool::builder(id.name()).namespace(id.namespace()).description(description).build().unwrap()
}

pub(crate) fn catalog(tools: &[(&str, &str)]) -> Catalog {
    Catalog::from_tools(tools.iter().map(|(id, description)| tool(id, description))).unwrap()
}

/// An engine with the bundled model.
pub(crate) fn engine(tools: &[(&str, &str)]) -> Engine {
    Engine::builder(catalog(tools)).build().unwrap()
}

/// An engine that goes by words alone.
pub(crate) fn lexical(tools: &[(&str, &str)]) -> Engine {
    Engine::builder(catalog(tools)).without_embedder().build().unwrap()
}

/// The engine over `catalog` in both of its modes, each with its name for messages.
pub(crate) fn both(catalog: &Catalog) -> [(&'static str, Engine); 2] {
    [
        ("embedded", Engine::builder(catalog.clone()).build().unwrap()),
        ("lexical", Engine::builder(catalog.clone()).without_embedder().build().unwrap()),
    ]
}

/// `n` tools that have nothing to do with one another: `area_3/verb_thing_17`.
pub(crate) fn many(n: usize) -> Vec<Tool> {
    let verbs = ["list", "get", "create", "update", "archive", "export"];
    let things = ["invoice", "ticket", "contact", "shipment", "contract", "playlist", "sensor"];
    (0..n)
        .map(|i| {
            let (verb, thing) = (verbs[i % verbs.len()], things[i / verbs.len() % things.len()]);
            tool(
                &format!("area_{}/{verb}_{thing}_{i}", i % 10),
                &format!("{verb} one {thing} of register {i}."),
            )
        })
        .collect()
}

/// Names of the visible list, in order.
pub(crate) fn names(session: &Session) -> Vec<String> {
    session.visible().names().map(str::to_owned).collect()
}

/// Ids of a selection's candidates, best first.
pub(crate) fn ids(selection: &toolrack::Selection) -> Vec<String> {
    selection.candidates.iter().map(|candidate| candidate.id.to_string()).collect()
}

/// The outcome of a call that has to be allowed; the model was sent the list before it called.
pub(crate) fn allowed(session: &mut Session, name: &str) -> Authorized {
    session.visible();
    match session.authorize(&Call::new(name, json!({}))).unwrap() {
        Verdict::Run(tool) => tool,
        other => panic!("{name}: {other:?}"),
    }
}

/// The outcome of a call that has to be refused.
pub(crate) fn refused(session: &mut Session, name: &str) -> Refusal {
    match session.authorize(&Call::new(name, json!({}))).unwrap() {
        Verdict::Refused(refusal) => refusal,
        other => panic!("{name}: {other:?}"),
    }
}

/// What a [`Words`] embedder does with the next call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    Down,
    Nan,
    Infinite,
    Zero,
    TooFew,
    TooLong,
    Panics,
}

/// Hashes words into a vector; counts the texts that it embeds and misbehaves on demand.
#[derive(Debug, Clone)]
pub(crate) struct Words {
    pub dimensions: usize,
    pub fingerprint: String,
    pub documents: Arc<Mutex<Vec<String>>>,
    pub queries: Arc<AtomicUsize>,
    pub documents_mood: Arc<Mutex<Mood>>,
    pub queries_mood: Arc<Mutex<Mood>>,
}

impl Words {
    pub(crate) fn new(fingerprint: &str, dimensions: usize) -> Self {
        Self {
            dimensions,
            fingerprint: fingerprint.to_owned(),
            documents: Arc::default(),
            queries: Arc::default(),
            documents_mood: Arc::new(Mutex::new(Mood::Well)),
            queries_mood: Arc::new(Mutex::new(Mood::Well)),
        }
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.documents_mood.lock().unwrap() = mood;
        *self.queries_mood.lock().unwrap() = mood;
    }

    /// The texts embedded since the last call.
    pub(crate) fn taken(&self) -> Vec<String> {
        std::mem::take(&mut self.documents.lock().unwrap())
    }

    fn vectors(&self, texts: &[&str], mood: Mood) -> Result<Vec<Vec<f32>>> {
        let mut vectors: Vec<Vec<f32>> = texts.iter().map(|text| self.vector(text)).collect();
        match mood {
            Mood::Well => {}
            Mood::Down => return Err(Error::embedder("the embedding service answered 503")),
            Mood::Nan => vectors.iter_mut().for_each(|vector| vector[0] = f32::NAN),
            Mood::Infinite => vectors.iter_mut().for_each(|vector| vector[0] = f32::INFINITY),
            Mood::Zero => vectors.iter_mut().for_each(|vector| vector.fill(0.0)),
            Mood::TooFew => {
                vectors.pop();
            }
            Mood::TooLong => vectors.iter_mut().for_each(|vector| vector.push(0.0)),
            Mood::Panics => panic!("the model panics"),
        }
        Ok(vectors)
    }

    fn vector(&self, text: &str) -> Vec<f32> {
        let mut vector = vec![0.01; self.dimensions];
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2);
        for word in words {
            // FNV-1a, so that the same word is the same number everywhere.
            let hash = word.to_lowercase().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
            vector[(hash % self.dimensions as u64) as usize] += 1.0;
        }
        vector
    }
}

impl Embedder for Words {
    fn embed_documents(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.documents.lock().unwrap().extend(texts.iter().map(|&text| text.to_owned()));
        let mood = *self.documents_mood.lock().unwrap();
        self.vectors(texts, mood)
    }

    fn embed_queries(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        self.queries.fetch_add(texts.len(), Ordering::Relaxed);
        let mood = *self.queries_mood.lock().unwrap();
        self.vectors(texts, mood)
    }

    fn dimensions(&self) -> usize {
        self.dimensions
    }

    fn max_tokens(&self) -> usize {
        256
    }

    fn fingerprint(&self) -> String {
        self.fingerprint.clone()
    }
}
