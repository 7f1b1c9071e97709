//! Snapshots, refreshes, and the vectors that go with them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use proptest::prelude::*;
use toolrack::{
    Catalog, Embedder as _, Engine, ErrorKind, Fusion, Listing, Reader, SelectRequest,
    SourceUpdate, StaticEmbedder, Tool, VectorCache,
};

use crate::fixtures::{Mood, Words, many, tool};

fn listed(tools: &[Tool]) -> SourceUpdate {
    Listing::from_tools(tools.iter().cloned()).into()
}

fn ids(catalog: &Catalog) -> Vec<String> {
    catalog.snapshot().tools().map(|tool| tool.id().to_string()).collect()
}

#[test]
fn versions_count_published_changes_only() {
    let catalog = Catalog::empty();
    assert_eq!((catalog.snapshot().version(), catalog.snapshot().len()), (0, 0));
    let tools = many(3);
    assert_eq!(catalog.refresh("s", listed(&tools)).unwrap().version, 1);
    // The same again, in another order too, is no change.
    let again =
        catalog.refresh("s", listed(&[tools[2].clone(), tools[0].clone(), tools[1].clone()]));
    let again = again.unwrap();
    assert_eq!((again.version, again.unchanged), (1, 3));
    assert_eq!(catalog.snapshot().version(), 1);
    // Going stale and coming back are changes; staying stale for the same reason is none.
    let down = || SourceUpdate::Unreachable("timed out".into());
    assert_eq!(catalog.refresh("s", down()).unwrap().version, 2);
    assert_eq!(catalog.refresh("s", down()).unwrap().version, 2);
    assert_eq!(catalog.refresh("s", listed(&tools)).unwrap().version, 3);
    assert!(catalog.snapshot().sources().all(|(_, status)| status.stale.is_none()));
}

