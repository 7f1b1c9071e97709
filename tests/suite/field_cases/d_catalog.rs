//! Group D: catalog, policy, embeddings.

use std::sync::atomic::{AtomicBool, Ordering};

use toolrack::{
    Catalog, Embedder as _, Engine, ErrorKind, FindRequest, FindStatus, Listing, RefusalKind,
    RuntimeContext, SelectRequest, SessionOptions, SourceUpdate, StaticEmbedder, VectorCache,
};

use crate::fixtures::{Mood, Words, allowed, both, catalog, ids, many, names, refused, tool};

/// Case 25, teradata-labs/loom PR#335: fewer tools, a removed server and one that timed out, in one
/// version step that searches see whole or not at all.
#[test]
fn case_25_removed_versus_unreachable_server() {
    let engine = Engine::builder(Catalog::empty()).build().unwrap();
    let listing = |ids: &[&str]| {
        SourceUpdate::from(Listing::from_tools(ids.iter().map(|id| tool(id, "Query rows."))))
    };
    engine
        .refresh_all(vec![
            ("a".into(), listing(&["a/query_one", "a/query_two"])),
            ("b".into(), listing(&["b/query_three", "b/query_four"])),
            ("c".into(), listing(&["c/query_five"])),
        ])
        .unwrap();
    let before = engine.snapshot().version();
    let old = ["a/query_one", "a/query_two", "b/query_four", "b/query_three", "c/query_five"];
    let new = ["a/query_two", "c/query_five"];

    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    let selection = engine.select(&SelectRequest::new("query rows")).unwrap();
                    let mut found = ids(&selection);
                    found.sort();
                    if selection.catalog_version == before {
                        assert_eq!(found, old);
                    } else {
                        assert_eq!(found, new);
                    }
                }
            });
        }
        let diff = engine
            .refresh_all(vec![
                ("a".into(), listing(&["a/query_two"])),
                ("b".into(), SourceUpdate::Removed),
                ("c".into(), SourceUpdate::Unreachable("timed out after 10 s".into())),
            ])
            .unwrap();
        assert_eq!(diff.version, before + 1);
        assert_eq!(diff.stale, ["c"]);
        assert_eq!(diff.removed.len(), 3);
        std::thread::sleep(std::time::Duration::from_millis(20));
        done.store(true, Ordering::Relaxed);
    });
    let snapshot = engine.snapshot();
    let health: Vec<(&str, usize, Option<&str>)> = snapshot
        .sources()
        .map(|(name, status)| (name, status.tools, status.stale.as_deref()))
        .collect();
    assert_eq!(health, [("a", 1, None), ("c", 1, Some("timed out after 10 s"))]);
}

/// Case 26, openai/codex#33266 and anthropics/claude-code#66084: a server adds a tool, then changes
/// the description of an active one.
#[test]
fn case_26_list_changed() {
    let model = Words::new("words/1", 64);
    let engine = Engine::builder(Catalog::empty()).embedder(model.clone()).build().unwrap();
    let mut tools = many(30);
    tools.push(tool("srv/watch_queue", "Watch a queue."));
    let refresh = |tools: &[toolrack::Tool]| {
        engine.refresh("srv", Listing::from_tools(tools.iter().cloned())).unwrap()
    };
    refresh(&tools);
    let mut run = engine.session(SessionOptions::default().limit(5).retrieve(0)).unwrap();
    run.find_tool(&FindRequest::of_names(["watch_queue"])).unwrap();
    model.taken();

    tools.push(tool("srv/drain_queue", "Drain a message queue of a broker."));
    assert_eq!(refresh(&tools).added.len(), 1);
    assert_eq!(model.taken().len(), 1, "only the new text is embedded");
    let reply = run.find_tool(&FindRequest::new("drain the message queue of the broker")).unwrap();
    assert!(reply.loaded.iter().any(|found| found.name == "srv__drain_queue"), "{reply}");

    tools[30] = tool("srv/watch_queue", "Watch a queue and report its length.");
    let diff = refresh(&tools);
    assert_eq!((diff.changed.len(), diff.added.len(), diff.removed.len()), (1, 0, 0));
    let embedded = model.taken();
    assert_eq!(embedded.len(), 1, "{embedded:?}");
    assert!(embedded[0].contains("report its length"));

    let description = |run: &toolrack::Session| {
        let visible = run.visible();
        let shown = visible.tools().iter().find(|shown| shown.name == "srv__watch_queue").unwrap();
        shown.tool.description().to_owned()
    };
    // The step goes on with what it began with; the next turn has the new definition.
    assert_eq!(description(&run), "Watch a queue.");
    let epoch = run.visible().epoch();
    let turn = run.turn("go on").unwrap();
    assert_eq!(description(&run), "Watch a queue and report its length.");
    assert!(turn.delta.new_epoch, "changed bytes end the cached prefix");
    assert!(run.visible().epoch() > epoch);
}

