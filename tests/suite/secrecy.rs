//! Who may use what, and what nobody may learn.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;
use toolrack::{
    Call, Catalog, Engine, ErrorKind, FindRequest, Listing, RefusalKind, RuntimeContext,
    SelectRequest, Session, SessionOptions, Tool, ToolPolicy, Verdict, openai,
};

use crate::fixtures::{allowed, id, refused, tool};

fn restricted(written: &str, restrict: impl FnOnce(&mut ToolPolicy)) -> Tool {
    let id = id(written);
    let mut policy = ToolPolicy::default();
    restrict(&mut policy);
    Tool::builder(id.name())
        .namespace(id.namespace())
        .description("Does it.")
        .policy(policy)
        .build()
        .unwrap()
}

fn list(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

#[test]
fn every_condition_has_to_hold() {
    let tools = vec![
        restricted("a/off", |policy| policy.enabled = false),
        restricted("a/prod", |policy| policy.environments = list(&["prod", "staging"])),
        restricted("a/scoped", |policy| policy.scopes = list(&["x", "y"])),
        restricted("a/staff", |policy| policy.roles = list(&["admin", "staff"])),
        restricted("a/planning", |policy| policy.stages = list(&["plan"])),
        restricted("a/tenanted", |policy| policy.tenants = list(&["acme"])),
        restricted("a/flagged", |policy| policy.flags = list(&["beta", "new"])),
        restricted("b/free", |_| {}),
    ];
    let engine = Engine::builder(Catalog::from_tools(tools).unwrap()).build().unwrap();
    let may = |context: RuntimeContext| -> Vec<String> {
        let options = SessionOptions::default().context(context);
        let run = engine.session(options).unwrap();
        run.visible().tools().iter().map(|shown| shown.tool.name().to_owned()).collect()
    };
    let nobody = RuntimeContext::default;
    // Without facts, whatever asks for one is out of reach.
    assert_eq!(may(nobody()), ["free"]);
    assert_eq!(may(nobody().environment("prod")), ["prod", "free"]);
    assert_eq!(may(nobody().environment("Prod")), ["free"]);
    assert_eq!(may(nobody().scopes(["x"])), ["free"]);
    assert_eq!(may(nobody().scopes(["x", "y", "z"])), ["scoped", "free"]);
    assert_eq!(may(nobody().roles(["staff"])), ["staff", "free"]);
    assert_eq!(may(nobody().stage("plan")), ["planning", "free"]);
    assert_eq!(may(nobody().tenant("acme")), ["tenanted", "free"]);
    assert_eq!(may(nobody().flags(["beta"])), ["free"]);
    assert_eq!(may(nobody().flags(["beta", "new"])), ["flagged", "free"]);
    assert_eq!(may(nobody().approve_namespaces(["a"]).stage("plan")), ["planning"]);
    assert_eq!(may(nobody().approve_namespaces::<&str>([])), Vec::<String>::new());
    assert_eq!(may(nobody().allow_tools([id("a/staff"), id("a/off")]).roles(["admin"])), ["staff"]);
    assert_eq!(may(nobody().allow_tools([])), Vec::<String>::new());
}

#[test]
fn contexts_travel_as_json_and_refuse_what_they_do_not_know() {
    let context = RuntimeContext::default()
        .scopes(["s"])
        .roles(["r"])
        .stage("plan")
        .environment("prod")
        .tenant("t")
        .flags(["f"])
        .approve_namespaces(["n"])
        .allow_tools([id("a/b")]);
    let text = serde_json::to_string(&context).unwrap();
    assert_eq!(serde_json::from_str::<RuntimeContext>(&text).unwrap(), context);
    assert!(serde_json::from_str::<RuntimeContext>(r#"{"scope": ["s"]}"#).is_err());
    // Absent and empty are two things.
    let absent: RuntimeContext = serde_json::from_str("{}").unwrap();
    let empty: RuntimeContext = serde_json::from_str(r#"{"tools": [], "namespaces": []}"#).unwrap();
    assert!(absent.tools.is_none() && empty.tools == Some(BTreeSet::new()));
    assert_ne!(absent, empty);
}

#[test]
fn eligibility_comes_before_the_ranking_and_its_cut() {
    // Twenty better fits that may not be used must not use up k.
    let mut tools: Vec<Tool> = (0..20)
        .map(|n| {
            restricted(&format!("a/archive_shipment_{n}"), |policy| policy.scopes = list(&["x"]))
        })
        .collect();
    tools.push(tool("b/shipment_archive", "Shipments of the archive."));
    let engine = Engine::builder(Catalog::from_tools(tools).unwrap()).build().unwrap();
    let selection = engine.select(&SelectRequest::new("archive the shipment").k(1)).unwrap();
    assert_eq!(selection.candidates[0].id, id("b/shipment_archive"));
    assert_eq!((selection.eligible, selection.total), (1, 1));
    // The ranking is that of a catalog of the eligible tools alone.
    let alone = Engine::builder(
        Catalog::from_tools([tool("b/shipment_archive", "Shipments of the archive.")]).unwrap(),
    )
    .build()
    .unwrap();
    let only = alone.select(&SelectRequest::new("archive the shipment").k(1)).unwrap();
    assert_eq!(selection.candidates, only.candidates);
}

#[test]
fn explaining_a_hidden_tool_is_explaining_a_missing_one() {
    let engine = Engine::builder(
        Catalog::from_tools([
            restricted("a/hidden", |policy| policy.enabled = false),
            tool("a/shown", "Does it."),
        ])
        .unwrap(),
    )
    .build()
    .unwrap();
    let request = SelectRequest::new("hidden shown");
    let [hidden, missing] = ["a/hidden", "a/nobody"].map(|written| {
        let error = engine.explain(&request, &id(written)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownTool);
        error.to_string().replace(written, "NAME")
    });
    assert_eq!(hidden, missing);
    assert_eq!(engine.explain(&request, &id("a/shown")).unwrap().of, 1);
    // Outside the namespace that is asked for, too.
    let elsewhere = request.namespace("b");
    assert_eq!(
        engine.explain(&elsewhere, &id("a/shown")).unwrap_err().kind(),
        ErrorKind::UnknownTool
    );
}

#[test]
fn the_policy_of_now_counts_when_a_call_is_made() {
    let open = || tool("a/wipe", "Wipe.");
    let shut = || restricted("a/wipe", |policy| policy.scopes = list(&["wipe"]));
    let engine =
        Engine::builder(Catalog::from_tools([open(), tool("a/b", ""), tool("a/c", "")]).unwrap())
            .build()
            .unwrap();
    let mut run = engine.session(SessionOptions::default().core(["wipe"]).limit(2)).unwrap();
    let used = allowed(&mut run, "a__wipe");
    run.record_use(&used);
    // The tool's owner restricts it between the list and the call.
    engine
        .refresh("catalog", Listing::from_tools([shut(), tool("a/b", ""), tool("a/c", "")]))
        .unwrap();
    let refusal = refused(&mut run, "a__wipe");
    assert_eq!(refusal.kind, RefusalKind::Unknown);
    assert!(!run.step().visible.contains("a__wipe"));
    assert!(!run.step().visible.contains("a__wipe"));
    // The caller is granted the scope.
    run.set_context(RuntimeContext::default().scopes(["wipe"]));
    assert_eq!(run.visible().names().next(), Some("a__wipe"));
    allowed(&mut run, "a__wipe");
    run.set_context(RuntimeContext::default());
    assert_eq!(refused(&mut run, "a__wipe").kind, RefusalKind::Unknown);
}

#[test]
fn a_context_that_grows_does_not_flood_the_list() {
    let mut tools = vec![tool("a/one", "One."), tool("a/two", "Two.")];
    tools.extend(
        (0..200)
            .map(|n| restricted(&format!("b/more_{n}"), |policy| policy.roles = list(&["admin"]))),
    );
    let engine = Engine::builder(Catalog::from_tools(tools).unwrap()).build().unwrap();
    let mut run = engine.session(SessionOptions::default().limit(5)).unwrap();
    assert!(run.is_pass_through());
    run.set_context(RuntimeContext::default().roles(["admin"]));
    assert!(run.visible().tools().len() <= 5 && run.visible().meta_tool().is_some());
    assert!(run.step().delta.new_epoch);
}

/// A secret word that no other text has.
fn secret(n: usize) -> String {
    format!("zq{n}xj")
}

/// Everything that a model, a user or a log of one run can see.
fn everything(engine: &Engine, run: &mut Session, context: &RuntimeContext, words: &str) -> String {
    let mut out = String::new();
    let turn = run.turn(words).unwrap();
    out += &format!("{turn:?} {} {turn}", turn.delta);
    out += &openai::tools(&turn).json();
    for arguments in [
        json!({"intent": words}),
        json!({"intents": [words, "do the thing"], "limit": 50}),
        json!({"names": ["thing", "nobody"]}),
        json!({"intent": "qwertz asdfgh yxcvbn uiopl"}),
        json!({"intent": words, "namespace": "space0"}),
    ] {
        if let Verdict::MetaTool(request) =
            run.authorize(&Call::new("find_tool", arguments)).unwrap()
        {
            let reply = run.find_tool(&request).unwrap();
            out += &format!("{reply} {reply:?} {}", reply.json());
        }
    }
    for name in ["thing", "nobody", "a/b", "space0__"] {
        out += &format!("{:?}", run.authorize(&Call::new(name, json!({}))).unwrap());
    }
    let request = SelectRequest::new(words).k(100).context(context.clone());
    let selection = engine.select(&request).unwrap();
    out += &format!("{selection:?} {selection} {}", serde_json::to_string(&selection).unwrap());
    for candidate in &selection.candidates {
        out += &format!("{:?}", engine.explain(&request, &candidate.id).unwrap());
    }
    out += &format!("{:?} {}", run.visible(), run.visible());
    out += &format!("{run:?} {engine:?} {:?}", run.engine().report());
    out += &serde_json::to_string(&run.to_state()).unwrap();
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn nothing_of_a_hidden_tool_shows_anywhere(
        policies in prop::collection::vec((0_usize..7, 0_usize..3, 0_usize..3), 2..14),
        facts in prop::collection::vec(any::<bool>(), 7),
        limit in 1_usize..6,
        words_alone: bool,
    ) {
        let tools: Vec<Tool> = policies.iter().enumerate().map(|(n, &(kind, space, same))| {
            let mut policy = ToolPolicy::default();
            let word = vec!["yes".to_owned()];
            match kind {
                0 => policy.enabled = false,
                1 => policy.environments = word,
                2 => policy.scopes = word,
                3 => policy.roles = word,
                4 => policy.stages = word,
                5 => policy.tenants = word,
                _ => {}
            }
            // Some share a bare name over namespaces, all have a secret in every text.
            let name = if same == 0 { format!("thing_{}", secret(n)) } else { format!("{}_thing", secret(n)) };
            Tool::builder(name)
                .namespace(format!("space{space}"))
                .title(format!("Title {}", secret(n)))
                .description(format!("Do the thing {} well.", secret(n)))
                .parameters(&json!({"type": "object", "properties": {format!("p_{}", secret(n)): {"description": secret(n)}}}))
                .aliases([secret(n)])
                .tags([secret(n)])
                .policy(policy)
                .build()
                .unwrap()
        }).collect();
        let mut context = RuntimeContext::default();
        if facts[0] { context = context.environment("yes"); }
        if facts[1] { context = context.scopes(["yes"]); }
        if facts[2] { context = context.roles(["yes"]); }
        if facts[3] { context = context.stage("yes"); }
        if facts[4] { context = context.tenant("yes"); }
        if facts[5] { context = context.approve_namespaces(["space0", "space1"]); }
        let hidden = |n: usize| {
            let (kind, space, _) = policies[n];
            let kept_out = match kind {
                0 => true,
                1..=5 => !facts[kind - 1],
                _ => false,
            };
            kept_out || (facts[5] && space == 2)
        };
        let builder = Engine::builder(Catalog::from_tools(tools.clone()).unwrap());
        let builder = if words_alone { builder.without_embedder() } else { builder };
        let engine = builder.build().unwrap();
        let options = SessionOptions::default().limit(limit).retrieve(2).context(context.clone());
        let run_options = options.clone();
        let mut run = engine.session(options.clone()).unwrap();
        let out = everything(&engine, &mut run, &context, "do the thing well, please");
        for n in (0..tools.len()).filter(|&n| hidden(n)) {
            prop_assert!(!out.contains(&secret(n)), "{} in {out}", secret(n));
        }

        // Whatever is asked of a hidden tool, by any name it has, the answers are those of a catalog
        // that does not hold it.
        let shown: Vec<Tool> = (0..tools.len()).filter(|&n| !hidden(n)).map(|n| tools[n].clone()).collect();
        let catalog = if shown.is_empty() { Catalog::empty() } else { Catalog::from_tools(shown).unwrap() };
        let builder = Engine::builder(catalog);
        let builder = if words_alone { builder.without_embedder() } else { builder };
        let without = builder.build().unwrap();
        let mut other = without.session(options).unwrap();
        other.turn("do the thing well, please").unwrap();
        let mut run = {
            let mut run = engine.session(run_options).unwrap();
            run.turn("do the thing well, please").unwrap();
            run
        };
        for tool in (0..tools.len()).filter(|&n| hidden(n)).map(|n| &tools[n]) {
            let provider = format!("{}__{}", tool.namespace(), tool.name());
            for name in [tool.name(), &tool.id().to_string(), &provider] {
                prop_assert_eq!(refused(&mut run, name), refused(&mut other, name));
                for request in [FindRequest::of_names([name]), FindRequest::new(name)] {
                    prop_assert_eq!(run.find_tool(&request).unwrap(), other.find_tool(&request).unwrap());
                }
                let pins = [run.pin(name), other.pin(name)].map(|pin| pin.unwrap_err().to_string());
                prop_assert_eq!(&pins[0], &pins[1]);
                let [here, there] = [&engine, &without].map(|engine| {
                    engine.explain(&SelectRequest::new("x").context(context.clone()), tool.id())
                        .unwrap_err().to_string()
                });
                prop_assert_eq!(here, there);
            }
        }
        prop_assert_eq!(openai::tools(run.visible()).json(), openai::tools(other.visible()).json());
        prop_assert_eq!(run.visible().tokens(), other.visible().tokens());
    }
}