#[test]
fn order_is_kept_vanished_tools_leave_and_new_ones_come_last() {
    let catalog = Catalog::empty();
    let (a, b, c, d) = (tool("n/a", ""), tool("n/b", ""), tool("n/c", ""), tool("n/d", ""));
    catalog.refresh("s", listed(&[b.clone(), a.clone()])).unwrap();
    catalog.refresh("t", listed(&[d])).unwrap();
    catalog.refresh("s", listed(&[c, a, b])).unwrap();
    assert_eq!(ids(&catalog), ["n/b", "n/a", "n/d", "n/c"]);
    let diff = catalog.refresh("s", listed(&[tool("n/a", "changed")])).unwrap();
    assert_eq!(ids(&catalog), ["n/a", "n/d"]);
    let written =
        |ids: &[toolrack::ToolId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(written(&diff.removed), ["n/b", "n/c"]);
    assert_eq!(written(&diff.changed), ["n/a"]);
    assert_eq!(diff.unchanged, 1);
}

#[test]
fn a_failed_refresh_changes_nothing() {
    let model = Words::new("words/1", 16);
    let engine = Engine::builder(Catalog::from_tools(many(4)).unwrap())
        .embedder(model.clone())
        .build()
        .unwrap();
    model.taken();
    let before = engine.snapshot();
    let one = || listed(&[tool("n/one", "")]);
    let refused = [
        vec![("s".into(), listed(&[tool("n/a", "1"), tool("n/a", "2")]))],
        // Also in the sources that were fine.
        vec![("fine".into(), one()), ("s".into(), listed(&[many(4)[0].clone()]))],
        vec![
            ("fine".into(), one()),
            (
                "cut".into(),
                Reader::new().parse(r#"{"tools":[{"name":"x"}],"nextCursor":"2"}"#).unwrap().into(),
            ),
        ],
        vec![("s".into(), one()), ("s".into(), SourceUpdate::Removed)],
        vec![("s".into(), SourceUpdate::Unreachable("x".into())), ("s".into(), one())],
        // Nothing that can be read is a damaged answer, not a source without tools.
        vec![("catalog".into(), Reader::new().parse(r#"[{"name":1},{"name":2}]"#).unwrap().into())],
    ];
    let mut messages = Vec::new();
    for updates in refused {
        messages.push(engine.refresh_all(updates).unwrap_err().to_string());
        assert!(std::ptr::eq(&*engine.snapshot(), &*before));
        assert_eq!(engine.catalog().snapshot().version(), before.version());
    }
    assert!(model.taken().is_empty());
    insta::assert_snapshot!(messages.join("\n"), @r"
    tool n/a is defined twice, at tool 0 (s) and at tool 1 (s): rename one or give each source its own namespace
    tool area_0/list_invoice_0 is defined twice, at tool 0 (catalog) and at tool 0 (s): rename one or give each source its own namespace
    source 'cut' was not listed to its end: the last page announces another one (nextCursor '2'): list on from there
    source 's' is in one refresh twice: give one update a source
    source 's' is in one refresh twice: give one update a source
    source 'catalog' lists 2 definitions and none can be read, the first because tool 0: field 'name' is a number, not a string: give a string
    ");
}

#[test]
fn sources_go_stale_come_back_and_leave() {
    let catalog = Catalog::empty();
    let tools = many(4);
    catalog
        .refresh_all(vec![("a".into(), listed(&tools[..2])), ("b".into(), listed(&tools[2..]))])
        .unwrap();
    let health = |catalog: &Catalog| {
        let snapshot = catalog.snapshot();
        snapshot
            .sources()
            .map(|(name, status)| {
                format!(
                    "{name}: {} tools, answered in {}, stale {:?}",
                    status.tools, status.answered, status.stale
                )
            })
            .collect::<Vec<_>>()
            .join("\n")
    };
    catalog.refresh("a", SourceUpdate::Unreachable("refused".into())).unwrap();
    // One that never answered is known, too.
    catalog.refresh("c", SourceUpdate::Unreachable("no route".into())).unwrap();
    insta::assert_snapshot!(health(&catalog), @r#"
    a: 2 tools, answered in 1, stale Some("refused")
    b: 2 tools, answered in 1, stale None
    c: 0 tools, answered in 0, stale Some("no route")
    "#);
    catalog.refresh("a", listed(&tools[..1])).unwrap();
    catalog
        .refresh_all(vec![("b".into(), SourceUpdate::Removed), ("c".into(), SourceUpdate::Removed)])
        .unwrap();
    insta::assert_snapshot!(health(&catalog), @"a: 1 tools, answered in 4, stale None");
    assert_eq!(catalog.snapshot().len(), 1);
    // A source may list nothing, and one that is not there may be removed.
    catalog.refresh("a", listed(&[])).unwrap();
    catalog.refresh("z", SourceUpdate::Removed).unwrap();
    assert!(catalog.snapshot().is_empty());
}

#[test]
fn readers_never_see_half_a_change() {
    let marked = |marker: usize| -> Vec<Tool> {
        // Another number of tools each time, all with the version's marker.
        (0..20 + marker % 7)
            .map(|n| tool(&format!("s{}/tool_{n}", n % 2), &format!("marker{marker} reads things")))
            .collect()
    };
    let engine =
        Engine::builder(Catalog::empty()).embedder(Words::new("words/1", 32)).build().unwrap();
    let publish = |marker: usize| {
        let (even, odd): (Vec<Tool>, Vec<Tool>) =
            marked(marker).into_iter().partition(|tool| tool.namespace() == "s0");
        engine
            .refresh_all(vec![("even".into(), listed(&even)), ("odd".into(), listed(&odd))])
            .unwrap();
    };
    publish(0);
    let (done, looks) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let snapshot = engine.snapshot();
                    let markers: BTreeSet<&str> = snapshot
                        .tools()
                        .map(|tool| tool.description().split(' ').next().unwrap())
                        .collect();
                    assert_eq!(markers.len(), 1, "{markers:?}");
                    let marker: usize = markers.first().unwrap()["marker".len()..].parse().unwrap();
                    assert_eq!(snapshot.len(), marked(marker).len());
                    let selection =
                        engine.select(&SelectRequest::new("reads things").k(100)).unwrap();
                    assert_eq!(
                        selection.eligible,
                        selection.candidates.len() + selection.rejected.len()
                    );
                    looks.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for marker in 1..25 {
            publish(marker);
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(engine.snapshot().version(), 25);
    assert!(looks.load(Ordering::Relaxed) >= 8);
}

#[test]
fn only_changed_texts_are_embedded() {
    let model = Words::new("words/1", 32);
    let mut tools = many(10);
    let engine = Engine::builder(Catalog::from_tools(tools.clone()).unwrap())
        .embedder(model.clone())
        .build()
        .unwrap();
    assert_eq!(model.taken().len(), 10);
    tools[4] = tool(&tools[4].id().to_string(), "Another text.");
    tools.remove(0);
    engine.refresh("catalog", listed(&tools)).unwrap();
    assert_eq!(model.taken().len(), 1);
    // A change that is not in the text embeds nothing.
    let renamed = tools[3].id().clone();
    tools[3] = Tool::builder(renamed.name())
        .namespace(renamed.namespace())
        .description("Another text.")
        .risk(toolrack::Risk::Write)
        .build()
        .unwrap();
    assert_eq!(engine.refresh("catalog", listed(&tools)).unwrap().changed.len(), 1);
    assert!(model.taken().is_empty());
    assert_eq!(engine.report().reused, 9);
    // What came back is embedded again, and the old vectors are still right.
    let fresh = Engine::builder(engine.catalog().clone()).embedder(model.clone()).build().unwrap();
    assert_eq!(
        fresh.rank("list the invoice", 9).unwrap(),
        engine.rank("list the invoice", 9).unwrap()
    );
}

#[test]
fn an_engine_catches_up_with_a_catalog_that_was_refreshed_past_it() {
    let catalog = Catalog::from_tools(many(3)).unwrap();
    let engine = Engine::builder(catalog.clone()).without_embedder().build().unwrap();
    catalog.refresh("s", listed(&[tool("n/a", "")])).unwrap();
    assert_eq!(engine.snapshot().len(), 3);
    engine.sync().unwrap();
    assert_eq!(engine.snapshot().len(), 4);
    catalog.refresh("s", listed(&[tool("n/a", ""), tool("n/b", "")])).unwrap();
    // A refresh that changes nothing by itself catches up as well.
    assert_eq!(
        engine.refresh("s", listed(&[tool("n/a", ""), tool("n/b", "")])).unwrap().added.len(),
        0
    );
    assert_eq!(engine.snapshot().len(), 5);
    assert_eq!(
        engine.select(&SelectRequest::new("x")).unwrap().catalog_version,
        catalog.snapshot().version()
    );
}

#[test]
fn the_model_can_be_set_after_words_alone_in_any_order() {
    let catalog = Catalog::from_tools(many(5)).unwrap();
    let has_cosine =
        |engine: &Engine| engine.rank("list the invoice", 1).unwrap()[0].cosine.is_some();
    let engine = Engine::builder(catalog.clone())
        .without_embedder()
        .embedder(Words::new("w", 8))
        .build()
        .unwrap();
    assert!(has_cosine(&engine));
    let engine = Engine::builder(catalog.clone())
        .embedder(Words::new("w", 8))
        .without_embedder()
        .build()
        .unwrap();
    assert!(!has_cosine(&engine) && engine.fingerprint().is_none() && engine.vectors().is_none());
    engine.swap(Words::new("w", 8)).unwrap();
    assert!(has_cosine(&engine));
    let engine = Engine::builder(catalog).fusion(Fusion::LexicalOnly).build().unwrap();
    assert!(!has_cosine(&engine));
}

#[test]
fn a_model_that_misbehaves_costs_the_dense_arm_and_nothing_else() {
    let request = SelectRequest::new("list the invoice").k(3);
    for (mood, missing, failure) in [
        (Mood::Down, 40, "the embedding service answered 503"),
        (
            Mood::Nan,
            40,
            "embedder 'words/1' gave a vector with a NaN or infinite number: check the model",
        ),
        (
            Mood::Infinite,
            40,
            "embedder 'words/1' gave a vector with a NaN or infinite number: check the model",
        ),
        (
            Mood::Zero,
            40,
            "embedder 'words/1' gave a zero vector, which is near to nothing: check the text and the model",
        ),
        (Mood::TooFew, 40, "embedder 'words/1' gave 31 vectors for 32 texts: give one a text"),
        (
            Mood::TooLong,
            40,
            "embedder 'words/1' gave a vector of 65 numbers but announces 64: mend its dimensions()",
        ),
    ] {
        // From the start.
        let model = Words::new("words/1", 64);
        model.set(mood);
        let engine = Engine::builder(Catalog::from_tools(many(40)).unwrap())
            .embedder(model.clone())
            .build()
            .unwrap();
        assert_eq!(engine.report().missing, missing, "{mood:?}");
        assert_eq!(engine.report().failure.as_deref(), Some(failure), "{mood:?}");
        let selection = engine.select(&request).unwrap();
        assert!(selection.is_degraded(), "{mood:?}");
        assert_eq!(selection.candidates.len(), 3, "{mood:?}\n{selection}");
        assert!(
            selection.candidates.iter().all(|c| c.cosine.is_none() && c.bm25.get() > 0.0),
            "{mood:?}"
        );

        // For one request; the next one is whole again.
        let model = Words::new("words/1", 64);
        let engine = Engine::builder(Catalog::from_tools(many(40)).unwrap())
            .embedder(model.clone())
            .build()
            .unwrap();
        assert!(!engine.select(&request).unwrap().is_degraded());
        model.set(mood);
        let selection = engine.select(&request).unwrap();
        assert!(
            selection.is_degraded() && selection.candidates.len() == 3,
            "{mood:?}\n{selection}"
        );
        assert!(selection.candidates.iter().all(|candidate| candidate.cosine.is_none()));
        assert_eq!(engine.select(&request.clone().k(0)).unwrap().candidates.len(), 0);
        model.set(Mood::Well);
        assert!(!engine.select(&request).unwrap().is_degraded(), "{mood:?}");

        // In a refresh: the new tools are found by words until the model answers again.
        model.set(mood);
        engine.refresh("s", listed(&[tool("n/brew_tea", "Brew a pot of tea.")])).unwrap();
        assert_eq!(engine.report().missing, 1, "{mood:?}");
        assert_eq!(engine.report().reused, 40, "{mood:?}");
        let tea = SelectRequest::new("brew a pot of tea");
        assert_eq!(engine.select(&tea).unwrap().candidates[0].id.name(), "brew_tea", "{mood:?}");
        // And a swap to it is refused.
        let bad = Words::new("words/2", 64);
        bad.set(mood);
        let error = engine.swap(bad).unwrap_err();
        assert_eq!(error.to_string(), failure.replace("words/1", "words/2"), "{mood:?}");
        assert_eq!(engine.fingerprint().as_deref(), Some("words/1"));
        model.set(Mood::Well);
        engine.select(&tea).unwrap();
        assert!(!engine.select(&tea).unwrap().is_degraded(), "{mood:?}");
        // A text of zero length means nothing to the model, and is not asked for again.
        if mood != Mood::Zero {
            assert_eq!(engine.report().missing, 0, "{mood:?}");
            assert_eq!(
                engine.select(&tea).unwrap().candidates[0].id.name(),
                "brew_tea",
                "{mood:?}"
            );
        }
    }
}

/// Gives a zero vector for one text and answers well for all others.
#[derive(Debug)]
struct Blind(Words);

impl toolrack::Embedder for Blind {
    fn embed_documents(&self, texts: &[&str]) -> toolrack::Result<Vec<Vec<f32>>> {
        let mut vectors = self.0.embed_documents(texts)?;
        for (vector, text) in vectors.iter_mut().zip(texts) {
            if text.contains("qqq") {
                vector.fill(0.0);
            }
        }
        Ok(vectors)
    }

    fn dimensions(&self) -> usize {
        self.0.dimensions
    }

    fn max_tokens(&self) -> usize {
        64
    }

    fn fingerprint(&self) -> String {
        "blind".into()
    }
}

#[test]
fn one_text_that_means_nothing_to_the_model_costs_no_other_tool_its_vector() {
    let mut tools = many(40);
    tools.push(tool("n/qqq", "qqq"));
    let words = Words::new("words", 64);
    let engine = Engine::builder(Catalog::from_tools(tools).unwrap())
        .embedder(Blind(words.clone()))
        .build()
        .unwrap();
    assert_eq!((engine.report().embedded, engine.report().missing), (40, 1));
    assert!(engine.report().failure.unwrap().contains("zero vector"));
    words.taken();
    for _ in 0..5 {
        let selection = engine.select(&SelectRequest::new("archive the shipment")).unwrap();
        assert!(!selection.is_degraded(), "{selection}");
    }
    assert_eq!(words.taken().len(), 5, "asked for the requests alone");
    // A request that means nothing to it goes by words and says so.
    let selection = engine.select(&SelectRequest::new("qqq")).unwrap();
    assert!(selection.is_degraded());
    assert_eq!(selection.candidates[0].id.name(), "qqq");
    // Such a model may still be swapped in.
    let engine = Engine::builder(engine.catalog().clone()).build().unwrap();
    engine.swap(Blind(Words::new("words", 64))).unwrap();
}

#[test]
fn names_without_a_letter_do_not_cost_the_bundled_model() {
    let tools = ["🦊", "法令", "…", "\u{200b}x", "ﷺ", "   a"]
        .map(|name| Tool::builder(name).build().unwrap());
    let mut all = many(10);
    all.extend(tools);
    let engine = Engine::builder(Catalog::from_tools(all).unwrap()).build().unwrap();
    let selection = engine.select(&SelectRequest::new("archive the shipment")).unwrap();
    assert!(!selection.is_degraded(), "{selection} {:?}", engine.report());
    assert!(selection.candidates[0].cosine.is_some());
}

#[test]
fn a_model_that_stays_down_for_tools_is_asked_ever_more_rarely() {
    let model = Words::new("words/1", 16);
    model.set(Mood::Down);
    let engine = Engine::builder(Catalog::from_tools(many(4)).unwrap())
        .embedder(model.clone())
        .build()
        .unwrap();
    *model.queries_mood.lock().unwrap() = Mood::Well;
    model.taken();
    for _ in 0..200 {
        engine.select(&SelectRequest::new("archive")).unwrap();
    }
    let asked = model.taken().len() / 4;
    assert!((1..=8).contains(&asked), "{asked}");
}

#[test]
fn vectors_are_stored_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tools.vectors");
    let catalog = Catalog::from_tools(many(9)).unwrap();
    let engine = Engine::builder(catalog.clone()).build().unwrap();
    let vectors = engine.vectors().unwrap();
    vectors.write(&path).unwrap();
    let read = VectorCache::read(&path).unwrap();
    assert!(read == vectors);
    assert_eq!(
        (read.len(), read.fingerprint()),
        (9, StaticEmbedder::bundled().fingerprint().as_str())
    );
    let again = Engine::builder(catalog).vectors(read).build().unwrap();
    assert_eq!((again.report().embedded, again.report().reused), (0, 9));
    assert_eq!(again.rank("archive it", 9).unwrap(), engine.rank("archive it", 9).unwrap());
    // The same bytes whatever the order of a hash map; nothing else is left in the folder.
    let first = std::fs::read(&path).unwrap();
    again.vectors().unwrap().write(&path).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), first);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn damaged_vector_files_are_refused_in_one_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("v");
    let engine = Engine::builder(Catalog::from_tools(many(3)).unwrap())
        .embedder(Words::new("w", 4))
        .build()
        .unwrap();
    engine.vectors().unwrap().write(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let error = VectorCache::read(&path).unwrap_err();
        (error.kind(), error.to_string().replace(&path.display().to_string(), "FILE"))
    };
    assert_eq!(VectorCache::read(dir.path().join("none")).unwrap_err().kind(), ErrorKind::Io);
    // Every cut, and every flipped bit: a flipped sign leaves the length of a vector as it was.
    for cut in 0..good.len() {
        let (kind, text) = refused(&good[..cut]);
        assert!(matches!(kind, ErrorKind::Format | ErrorKind::FormatVersion), "{cut}: {text}");
    }
    let body = good.len() - 3 * (32 + 16);
    for at in body..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        assert_eq!(refused(&bad).0, ErrorKind::Format, "{at}");
    }
    let other = String::from_utf8_lossy(&good[..18]).replace("vectors 1", "vectors 9");
    let mut messages = vec![
        refused(b"").1,
        refused(&[other.as_bytes(), &good[18..]].concat()).1,
        refused(&good[..20]).1,
        refused(&good[..good.len() - 1]).1,
        refused(&[&good[..], b"x"].concat()).1,
    ];
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 0x80;
    messages.push(refused(&bad).1);
    insta::assert_snapshot!(messages.join("\n"), @r"
    FILE is no 'toolrack-vectors 1' file: remove it and embed anew
    FILE is no 'toolrack-vectors 1' file: remove it and embed anew
    FILE is damaged (its header): remove it and embed anew
    FILE is damaged (its length): remove it and embed anew
    FILE is damaged (its length): remove it and embed anew
    FILE is damaged (its checksum): remove it and embed anew
    ");
}

/// Sources and what they list, the slow way.
#[derive(Debug, Default)]
struct Model {
    /// Id -> source and description, in catalog order.
    tools: Vec<(String, String, String)>,
}

impl Model {
    fn refresh(&mut self, source: &str, listing: &[(String, String)]) -> Option<Expected> {
        let mut names = BTreeSet::new();
        let elsewhere =
            |id: &str| self.tools.iter().any(|(other, from, _)| other == id && from != source);
        if listing.iter().any(|(id, _)| !names.insert(id) || elsewhere(id)) {
            return None;
        }
        let new: BTreeMap<&String, &String> = listing.iter().map(|(id, text)| (id, text)).collect();
        let mut expected = Expected::default();
        let mut next = Vec::new();
        for (id, from, text) in &self.tools {
            if from != source {
                next.push((id.clone(), from.clone(), text.clone()));
                expected.unchanged += 1;
                continue;
            }
            match new.get(id) {
                None => expected.removed.push(id.clone()),
                Some(now) if *now == text => {
                    expected.unchanged += 1;
                    next.push((id.clone(), from.clone(), text.clone()));
                }
                Some(now) => {
                    expected.changed.push(id.clone());
                    next.push((id.clone(), from.clone(), (*now).clone()));
                }
            }
        }
        for (id, text) in listing {
            if !self.tools.iter().any(|(old, _, _)| old == id) {
                expected.added.push(id.clone());
                next.push((id.clone(), source.to_owned(), text.clone()));
            }
        }
        self.tools = next;
        Some(expected)
    }
}

#[derive(Debug, Default, PartialEq)]
struct Expected {
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<String>,
    unchanged: usize,
}

proptest! {
    #[test]
    fn differences_are_those_of_a_naive_model(
        steps in prop::collection::vec(
            ("[ab]", prop::collection::vec(("[a-f]", "[xy]"), 0..6)), 1..12),
    ) {
        let (catalog, mut model) = (Catalog::empty(), Model::default());
        for (source, listing) in steps {
            let listing: Vec<(String, String)> =
                listing.into_iter().map(|(name, text)| (format!("n/{name}"), text)).collect();
            let before = catalog.snapshot();
            let tools: Vec<Tool> = listing.iter().map(|(id, text)| tool(id, text)).collect();
            match (catalog.refresh(source.as_str(), listed(&tools)), model.refresh(&source, &listing)) {
                (Ok(diff), Some(expected)) => {
                    let text = |ids: &[toolrack::ToolId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
                    let got = Expected {
                        added: text(&diff.added),
                        removed: text(&diff.removed),
                        changed: text(&diff.changed),
                        unchanged: diff.unchanged,
                    };
                    prop_assert_eq!(got, expected);
                    let now: Vec<String> = ids(&catalog);
                    let modelled: Vec<String> = model.tools.iter().map(|(id, _, _)| id.clone()).collect();
                    prop_assert_eq!(now, modelled);
                    // Whoever held the old snapshot holds it still.
                    prop_assert!(before.version() <= catalog.snapshot().version());
                }
                (Err(error), None) => {
                    prop_assert_eq!(error.kind(), ErrorKind::DuplicateTool);
                    prop_assert!(std::ptr::eq(&*before, &*catalog.snapshot()));
                }
                (got, expected) => prop_assert!(false, "{got:?} {expected:?}"),
            }
        }
    }

    #[test]
    fn provider_names_are_valid_distinct_and_reversible(
        ids in prop::collection::btree_set(("[a-b_]{1,3}", "[a-b_ é/.]{1,4}|[a-b_]{55,70}"), 1..40),
    ) {
        let tools: Vec<Tool> = ids
            .iter()
            .filter(|(namespace, name)| !namespace.trim().is_empty() && !name.trim().is_empty())
            .map(|(namespace, name)| Tool::builder(name).namespace(namespace).build().unwrap())
            .collect();
        prop_assume!(!tools.is_empty());
        let catalog = Catalog::from_tools(tools).unwrap();
        let snapshot = catalog.snapshot();
        let mut seen = BTreeSet::new();
        for tool in snapshot.tools() {
            let name = snapshot.provider_name(tool.id()).unwrap();
            prop_assert!((1..=64).contains(&name.len()));
            prop_assert!(name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-'));
            prop_assert!(seen.insert(name.to_owned()));
            prop_assert_eq!(snapshot.by_provider_name(name).unwrap().id(), tool.id());
        }
    }
}

/// A tool may be named like the form with a hash tail that another one gets; a call must still reach
/// the tool that was meant.
#[test]
fn a_forged_hash_tail_takes_nobodys_name() {
    let catalog = Catalog::from_tools([tool("a/b__c", ""), tool("a__b/c", "")]).unwrap();
    let second = catalog.snapshot().provider_name(&"a__b/c".parse().unwrap()).unwrap().to_owned();
    let forged = format!("default/{second}");
    let catalog =
        Catalog::from_tools([tool("a/b__c", ""), tool(&forged, "forged"), tool("a__b/c", "")])
            .unwrap();
    let snapshot = catalog.snapshot();
    let names: BTreeSet<&str> =
        snapshot.tools().map(|tool| snapshot.provider_name(tool.id()).unwrap()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
    for tool in snapshot.tools() {
        let name = snapshot.provider_name(tool.id()).unwrap();
        assert_eq!(snapshot.by_provider_name(name).unwrap().id(), tool.id());
    }
}
