//! Input that means harm, or that nobody thought of.

use serde_json::json;
use toolrack::{
    Call, Catalog, Embedder as _, Engine, ErrorKind, FindRequest, Outcome, Pins, SelectRequest,
    Selector, SessionOptions, StaticEmbedder, Tool, Verdict,
};

use crate::fixtures::{both, engine, ids, lexical, many, refused, tool};

const MEGABYTE: usize = 1 << 20;

#[test]
fn an_empty_catalog_answers_everything_with_nothing() {
    assert_eq!(Catalog::parse("[]").unwrap_err().kind(), ErrorKind::EmptyCatalog);
    assert_eq!(Catalog::from_tools([]).unwrap_err().kind(), ErrorKind::EmptyCatalog);
    for (mode, engine) in both(&Catalog::empty()) {
        assert!(engine.rank("anything", 5).unwrap().is_empty(), "{mode}");
        let selection = engine.select(&SelectRequest::new("anything")).unwrap();
        assert_eq!(selection.outcome, Outcome::NoMatch, "{mode}");
        assert!(!selection.is_degraded(), "{mode}");
        let mut run = engine.session(SessionOptions::default()).unwrap();
        assert!(run.turn("anything").unwrap().visible.tools().is_empty());
        assert!(run.find_tool(&FindRequest::new("anything")).unwrap().loaded.is_empty());
        assert_eq!(run.visible().tokens().saved_share(), 0.0);
        refused(&mut run, "anything");
    }
}

#[test]
fn a_tool_that_is_called_like_words_of_a_sentence_is_not_named_by_it() {
    let catalog = Catalog::parse(
        r#"[{"name": "of the", "namespace": "evil", "risk": "destructive", "description": "Zap."},
            {"name": "get_weather", "description": "The weather forecast of a city."},
            {"name": "read_mail", "description": "Read a mail."}]"#,
    )
    .unwrap();
    for (mode, engine) in both(&catalog) {
        let text = "what is the weather of the city";
        let selection = engine.select(&SelectRequest::new(text).k(0)).unwrap();
        assert_eq!(selection.outcome, Outcome::NoMatch, "{mode}");
        let found = Selector::new(&engine).discover(text, &mut Pins::default()).unwrap();
        assert_eq!(found.unwrap().name(), "get_weather", "{mode}");
        // Whoever means it says so.
        for text in ["please run `of the` now", "run \"of the\".", "of the"] {
            let selection = engine.select(&SelectRequest::new(text).k(0)).unwrap();
            assert_eq!(ids(&selection), ["evil/of the"], "{mode} {text}");
        }
    }
}

#[test]
fn any_number_of_tools_may_be_asked_for() {
    for (mode, engine) in both(&Catalog::from_tools(many(50)).unwrap()) {
        for k in [0, 1, 49, 50, 51, usize::MAX] {
            let request = SelectRequest::new("archive the shipment").k(k);
            let selection = engine.select(&request).unwrap();
            assert!(selection.candidates.len() <= k.min(50), "{mode} {k}");
            assert!(selection.rejected.len() <= k.min(50), "{mode} {k}");
            assert!(
                engine.rank("archive the shipment", k).unwrap().len() <= k.min(50),
                "{mode} {k}"
            );
        }
        let options = SessionOptions::default()
            .retrieve(usize::MAX)
            .find_limit(usize::MAX)
            .limit(usize::MAX)
            .pass_through(0);
        let mut run = engine.session(options).unwrap();
        run.turn("archive the shipment").unwrap();
        run.find_tool(&FindRequest::new("list the invoice").limit(usize::MAX)).unwrap();
    }
    let engine = lexical(&[("a/b", "")]);
    for intents in [0, 17] {
        let request = SelectRequest::of_intents(vec!["x"; intents]);
        assert_eq!(engine.select(&request).unwrap_err().kind(), ErrorKind::InvalidSetting);
    }
}

