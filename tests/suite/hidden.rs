//! Nothing of a tool that the caller may not use is in anything that comes out.
//!
//! Random policies over a catalog of marked tools, random callers, random requests. Every tool has a
//! mark of its own in its name, description, parameters, aliases and examples; no mark of an
//! ineligible tool may be in any output or error, or only where the request itself said it.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use serde_json::{Value, json};
use toolrack::trace::TraceBuffer;
use toolrack::{
    Budget, Call, Catalog, Detail, Engine, Fallback, FindRequest, Gate, IntentRules, Jaccard,
    ListOrder, Listing, Pins, RuntimeContext, SelectRequest, Selector, SessionOptions, ToolId,
    TrustPolicy, Verdict, anthropic, gemini, mcp, openai,
};

/// Sets of random policies; the tools and the engine are built once each.
const CATALOGS: u64 = 40;
const TOOLS: usize = 14;
/// Cases of the property below.
const CASES: u32 = 10_000;

const VERBS: [&str; 7] = ["create", "list", "delete", "read", "update", "send", "find"];
const THINGS: [&str; 6] = ["invoice", "ticket", "mail", "file", "event", "report"];

struct Marked {
    engine: Engine,
    jaccard: Engine,
    tools: Vec<(ToolId, Value)>,
}

/// The mark of a tool: no other text contains it.
fn mark(tool: usize) -> String {
    format!("zq{}x", char::from(b'a' + tool as u8))
}

fn pick<'a>(random: &mut u64, list: &[&'a str]) -> Vec<&'a str> {
    list.iter().filter(|_| next(random).is_multiple_of(4)).copied().collect()
}

/// A small generator, so that a catalog follows from its number.
fn next(random: &mut u64) -> u64 {
    *random =
        random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *random >> 33
}