/// Case 27, stacklok/toolhive PR#3786 and pydantic-ai#7552: an empty allow-list is not a missing one,
/// and a refusal names nothing that is hidden.
#[test]
fn case_27_empty_allow_list() {
    let catalog = catalog(&[
        ("ops/wipe_disk", "Wipe a disk."),
        ("ops/read_log", "Read a log."),
        ("ops/list_hosts", "List the hosts."),
    ]);
    for (mode, engine) in both(&catalog) {
        let nobody = || RuntimeContext::default().allow_tools([]);
        let selection =
            engine.select(&SelectRequest::new("read the log").context(nobody())).unwrap();
        assert_eq!((selection.candidates.len(), selection.eligible), (0, 0), "{mode}");

        let mut run =
            engine.session(SessionOptions::default().pass_through(0).context(nobody())).unwrap();
        assert!(run.turn("read the log").unwrap().visible.tools().is_empty(), "{mode}");
        let hidden = refused(&mut run, "ops__read_log");
        let missing = refused(&mut run, "ops__make_tea");
        assert_eq!(hidden.kind, RefusalKind::Unknown, "{mode}");
        assert_eq!(
            hidden.text().replace("ops__read_log", "NAME"),
            missing.text().replace("ops__make_tea", "NAME"),
            "{mode}"
        );
        let reply = run.find_tool(&FindRequest::new("read a log")).unwrap();
        let text = format!("{hidden} {reply} {}", reply.json());
        for secret in ["wipe_disk", "list_hosts", "Wipe a disk", "Read a log"] {
            assert!(!text.contains(secret), "{mode}: {text}");
        }
    }
}