/// Megabytes of text, each ending in what is to be found.
fn long_texts() -> Vec<(&'static str, String)> {
    let distinct: String = (0..130_000).map(|n| format!("w{n:06} ")).collect();
    vec![
        ("one word", "a".repeat(MEGABYTE)),
        ("one word again and again", "word ".repeat(MEGABYTE / 5)),
        ("distinct words", distinct),
        ("identifiers", "a_b ".repeat(MEGABYTE / 4)),
        ("distinct identifiers", (0..130_000).map(|n| format!("a_b{n:05} ")).collect()),
        ("humps", "aB".repeat(MEGABYTE / 2)),
        ("capitals", "AB ".repeat(MEGABYTE / 3)),
        ("joints", "a_".repeat(MEGABYTE / 2)),
        ("slashes", "/".repeat(MEGABYTE)),
        ("white space", " \n\t".repeat(MEGABYTE / 3)),
        ("back quotes", "`a` ".repeat(MEGABYTE / 4)),
        ("sentences", "a. ".repeat(MEGABYTE / 3)),
        ("ideographs", "法令".repeat(MEGABYTE / 6)),
        ("marks", "\u{301}".repeat(MEGABYTE / 2)),
        ("emoji", "👩‍👩‍👧‍👦".repeat(MEGABYTE / 25)),
        ("zeros", "\0".repeat(MEGABYTE)),
        ("digits", "0123456789".repeat(MEGABYTE / 10)),
        ("turned around", "\u{202e}abc\u{202c} ".repeat(MEGABYTE / 10)),
        ("ligatures", "ﷺ".repeat(MEGABYTE / 3)),
    ]
}

#[test]
fn a_megabyte_of_request_ends() {
    let mut tools = many(200);
    // Names that make looking for names as costly as can be.
    tools.push(Tool::builder("a b ".repeat(100)).build().unwrap());
    tools.push(Tool::builder("a_".repeat(5_000)).build().unwrap());
    tools.push(Tool::builder("word ".repeat(50)).build().unwrap());
    tools.push(Tool::builder("x_a_b").build().unwrap());
    let catalog = Catalog::from_tools(tools).unwrap();
    let [(_, embedded), (_, lexical)] = both(&catalog);
    let mut run = embedded.session(SessionOptions::default().limit(5)).unwrap();
    for (what, text) in long_texts() {
        let begun = std::time::Instant::now();
        lexical.select(&SelectRequest::new(text.as_str())).unwrap();
        run.turn(text.as_str()).unwrap();
        run.note_reply(text.as_str());
        run.find_tool(&FindRequest::new(text.as_str())).unwrap();
        run.find_tool(&FindRequest::of_names([text.as_str()])).unwrap();
        refused(&mut run, &text);
        // Quadratic time on a megabyte would be minutes; this machine may be busy.
        assert!(begun.elapsed().as_secs() < 30, "{what} took {:?}", begun.elapsed());
    }
}