fn build(number: u64) -> Marked {
    let mut random = number.wrapping_mul(77_777) + 1;
    let mut list: Vec<Value> = Vec::new();
    for tool in 0..TOOLS {
        let mark = mark(tool);
        let verb = VERBS[next(&mut random) as usize % VERBS.len()];
        let thing = THINGS[next(&mut random) as usize % THINGS.len()];
        list.push(json!({
            "name": format!("{verb}_{thing}_{mark}"),
            "namespace": (["qsales", "qops", "qhuman"][next(&mut random) as usize % 3]),
            "description": format!("To {verb} a {thing} of {mark}. Hidden {mark} text."),
            "aliases": [format!("{thing} {mark}ing")],
            "examples": [format!("please {verb} the {thing} {mark}")],
            "parameters": {"type": "object", "properties": {
                format!("{mark}_key"): {"type": "string", "description": format!("the {mark}")}}},
            "enabled": !next(&mut random).is_multiple_of(8),
            "scopes": pick(&mut random, &["s1", "s2"]),
            "roles": pick(&mut random, &["r1", "r2"]),
            "stages": pick(&mut random, &["draft", "final"]),
            "environments": pick(&mut random, &["test", "live"]),
            "tenants": pick(&mut random, &["acme", "umbrella"]),
            "flags": pick(&mut random, &["f1"]),
            "risk": (["read", "write", "destructive"][next(&mut random) as usize % 3]),
        }));
    }
    // One tool is withheld for a changed definition, one source is not allowed at all.
    let trust = TrustPolicy::default().allow_sources(["all"]).pin_new();
    let catalog = Catalog::trusting(trust);
    let text = Value::from(list.clone()).to_string();
    catalog.refresh("all", Listing::parse(&text).unwrap()).unwrap();
    catalog
        .refresh("bad", Listing::parse(r#"[{"name": "zq_bad", "description": "zq_bad"}]"#).unwrap())
        .unwrap();
    list[TOOLS - 1]["description"] = json!("Changed zqnx.");
    let text = Value::from(list.clone()).to_string();
    catalog.refresh("all", Listing::parse(&text).unwrap()).unwrap();
    let engine = Engine::builder(catalog.clone()).gate(Gate::open()).build().unwrap();
    let tools = list
        .into_iter()
        .map(|tool| {
            let text = |key: &str| tool[key].as_str().unwrap().to_owned();
            (ToolId::new(text("namespace"), text("name")).unwrap(), tool)
        })
        .collect();
    Marked { jaccard: engine.with_scorer(Jaccard), engine, tools }
}

fn marked(number: u64) -> &'static Marked {
    static ALL: [OnceLock<Marked>; CATALOGS as usize] =
        [const { OnceLock::new() }; CATALOGS as usize];
    ALL[number as usize].get_or_init(|| build(number))
}

/// The rule in the words of the tool's own JSON, apart from the code under test.
fn may_use(tool: &(ToolId, Value), row: usize, context: &RuntimeContext) -> bool {
    let (id, tool) = tool;
    let list = |key: &str| -> Vec<&str> {
        tool[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
    };
    let fact = |key: &str, fact: &Option<String>| {
        list(key).is_empty() || fact.as_ref().is_some_and(|fact| list(key).contains(&fact.as_str()))
    };
    row != TOOLS - 1
        && tool["enabled"].as_bool().unwrap()
        && list("scopes").iter().all(|scope| context.scopes.contains(*scope))
        && (list("roles").is_empty()
            || list("roles").iter().any(|role| context.roles.contains(*role)))
        && list("flags").iter().all(|flag| context.flags.contains(*flag))
        && fact("stages", &context.stage)
        && fact("environments", &context.environment)
        && fact("tenants", &context.tenant)
        && context.namespaces.as_ref().is_none_or(|set| set.contains(id.namespace()))
        && context.tools.as_ref().is_none_or(|set| set.contains(id))
}

#[derive(Debug, Clone)]
struct Case {
    catalog: u64,
    scopes: BTreeSet<String>,
    roles: BTreeSet<String>,
    flags: bool,
    stage: Option<String>,
    environment: Option<String>,
    tenant: Option<String>,
    namespaces: Option<BTreeSet<String>>,
    allowed: Option<Vec<usize>>,
    words: Vec<usize>,
    /// Tools whose name the request says; the caller may or may not use them.
    said: Vec<usize>,
    k: usize,
    path: u8,
}

fn subset(of: &'static [&'static str]) -> impl Strategy<Value = BTreeSet<String>> {
    proptest::sample::subsequence(of, 0..=of.len())
        .prop_map(|list| list.into_iter().map(str::to_owned).collect())
}

fn one(of: &'static [&'static str]) -> impl Strategy<Value = Option<String>> {
    proptest::option::of(proptest::sample::select(of).prop_map(str::to_owned))
}

fn cases() -> impl Strategy<Value = Case> {
    let caller = (
        subset(&["s1", "s2"]),
        subset(&["r1", "r2"]),
        any::<bool>(),
        one(&["draft", "final"]),
        one(&["test", "live"]),
        one(&["acme", "umbrella"]),
        proptest::option::weighted(0.3, subset(&["qsales", "qops", "qhuman"])),
        proptest::option::weighted(0.3, proptest::collection::vec(0..TOOLS, 0..TOOLS)),
    );
    let request = (
        0..CATALOGS,
        proptest::collection::vec(0..VERBS.len() + THINGS.len(), 0..5),
        proptest::collection::vec(0..TOOLS, 0..2),
        0_usize..6,
        0_u8..8,
    );
    (caller, request).prop_map(|(caller, request)| {
        let (scopes, roles, flags, stage, environment, tenant, namespaces, allowed) = caller;
        let (catalog, words, said, k, path) = request;
        Case {
            catalog,
            scopes,
            roles,
            flags,
            stage,
            environment,
            tenant,
            namespaces,
            allowed,
            words,
            said,
            k,
            path,
        }
    })
}

impl Case {
    fn context(&self, marked: &Marked) -> RuntimeContext {
        let mut context = RuntimeContext::default();
        context.scopes.clone_from(&self.scopes);
        context.roles.clone_from(&self.roles);
        context.flags =
            if self.flags { BTreeSet::from(["f1".to_owned()]) } else { BTreeSet::new() };
        context.stage.clone_from(&self.stage);
        context.environment.clone_from(&self.environment);
        context.tenant.clone_from(&self.tenant);
        context.namespaces.clone_from(&self.namespaces);
        context.tools = self
            .allowed
            .as_ref()
            .map(|rows| rows.iter().map(|&row| marked.tools[row].0.clone()).collect());
        context
    }