/// Case 28, bytedance/deer-flow#2507 and cognizant-ai-lab/neuro-san#1239: hidden from the list but
/// executable.
#[test]
fn case_28_hidden_but_executable() {
    let text = r#"[
        {"name": "wipe_disk", "description": "Wipe a disk.", "scopes": ["disk:write"], "risk": "destructive"},
        {"name": "read_log", "description": "Read a log."},
        {"name": "list_hosts", "description": "List the hosts.", "parameters": {"type": "object", "properties": {"zone": {"type": "string"}}}}
    ]"#;
    let engine = Engine::builder(Catalog::parse(text).unwrap()).build().unwrap();
    let mut run = engine
        .session(SessionOptions::default().core(["read_log"]).limit(2).pass_through(0))
        .unwrap();
    // The call comes out of nowhere, by whatever name.
    for name in ["wipe_disk", "default/wipe_disk"] {
        assert_eq!(refused(&mut run, name).kind, RefusalKind::Unknown);
    }
    assert!(!run.visible().contains("wipe_disk"));
    assert_eq!(
        run.find_tool(&FindRequest::of_names(["wipe_disk"])).unwrap().unknown_names,
        ["wipe_disk"]
    );

    // An authorised one that is not active is promoted instead, and its schema returned
    // (claude-code#60052).
    let refusal = refused(&mut run, "list_hosts");
    assert_eq!(refusal.kind, RefusalKind::NotLoaded);
    assert!(refusal.text().contains(r#""zone""#), "{refusal}");
    assert!(run.visible().contains("list_hosts"));
    assert_eq!(allowed(&mut run, "list_hosts").id().name(), "list_hosts");
}

/// Case 28, the way round: a tool that was allowed when it was shown, and is not when it is called.
#[test]
fn case_28_permission_withdrawn_between_list_and_call() {
    let text =
        r#"[{"name": "wipe_disk", "scopes": ["disk:write"]}, {"name": "read_log"}, {"name": "x"}]"#;
    let engine = Engine::builder(Catalog::parse(text).unwrap()).build().unwrap();
    let context = RuntimeContext::default().scopes(["disk:write"]);
    let options = SessionOptions::default().limit(2).context(context);
    let mut run = engine.session(options).unwrap();
    run.find_tool(&FindRequest::of_names(["wipe_disk"])).unwrap();
    let used = allowed(&mut run, "wipe_disk");
    run.record_use(&used);

    run.set_context(RuntimeContext::default());
    assert_eq!(refused(&mut run, "wipe_disk").kind, RefusalKind::Unknown);
    assert!(!run.visible().contains("wipe_disk"));
    // What was used before must not come back with the next step.
    assert!(!run.step().visible.contains("wipe_disk"));
    assert!(!run.turn("wipe the disk").unwrap().visible.contains("wipe_disk"));
}

/// Case 30, off-grid-ai/OGAM PR#453, xfey/MCP-Zero#7 and samanhappy/mcphub#638: vectors of another
/// model, of another dimension, and of a description that was edited since.
#[test]
fn case_30_model_changed_vectors_kept() {
    let tools = many(12);
    let build = |tools: &[toolrack::Tool], model: &Words, vectors: VectorCache| {
        model.taken();
        let catalog = Catalog::from_tools(tools.iter().cloned()).unwrap();
        let builder = Engine::builder(catalog).embedder(model.clone()).vectors(vectors);
        let engine = builder.build().unwrap();
        (engine.report(), model.taken().len(), engine)
    };
    let small = Words::new("words/small", 32);
    let cached = Engine::builder(Catalog::from_tools(tools.clone()).unwrap())
        .embedder(small.clone())
        .build()
        .unwrap()
        .vectors()
        .unwrap();

    // The same model: nothing is embedded.
    let (report, embedded, _) = build(&tools, &small, cached.clone());
    assert_eq!((report.reused, embedded, report.cache_refused), (12, 0, None));

    // Another dimension, another model: everything is, and the report says why.
    let wide = Words::new("words/small", 64);
    let (report, embedded, engine) = build(&tools, &wide, cached.clone());
    assert_eq!((report.reused, embedded), (0, 12));
    insta::assert_snapshot!(report.cache_refused.unwrap(), @"the vectors of 'words/small' have 32 dimensions but the model 64: embed anew");
    assert_eq!(cached.check(&wide).unwrap_err().kind(), ErrorKind::DimensionMismatch);
    assert!(engine.select(&SelectRequest::new("list the invoice")).unwrap().degraded.is_none());

    let other = Words::new("words/other", 32);
    let (report, embedded, _) = build(&tools, &other, cached.clone());
    assert_eq!((report.reused, embedded), (0, 12));
    insta::assert_snapshot!(report.cache_refused.unwrap(), @"the vectors were made by 'words/small' but the model is 'words/other': embed anew");
    assert_eq!(cached.check(&other).unwrap_err().kind(), ErrorKind::ModelMismatch);

    // One description edited: one text is.
    let mut edited = tools.clone();
    edited[3] = tool(&tools[3].id().to_string(), "Something else entirely.");
    let (report, embedded, _) = build(&edited, &small, cached.clone());
    assert_eq!((report.reused, embedded, report.cache_refused), (11, 1, None));

    // The new model fails: words alone, never the old vectors.
    other.set(Mood::Down);
    let (report, _, engine) = build(&tools, &other, cached);
    assert_eq!((report.reused, report.missing), (0, 12));
    let selection = engine.select(&SelectRequest::new("list the invoice")).unwrap();
    assert!(selection.is_degraded());
    assert!(selection.candidates.iter().all(|candidate| candidate.cosine.is_none()));
}

/// Case 30 at run time: a swap embeds everything anew, and one that fails leaves the old model.
#[test]
fn case_30_model_swapped_under_an_engine() {
    let engine = Engine::builder(Catalog::from_tools(many(12)).unwrap()).build().unwrap();
    let bundled = StaticEmbedder::bundled().fingerprint();
    let request = SelectRequest::new("list the invoice");
    let words = Words::new("words/1", 48);
    words.set(Mood::Down);
    assert_eq!(engine.swap(words.clone()).unwrap_err().kind(), ErrorKind::Embedder);
    assert_eq!(engine.fingerprint(), Some(bundled));
    assert!(!engine.select(&request).unwrap().is_degraded());

    words.set(Mood::Well);
    words.taken();
    engine.swap(words.clone()).unwrap();
    assert_eq!((engine.fingerprint().as_deref(), words.taken().len()), (Some("words/1"), 12));
    assert!(!engine.select(&request).unwrap().is_degraded());
}

/// Case 32, StacklokLabs/mcp-optimizer#35, awslabs/mcp#918, tya5/reyn PR#2854: no model at the start,
/// and one request that cannot be embedded later.
#[test]
fn case_32_embedder_down() {
    let model = Words::new("words/1", 64);
    model.set(Mood::Down);
    let catalog = Catalog::from_tools(many(60)).unwrap();
    let engine = Engine::builder(catalog).embedder(model.clone()).build().unwrap();
    assert_eq!(model.taken().len(), 32, "a model that fails is not asked again");
    assert_eq!(engine.report().missing, 60);
    assert_eq!(engine.report().failure.as_deref(), Some("the embedding service answered 503"));

    // Words alone, flagged, k respected; a search says so to the model.
    let request = SelectRequest::new("archive the shipment").k(3);
    let selection = engine.select(&request).unwrap();
    assert!(selection.is_degraded());
    assert_eq!(selection.candidates.len(), 3, "{selection}");
    let mut run = engine.session(SessionOptions::default().limit(8).retrieve(2)).unwrap();
    let turn = run.turn("archive the shipment").unwrap();
    assert_eq!(turn.visible.tools().len(), 2);
    assert!(turn.explain().contains("words only, because the embedding service answered 503"));
    let reply = run.find_tool(&FindRequest::new("export a playlist").limit(2)).unwrap();
    assert_eq!((reply.status, reply.loaded.len()), (FindStatus::Loaded, 2));
    assert!(reply.degraded.is_some() && reply.text().ends_with("other words may find more."));
    assert_eq!(names(&run).len(), 5);

    // Back: the first answer completes the index, the next selection is whole.
    model.set(Mood::Well);
    engine.select(&request).unwrap();
    assert_eq!(engine.report().missing, 0);
    assert!(!engine.select(&request).unwrap().is_degraded());
    assert!(!run.turn("archive the shipment").unwrap().selection.unwrap().is_degraded());

    // One failure later costs that one request its meaning and nothing else.
    *model.queries_mood.lock().unwrap() = Mood::Down;
    let selection = engine.select(&request).unwrap();
    assert!(selection.is_degraded() && selection.candidates.len() == 3);
    model.set(Mood::Well);
    model.taken();
    assert!(!engine.select(&request).unwrap().is_degraded());
    assert!(model.taken().is_empty(), "nothing is embedded anew");
}