#[test]
fn texts_of_every_kind_have_a_defined_result() {
    let texts = [
        "",
        " ",
        "\0",
        "a\0b",
        "\u{feff}",
        "\u{200b}\u{200d}",
        "\u{202e}txet desrever",
        "e\u{301}\u{301}\u{301}",
        "👩‍👩‍👧‍👦 👍🏽",
        "\u{fffd}",
        "\u{1f600}\u{fe0f}",
        "ﬁ ﷺ ㎏ ½",
        "ĲSSEL ǅ ß İ ı",
        "שלום עולם",
        "ประเทศไทย",
        "{\"a\":1}",
        "<script>",
        "'; DROP TABLE tools; --",
        "%s%n",
        "$(rm -rf /)",
        "../../etc/passwd",
        "\\u0000",
        "\u{7f}\u{80}\u{9f}",
    ];
    for (_, engine) in both(&Catalog::from_tools(many(12)).unwrap()) {
        for text in texts {
            let selection = engine.select(&SelectRequest::new(text)).unwrap();
            assert!(selection.candidates.iter().all(|c| c.score.get().is_finite()));
            let mut run = engine.session(SessionOptions::default().limit(3)).unwrap();
            run.turn(text).unwrap();
            run.find_tool(&FindRequest::new(text)).unwrap();
            let refusal = refused(&mut run, text);
            assert!(!refusal.text().chars().any(|c| c.is_control()), "{refusal:?}");
        }
    }
    // The same texts as names, descriptions and parameters of tools.
    let tools: Vec<Tool> = texts.iter().enumerate().map(|(n, text)| {
        Tool::builder(format!("t{n}{text}"))
            .description(*text)
            .parameters(&json!({"type": "object", "properties": {*text: {"description": text, "enum": [text]}}}))
            .aliases([*text])
            .examples([*text])
            .build()
            .unwrap()
    }).collect();
    for (mode, engine) in both(&Catalog::from_tools(tools.clone()).unwrap()) {
        for tool in &tools {
            let selection = engine.select(&SelectRequest::new(tool.name())).unwrap();
            assert!(
                selection.candidates.iter().any(|c| c.id == *tool.id()),
                "{mode} {:?}\n{selection}",
                tool.name()
            );
        }
        let mut run = engine.session(SessionOptions::default().limit(99)).unwrap();
        let visible = run.visible();
        assert_eq!(visible.tools().len(), tools.len());
        for shown in visible.tools() {
            match run.authorize(&Call::new(shown.name.as_str(), json!({}))).unwrap() {
                Verdict::Run(run) => assert_eq!(run.id(), shown.tool.id()),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn lone_surrogates_in_a_schema_are_kept_and_do_no_harm() {
    let text = r#"[{"name":"a","parameters":{"type":"object","properties":{"\ud800":{"description":"\udc00 mail"},"to":{"description":"mail address"}}}},
        {"name":"b","description":"Read a file."}]"#;
    for (mode, engine) in both(&Catalog::parse(text).unwrap()) {
        let snapshot = engine.snapshot();
        assert!(
            snapshot.tools().next().unwrap().parameters().unwrap().contains(r"\ud800"),
            "{mode}"
        );
        engine.select(&SelectRequest::new("mail address")).unwrap();
    }
}

#[test]
fn descriptions_may_be_empty_or_long() {
    let long = "An endless description of what can be done with it. ".repeat(2_000);
    assert!(long.len() > 100_000);
    for (mode, engine) in both(
        &Catalog::from_tools([
            tool("a/empty", ""),
            tool("a/brew_tea", &format!("{long} Brew a pot of tea.")),
            tool("a/read_file", "Read a file."),
        ])
        .unwrap(),
    ) {
        let named = engine.select(&SelectRequest::new("brew_tea")).unwrap();
        assert_eq!(named.candidates[0].id.name(), "brew_tea", "{mode}");
        let mut run = engine.session(SessionOptions::default().limit(2).retrieve(0)).unwrap();
        let reply = run.find_tool(&FindRequest::of_names(["brew_tea", "empty"])).unwrap();
        assert!(reply.text().len() < 400, "{mode}: {reply}");
        assert!(run.visible().tokens().sent > 10_000, "{mode}");
    }
}

#[test]
fn schemas_of_every_size_and_shape_are_indexed_and_kept() {
    let deep =
        format!("{}{{}}{}", r#"{"properties":{"brew_tea":"#.repeat(3_000), "}}".repeat(3_000));
    let wide: Vec<String> = (0..20_000)
        .map(|n| format!(r#""p{n}":{{"type":"string","description":"about {n}"}}"#))
        .collect();
    let wide = format!(r#"{{"properties":{{"brew_tea":{{}},{}}}}}"#, wide.join(","));
    // References to references, each to all of the document.
    let defs: Vec<String> = (0..600)
        .map(|n| {
            format!(
                r##""d{n}":{{"allOf":[{{"$ref":"#/$defs/d{}"}},{{"$ref":"#"}}]}}"##,
                (n + 1) % 600
            )
        })
        .collect();
    let knot = format!(
        r##"{{"properties":{{"brew_tea":{{"$ref":"#/$defs/d0"}}}},"$defs":{{{}}}}}"##,
        defs.join(",")
    );
    let own =
        r##"{"$ref":"#","properties":{"brew_tea":{"$ref":"#/properties/brew_tea"}}}"##.to_owned();
    let nowhere = r##"{"properties":{"brew_tea":{"$ref":"#/$defs/none"},"x":{"$ref":"https://example.org/s"},"y":{"$ref":5},"z":{"enum":7,"properties":[],"items":"x","anyOf":{}}}}"##.to_owned();
    for schema in [deep, wide, knot, own, nowhere] {
        let brew = Tool::builder("prepare").parameters_json(schema.as_str()).build().unwrap();
        let catalog =
            Catalog::from_tools([tool("default/read_file", "Read a file."), brew]).unwrap();
        for (mode, engine) in both(&catalog) {
            let selection = engine.select(&SelectRequest::new("brew tea")).unwrap();
            let found: Vec<_> = selection
                .candidates
                .iter()
                .chain(selection.rejected.iter().map(|(c, _)| c))
                .collect();
            let best = found.iter().max_by_key(|candidate| candidate.bm25).unwrap();
            assert_eq!(best.id.name(), "prepare", "{mode}\n{selection}");
            assert_eq!(
                engine.snapshot().get(&"default/prepare".parse().unwrap()).unwrap().parameters(),
                Some(schema.as_str())
            );
        }
    }
}

#[test]
fn names_made_to_cost_memory_or_time_do_not() {
    let tools = [
        Tool::builder("a_".repeat(50_000)).build().unwrap(),
        Tool::builder("a ".repeat(50_000)).build().unwrap(),
        Tool::builder("A".repeat(100_000)).build().unwrap(),
        Tool::builder("aB".repeat(50_000)).namespace("n".repeat(10_000)).build().unwrap(),
        tool("default/read_file", "Read a file."),
    ];
    for (mode, engine) in both(&Catalog::from_tools(tools).unwrap()) {
        let mut run = engine.session(SessionOptions::default()).unwrap();
        for name in run.visible().names().map(str::to_owned).collect::<Vec<_>>() {
            assert!(name.len() <= 64);
            assert!(matches!(run.authorize(&Call::new(name, json!({}))).unwrap(), Verdict::Run(_)));
        }
        let selection = engine.select(&SelectRequest::new("read a file")).unwrap();
        assert_eq!(selection.candidates[0].id.name(), "read_file", "{mode}");
        assert!(!selection.is_degraded());
    }
}

#[test]
fn fifty_thousand_tools_are_ranked_named_and_shown() {
    let tools: Vec<Tool> = (0..50_000)
        .map(|n| {
            Tool::builder(format!("list_thing_{n}"))
                .namespace(format!("area_{}", n % 100))
                .description(format!("List thing {n}."))
                .build()
                .unwrap()
        })
        .collect();
    let catalog = Catalog::from_tools(tools).unwrap();
    // Few dimensions: what is tested is not the model.
    let model = StaticEmbedder::bundled().truncated(8).unwrap();
    assert_eq!(model.dimensions(), 8);
    let engine = Engine::builder(catalog).embedder(model).build().unwrap();
    assert_eq!(engine.report().embedded, 50_000);
    let begun = std::time::Instant::now();
    let selection = engine.select(&SelectRequest::new("call list_thing_49999")).unwrap();
    assert_eq!(selection.candidates[0].id.name(), "list_thing_49999");
    // Every tool named, in one request and in many words.
    let every: String = (0..50_000).map(|n| format!("list_thing_{n} ")).collect();
    let selection = engine.select(&SelectRequest::new(every.as_str())).unwrap();
    assert!(selection.candidates.len() > 1_000);
    // One end of a name that all have is ambiguous and ends.
    let mut run = engine.session(SessionOptions::default()).unwrap();
    run.turn("list the thing").unwrap();
    run.find_tool(&FindRequest::new("list the thing").limit(50)).unwrap();
    assert_eq!(run.visible().tools().len(), 20);
    // And all of them at once, which is nobody's wish but must not be quadratic.
    let all = engine.select(&SelectRequest::new("list the thing").k(usize::MAX)).unwrap();
    assert!(all.total >= all.candidates.len());
    let whole = engine.session(SessionOptions::default().pass_through(usize::MAX)).unwrap();
    assert_eq!(whole.visible().tools().len(), 50_000);
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn an_answer_that_all_have_is_ambiguous_and_short() {
    let tools: Vec<(String, String)> =
        (0..500).map(|n| (format!("server_{n}/search"), "Search.".to_owned())).collect();
    let tools: Vec<(&str, &str)> =
        tools.iter().map(|(id, text)| (id.as_str(), text.as_str())).collect();
    let mut run = engine(&tools).session(SessionOptions::default()).unwrap();
    let refusal = refused(&mut run, "search");
    assert!(refusal.text().len() < 1_000, "{refusal}");
}