    fn text(&self, marked: &Marked) -> String {
        let word = |&place: &usize| {
            VERBS.get(place).copied().unwrap_or_else(|| THINGS[place - VERBS.len()])
        };
        let mut words: Vec<String> =
            self.words.iter().map(|place| word(place).to_owned()).collect();
        words.extend(self.said.iter().map(|&row| marked.tools[row].0.name().to_owned()));
        words.join(" ")
    }
}

/// Everything that comes out on the way that `path` says.
fn outputs(case: &Case, marked: &Marked, context: &RuntimeContext, text: &str) -> String {
    let engine = if case.path.is_multiple_of(2) { &marked.engine } else { &marked.jaccard };
    let mut out = String::new();
    let fallback = if case.path == 5 { Fallback::Aliases } else { Fallback::Words };
    let request = SelectRequest::of_intents([text, "list a file"])
        .k(case.k)
        .fallback(fallback)
        .context(context.clone());
    let request = if case.path == 3 {
        let rules = IntentRules::english().with_fallback(marked.tools[0].0.name());
        request.intent_rules(rules)
    } else {
        request
    };
    match case.path {
        0..4 | 5 => {
            let selection = engine.select(&request).unwrap();
            write!(out, "{selection}{selection:?}{}", json!(selection)).unwrap();
            for id in case.said.iter().map(|&row| &marked.tools[row].0) {
                match engine.explain(&request, id) {
                    Ok(explained) => write!(out, "{explained}{explained:?}").unwrap(),
                    Err(error) => write!(out, "{error}{error:?}").unwrap(),
                }
            }
            let page = engine.outline(context, Detail::Lines, Budget::Bytes(case.k * 200));
            write!(out, "{page}{page:?}").unwrap();
        }
        4 => {
            let selector = Selector::new(engine).top_k(case.k).context(context.clone());
            let mut pins = Pins::default();
            pins.pin(marked.tools[case.k].0.clone());
            let picked = selector.select(text, &pins).unwrap();
            write!(out, "{picked:?}").unwrap();
            let found = selector.discover(text, &mut Pins::default()).unwrap();
            write!(out, "{found:?}").unwrap();
            let always = selector.always_include([marked.tools[case.k].0.name()]);
            if let Err(error) = always.select(text, &Pins::default()) {
                // It says back what it was asked for.
                write!(out, "{}", error.to_string().replace(marked.tools[case.k].0.name(), ""))
                    .unwrap();
            }
        }
        _ => session(case, engine, marked, context, text, &mut out),
    }
    out
}

