//! The working set as a runtime uses it: limits, budgets, timing, differences between turns.

use proptest::prelude::*;
use serde_json::json;
use toolrack::{
    Catalog, Engine, ErrorKind, FindRequest, SessionOptions, Slot, Timing, ToolId, Verdict,
    WorkingSet, WorkingSetOptions, openai,
};

use crate::fixtures::{allowed, many, names};

fn engine(n: usize) -> Engine {
    Engine::builder(Catalog::from_tools(many(n)).unwrap()).build().unwrap()
}

#[test]
fn impossible_options_are_errors_when_the_run_opens() {
    let engine = engine(30);
    let core = ["list_invoice_0", "get_invoice_1", "create_invoice_2"];
    let refused = |options: SessionOptions| {
        let error = engine.session(options.pass_through(0)).unwrap_err();
        format!("{:?}: {error}", error.kind())
    };
    let options = SessionOptions::default;
    let messages = [
        refused(options().limit(0)),
        refused(options().token_budget(0)),
        refused(options().find_limit(0)),
        refused(options().core(core).limit(2)),
        refused(options().core(core).limit(3).pinned(["list_ticket_6"])),
        refused(options().core(core).token_budget(200)),
        refused(options().token_budget(10)),
        refused(options().core(["no_such_tool"])),
        refused(options().pinned(["no_such_tool"])),
        refused(options().core([""])),
        refused(options().meta_tool("")),
        refused(options().meta_tool("find tool")),
    ];
    insta::assert_snapshot!(messages.join("\n"), @r"
    InvalidSetting: the tool limit is 0: allow at least one tool
    InvalidSetting: the token budget is 0: allow some tokens or set none
    InvalidSetting: find_limit is 0: let one search bring in at least 1 tool
    BudgetTooSmall: 3 core and pinned tools are more than the limit of 2: raise the limit or keep fewer resident
    BudgetTooSmall: 4 core and pinned tools are more than the limit of 3: raise the limit or keep fewer resident
    BudgetTooSmall: core and pinned tools and the meta-tool take 275 tokens of a budget of 200: raise the budget or keep fewer resident
    BudgetTooSmall: core and pinned tools and the meta-tool take 206 tokens of a budget of 10: raise the budget or keep fewer resident
    UnknownTool: there is no tool 'no_such_tool' to be core: name a tool of the catalog
    UnknownTool: there is no tool 'no_such_tool' to be pinned: name a tool of the catalog
    UnknownTool: there is no tool '' to be core: name a tool of the catalog
    InvalidSetting: the meta-tool's name '' is no provider name: use 1 to 64 of a-z, A-Z, 0-9, _ and -
    InvalidSetting: the meta-tool's name 'find tool' is no provider name: use 1 to 64 of a-z, A-Z, 0-9, _ and -
    ");
    // The core alone fills the limit: possible, if hardly useful.
    let mut run = engine.session(options().core(core).limit(3).pass_through(0)).unwrap();
    assert_eq!(run.turn("archive the shipment").unwrap().visible.tools().len(), 3);
}

#[test]
fn options_travel_as_json_and_refuse_what_they_do_not_know() {
    let options = WorkingSetOptions::default()
        .limit(3)
        .token_budget(9)
        .timing(Timing::Immediate)
        .stale_after(1);
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<WorkingSetOptions>(&text).unwrap(), options);
    assert_eq!(
        serde_json::from_str::<WorkingSetOptions>("{}").unwrap(),
        WorkingSetOptions::default()
    );
    assert!(serde_json::from_str::<WorkingSetOptions>(r#"{"limits": 3}"#).is_err());
    let options =
        SessionOptions::default().core(["a"]).retrieve(2).pass_through(0).meta_tool("search");
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<SessionOptions>(&text).unwrap(), options);
}

#[test]
fn the_empty_set_and_the_smallest_one_work() {
    let slot = Slot { id: "a/b".parse().unwrap(), tokens: 7 };
    let mut set = WorkingSet::new(WorkingSetOptions::default().limit(1), vec![], 0).unwrap();
    assert!(set.is_empty() && set.observe(&[], &[]) == Default::default());
    assert_eq!(set.admit_found(&[slot.clone(), slot.clone()]).admitted.len(), 1);
    assert_eq!((set.len(), set.tokens()), (1, 7));
    // Tokens beyond any count are no overflow.
    let huge = Slot { id: "a/huge".parse().unwrap(), tokens: usize::MAX };
    let mut set =
        WorkingSet::new(WorkingSetOptions::default().token_budget(usize::MAX), vec![], 3).unwrap();
    set.admit_found(&[slot, huge]);
    assert!(set.len() <= 2);
}

#[test]
fn what_a_turn_retrieves_makes_room_for_what_the_model_asks_for() {
    let mut run = engine(60).session(SessionOptions::default().limit(4).retrieve(4)).unwrap();
    run.turn("archive the shipment").unwrap();
    assert_eq!(run.visible().tools().len(), 4, "{}", run.visible());
    // In the very same step: "finish with other tools first" would be no help.
    let reply =
        run.find_tool(&FindRequest::of_names(["list_playlist_30", "get_playlist_31"])).unwrap();
    assert_eq!(reply.loaded.len(), 2, "{reply}");
    assert_eq!(run.visible().tools().len(), 4);
}

#[derive(Debug, Clone)]
enum Act {
    Turn(usize),
    Step,
    Find(usize),
    Name(usize),
    Call(usize),
    CallUnseen(usize),
    Pin(usize),
    Unpin(usize),
    Release(usize),
    Compact,
    Store,
}

fn act() -> impl Strategy<Value = Act> {
    let n = || 0_usize..40;
    prop_oneof![
        4 => n().prop_map(Act::Turn),
        2 => Just(Act::Step),
        2 => n().prop_map(Act::Find),
        2 => n().prop_map(Act::Name),
        3 => n().prop_map(Act::Call),
        1 => n().prop_map(Act::CallUnseen),
        1 => n().prop_map(Act::Pin),
        1 => n().prop_map(Act::Unpin),
        1 => n().prop_map(Act::Release),
        1 => Just(Act::Compact),
        1 => Just(Act::Store),
    ]
}

fn visible_ids(run: &toolrack::Session) -> Vec<ToolId> {
    run.visible().tools().iter().map(|shown| shown.tool.id().clone()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    /// Whatever a model does: the limits hold, the list within an epoch only grows at its end, every
    /// visible name can be called, and a turn's delta is what changed since the turn before.
    #[test]
    fn runs_keep_their_promises(
        acts in prop::collection::vec(act(), 1..25),
        limit in 3_usize..9,
        budget in prop::option::of(500_usize..900),
        immediate: bool,
    ) {
        let tools = many(40);
        let engine = Engine::builder(Catalog::from_tools(tools.clone()).unwrap())
            .without_embedder()
            .build()
            .unwrap();
        let timing = if immediate { Timing::Immediate } else { Timing::Epoch };
        let mut options = SessionOptions::default()
            .core(["list_invoice_0"])
            .limit(limit)
            .retrieve(3)
            .stale_after(1)
            .timing(timing)
            .pass_through(0);
        options.working_set.token_budget = budget;
        let mut run = engine.session(options.clone()).unwrap();
        let mut at_last_turn = visible_ids(&run);
        let (mut bytes, mut epoch) = (String::from("["), 0);
        for act in &acts {
            let name = |n: usize| tools[n].id().to_string();
            let mut turn = None;
            match act {
                Act::Turn(n) => turn = Some(run.turn(tools[*n].description()).unwrap()),
                Act::Step => turn = Some(run.step()),
                Act::Find(n) => { run.find_tool(&FindRequest::new(tools[*n].description())).unwrap(); }
                Act::Name(n) => { run.find_tool(&FindRequest::of_names([name(*n)])).unwrap(); }
                Act::Call(n) => {
                    let shown = run.visible().tools()[n % run.visible().tools().len()].name.clone();
                    let used = allowed(&mut run, &shown);
                    run.record_use(&used);
                }
                Act::CallUnseen(n) => {
                    let call = toolrack::Call::new(name(*n), json!({}));
                    if let Verdict::Run(tool) = run.authorize(&call).unwrap() {
                        run.abandon(&tool);
                    }
                }
                Act::Pin(n) => { let _ = run.pin(&name(*n)); }
                Act::Unpin(n) => run.unpin(&name(*n)).unwrap(),
                Act::Release(n) => { run.release(&name(*n)).unwrap(); }
                Act::Compact => { run.on_compaction(); }
                Act::Store => {
                    // Between turns, as a runtime stores: what was pending is told first.
                    turn = Some(run.step());
                    let before = openai::tools(run.visible()).json();
                    let stored = serde_json::to_string(&run.to_state()).unwrap();
                    let state = serde_json::from_str(&stored).unwrap();
                    let (again, report) = engine.restore(options.clone(), state).unwrap();
                    prop_assert!(report.left_out.is_empty() && report.missing_core.is_empty());
                    prop_assert_eq!(openai::tools(again.visible()).json(), before);
                    prop_assert_eq!(&serde_json::to_string(&again.to_state()).unwrap(), &stored);
                    run = again;
                }
            }
            let visible = run.visible();
            prop_assert!(visible.tools().len() <= limit, "{act:?}: {visible}");
            prop_assert!(budget.is_none_or(|budget| visible.tokens().sent <= budget), "{act:?}");
            let start = names(&run)[..2].to_vec();
            prop_assert_eq!(start, ["area_0__list_invoice_0", "find_tool"]);
            let now = openai::tools(&visible).json();
            if visible.epoch() == epoch {
                let grown = now.starts_with(bytes.trim_end_matches(']'));
                prop_assert!(grown, "{act:?}\n{bytes}\n{now}");
            }
            (bytes, epoch) = (now, visible.epoch());
            if let Some(turn) = turn {
                let ids = visible_ids(&run);
                let shown: Vec<&ToolId> =
                    turn.visible.tools().iter().map(|shown| shown.tool.id()).collect();
                if !matches!(act, Act::Store) {
                    prop_assert_eq!(shown, ids.iter().collect::<Vec<_>>());
                }
                for id in &ids {
                    let admitted = turn.delta.admitted.iter().any(|(other, _)| other == id);
                    prop_assert!(at_last_turn.contains(id) || admitted, "{id} came in unsaid");
                }
                for id in &at_last_turn {
                    let evicted = turn.delta.evicted.iter().any(|(other, _)| other == id);
                    prop_assert!(ids.contains(id) || evicted, "{id} went out unsaid");
                }
                at_last_turn = ids;
            }
        }
        for shown in names(&run).iter().filter(|name| *name != "find_tool") {
            let tool = allowed(&mut run, shown);
            run.abandon(&tool);
        }
    }
}

#[test]
fn unknown_names_are_refused_alike_wherever_a_runtime_gives_one() {
    let mut run = engine(5).session(SessionOptions::default()).unwrap();
    for result in
        [run.pin("nobody").map(|_| ()), run.unpin("nobody"), run.release("nobody").map(|_| ())]
    {
        let error = result.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UnknownTool);
        assert!(error.to_string().starts_with("there is no tool 'nobody' to be "), "{error}");
    }
}