fn session(
    case: &Case,
    engine: &Engine,
    marked: &Marked,
    context: &RuntimeContext,
    text: &str,
    out: &mut String,
) {
    let order = if case.path == 6 { ListOrder::Admission } else { ListOrder::Name };
    let options = SessionOptions::default()
        .limit(case.k + 1)
        .pass_through(0)
        .order(order)
        .compressed(60 * case.k)
        .pin_found(case.path == 7)
        .context(context.clone());
    let mut run = engine.session(options.clone()).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    let turn = run.turn(text).unwrap();
    let visible = |list: &toolrack::Visible| {
        let rendered = [
            openai::tools(list).json(),
            openai::responses::tools(list).json(),
            anthropic::tools(list).json(),
            gemini::tools(list).json(),
            mcp::tools(list).json(),
        ];
        format!("{list}{list:?}{rendered:?}")
    };
    write!(out, "{turn:?}{}{}", turn.explain(), visible(&turn.visible)).unwrap();
    write!(out, "{:?}{:?}", run.notice(), run.warnings()).unwrap();
    let names: Vec<String> =
        case.said.iter().map(|&row| marked.tools[row].0.name().to_owned()).collect();
    let mut search = FindRequest::of_intents([text]);
    search.names.clone_from(&names);
    search.describe.clone_from(&names);
    for search in
        [search, FindRequest::new(text), FindRequest::new("zzz"), FindRequest::of_names(&names)]
    {
        let reply = run.find_tool(&search).unwrap();
        write!(out, "{}{}{reply:?}", reply.text(), reply.json()).unwrap();
    }
    for name in names.iter().map(String::as_str).chain(["delete_everything"]) {
        match run.authorize(&Call::new(name, json!({}))).unwrap() {
            Verdict::Refused(refusal) => write!(out, "{refusal}{refusal:?}").unwrap(),
            other => write!(out, "{other:?}").unwrap(),
        }
        if let Err(error) = run.pin(name) {
            write!(out, "{error}").unwrap();
        }
    }
    write!(out, "{}", visible(&run.visible())).unwrap();
    match anthropic::deferred(&run, anthropic::Search::Bm25, &json!([])) {
        Ok(list) => out.push_str(&list.json()),
        Err(error) => write!(out, "{error}{error:?}").unwrap(),
    }
    let state = run.to_state();
    write!(out, "{:?}", run.working_set()).unwrap();
    // Losing a permission takes everything along, restored or not.
    run.set_context(RuntimeContext::default().allow_tools([]));
    let after = run.step();
    assert!(after.visible.tools().is_empty());
    out.push_str(&trace.text());
    let (restored, report) = engine.restore(options, state).unwrap();
    write!(out, "{}{report:?}", visible(&restored.visible())).unwrap();
}

#[test]
fn nothing_of_an_ineligible_tool_is_in_any_output() {
    let config =
        ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    // A test that hides everything from everybody would hold as well.
    let telling = AtomicU32::new(0);
    proptest!(config, |(case in cases())| {
        let marked = marked(case.catalog);
        let (context, text) = (case.context(marked), case.text(marked));
        let out = outputs(&case, marked, &context, &text);
        for (row, tool) in marked.tools.iter().enumerate() {
            if may_use(tool, row, &context) {
                continue;
            }
            // What the request said itself may come back as an unknown name: the name alone.
            let said = if case.said.contains(&row) { tool.0.name() } else { "" };
            let rest = if said.is_empty() { out.clone() } else {
                out.replace(&tool.0.to_string(), "").replace(said, "")
            };
            prop_assert!(!rest.contains(&mark(row)), "{} in {rest}", tool.0);
            // Nor a namespace in which there is nothing for this caller.
            let namespace = tool.0.namespace();
            let mut usable = marked.tools.iter().enumerate();
            let known = usable.any(|(row, other)| {
                other.0.namespace() == namespace && may_use(other, row, &context)
            });
            // What the caller itself is approved for, a trace says back.
            let approved = context.namespaces.as_ref().is_some_and(|set| set.contains(namespace));
            if !known && !approved && case.said.is_empty() {
                prop_assert!(!rest.contains(namespace), "{namespace} in {rest}");
            }
        }
        prop_assert!(!out.contains("zq_bad"));
        let mut usable = marked.tools.iter().enumerate();
        let told = usable.any(|(row, tool)| may_use(tool, row, &context) && out.contains(&mark(row)));
        telling.fetch_add(u32::from(told), Ordering::Relaxed);
    });
    assert!(telling.into_inner() > CASES / 3);
}

#[test]
fn filtering_never_starves_a_result() {
    let config =
        ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(case in cases())| {
        let marked = marked(case.catalog);
        let context = case.context(marked);
        let rows = marked.tools.iter().enumerate();
        let eligible = rows.filter(|(row, tool)| may_use(tool, *row, &context)).count();
        let text = "create list delete read update send find invoice ticket mail file event report";
        for engine in [&marked.engine, &marked.jaccard] {
            let request = SelectRequest::new(text).k(case.k).context(context.clone());
            let selection = engine.select(&request).unwrap();
            prop_assert_eq!(selection.eligible, eligible);
            prop_assert_eq!(selection.candidates.len(), case.k.min(eligible));
            let picked = Selector::new(engine).top_k(case.k).context(context.clone());
            let picked = picked.select(text, &Pins::default()).unwrap();
            prop_assert_eq!(picked.tools.len(), case.k.min(eligible));
        }
    });
}
