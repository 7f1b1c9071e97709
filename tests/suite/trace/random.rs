//! Runs of any kind: they replay, and their traces name no hidden tool.

use proptest::prelude::*;
use toolrack::Gate;

use super::*;

/// What a runtime may do, in any order.
#[derive(Debug, Clone)]
enum Act {
    Turn(usize),
    TurnWith(usize, usize),
    Step,
    Find(usize),
    FindNames(usize),
    Call(usize),
    Use,
    Abandon,
    Reply(usize),
    Pin(usize),
    Unpin(usize),
    Release(usize),
    Take,
    Shown(usize),
    Compact,
    Context(usize),
    Refresh(usize),
}

const WORDS: [&str; 7] = [
    "what is a restaurant?",
    "send the invoice to the customer",
    "yes, do it",
    "delete the old rows of the table",
    "what is the weather like",
    "select:docs/search, mail_send",
    "réserve une table pour deux",
];

const NAMES: [&str; 8] = [
    "docs/search",
    "tickets/search",
    "search",
    "mail_send",
    "invoice_create",
    "table_drop",
    "weather_get",
    "no_such_tool",
];

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..WORDS.len()).prop_map(Act::Turn),
        1 => (0..WORDS.len(), 0..WORDS.len()).prop_map(|(a, b)| Act::TurnWith(a, b)),
        1 => Just(Act::Step),
        2 => (0..WORDS.len()).prop_map(Act::Find),
        1 => (0..NAMES.len()).prop_map(Act::FindNames),
        3 => (0..NAMES.len()).prop_map(Act::Call),
        2 => Just(Act::Use),
        1 => Just(Act::Abandon),
        1 => (0..WORDS.len()).prop_map(Act::Reply),
        1 => (0..NAMES.len()).prop_map(Act::Pin),
        1 => (0..NAMES.len()).prop_map(Act::Unpin),
        1 => (0..NAMES.len()).prop_map(Act::Release),
        2 => Just(Act::Take),
        1 => (0..NAMES.len()).prop_map(Act::Shown),
        1 => Just(Act::Compact),
        1 => (0..CONTEXTS).prop_map(Act::Context),
        1 => (0..CATALOGS.len()).prop_map(Act::Refresh),
    ]
}

/// Does `acts`, and gives the catalogs that there were.
fn perform(engine: &Engine, run: &mut Session, acts: &[Act]) -> Vec<Arc<Snapshot>> {
    let mut open: Vec<Authorized> = Vec::new();
    let mut snapshots = vec![engine.snapshot()];
    for act in acts {
        match *act {
            Act::Turn(text) => drop(run.turn(WORDS[text]).unwrap()),
            Act::TurnWith(text, before) => {
                let earlier = [Message::user(WORDS[before])];
                run.turn(TurnInput::new(WORDS[text]).recent(earlier)).unwrap();
            }
            Act::Step => drop(run.step()),
            Act::Find(text) => drop(run.find_tool(&FindRequest::new(WORDS[text])).unwrap()),
            Act::FindNames(name) => {
                run.find_tool(&FindRequest::of_names([NAMES[name]]).limit(2)).unwrap();
            }
            Act::Call(name) => {
                if let Verdict::Run(tool) =
                    run.authorize(&Call::new(NAMES[name], json!({}))).unwrap()
                {
                    open.push(tool);
                }
            }
            Act::Use => {
                if let Some(tool) = open.pop() {
                    run.record_use(&tool);
                }
            }
            Act::Abandon => {
                if let Some(tool) = open.pop() {
                    run.abandon(&tool);
                }
            }
            Act::Reply(text) => run.note_reply(WORDS[text]),
            Act::Pin(name) => drop(run.pin(NAMES[name])),
            Act::Unpin(name) => drop(run.unpin(NAMES[name])),
            Act::Release(name) => drop(run.release(NAMES[name])),
            Act::Take => drop(run.visible()),
            Act::Shown(name) => run.note_shown([NAMES[name]]),
            Act::Compact => drop(run.on_compaction()),
            Act::Context(which) => run.set_context(context(which)),
            Act::Refresh(which) => {
                engine.refresh("catalog", Listing::parse(CATALOGS[which]).unwrap()).unwrap();
                snapshots.push(engine.snapshot());
            }
        }
    }
    snapshots
}

/// What a run's trace says of `acts`, without those that bring another catalog.
fn traced_without_refresh(engine: &Engine, run: &mut Session, mut acts: Vec<Act>) -> String {
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    acts.retain(|act| !matches!(act, Act::Refresh(_)));
    perform(engine, run, &acts);
    trace.text()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn any_run_replays_to_the_same_bytes(
        before in prop::collection::vec(act(), 0..6),
        acts in prop::collection::vec(act(), 1..25),
        first in 0..CONTEXTS,
        immediate in any::<bool>(),
        operator in any::<bool>(),
        whole in prop::sample::select(vec![0_usize, 3, 7]),
        rules in any::<bool>(),
        by_name in any::<bool>(),
        pin_found in any::<bool>(),
        budget in prop::option::of(290_usize..420),
        ratio in prop::sample::select(vec![0.0_f32, 0.6]),
        aliases in any::<bool>(),
    ) {
        let timing = if immediate { Timing::Immediate } else { Timing::Epoch };
        let mut options =
            SessionOptions::default().limit(3).retrieve(2).stale_after(1).timing(timing).pass_through(whole);
        if rules {
            options = options.intent(IntentRules::english());
        }
        if by_name {
            options = options.order(ListOrder::Name);
        }
        if let Some(tokens) = budget {
            options = options.token_budget(tokens);
        }
        options = options.pin_found(pin_found).min_score_ratio(ratio);
        if aliases {
            options = options.fallback(Fallback::Aliases);
        }
        let engine = small(0);
        let mut run = engine.session(options.context(context(first))).unwrap();
        // What happens before the trace begins is in its state.
        perform(&engine, &mut run, &before);
        let level = if operator { TraceLevel::Operator } else { TraceLevel::Run };
        let trace = TraceBuffer::new();
        run.trace_at(level, trace.clone());
        let start: Vec<Tool> = run.snapshot().tools().cloned().collect();
        let snapshots = perform(&engine, &mut run, &acts);

        let again = Engine::builder(Catalog::from_tools(start).unwrap()).build().unwrap();
        let report = Replay::new(&again)
            .on_refresh(|stamp| {
                let same = |other: &&Arc<Snapshot>| CatalogStamp::of(other).digest == stamp.digest;
                let tools = snapshots.iter().find(same).unwrap().tools().cloned();
                // Taken out first: what stays would keep its place.
                again.refresh("catalog", SourceUpdate::Removed)?;
                again.refresh("catalog", Listing::from_tools(tools)).map(drop)
            })
            .run(&Trace::parse(&trace.text()))
            .unwrap();
        prop_assert!(report.is_identical(), "{}", report);
    }

    #[test]
    fn a_run_trace_names_no_hidden_tool(
        which in 0..CONTEXTS,
        acts in prop::collection::vec(act(), 1..25),
    ) {
        let engine = Engine::builder(secret_catalog()).build().unwrap();
        let options = SessionOptions::default().limit(3).retrieve(2).stale_after(1).pass_through(0);
        let mut run = engine.session(options.context(context(which))).unwrap();
        let text = traced_without_refresh(&engine, &mut run, acts);
        prop_assert!(!text.contains("zebra"), "{}", text);
        prop_assert!(text.contains(r#""excluded":4"#) || which > 0);
    }

    #[test]
    fn a_trace_that_begins_under_narrower_rights_names_no_tool_of_before(
        before in prop::collection::vec(secret_act(), 1..14),
        acts in prop::collection::vec(act(), 0..12),
        core in any::<bool>(),
        pinned in any::<bool>(),
        limit in 2_usize..5,
        narrow in 0..CONTEXTS,
        restored in any::<bool>(),
    ) {
        let engine = Engine::builder(secret_catalog()).gate(Gate::open()).build().unwrap();
        let mut options =
            SessionOptions::default().limit(limit).retrieve(2).stale_after(1).pass_through(0);
        if core {
            options = options.core([SECRET[0]]);
        }
        if pinned {
            options = options.pinned([SECRET[1]]);
        }
        let wide = RuntimeContext::default().scopes(["nobody has this", "billing"]).roles(["admin"]);
        let mut run = engine.session(options.clone().context(wide)).unwrap();
        perform_secretly(&mut run, &before);
        if restored {
            let state = run.to_state();
            run = engine.restore(options.context(context(narrow)), state).unwrap().0;
        } else {
            run.set_context(context(narrow));
        }
        let state = run.to_state();
        let kept = format!("{:?} {:?}", state.briefed, state.searches);
        prop_assert!(!kept.contains("zebra"), "{}", kept);
        if restored {
            // Of a live run a call may still be open on a core tool that was taken away.
            let state = serde_json::to_string(&state).unwrap();
            prop_assert!(!state.contains("zebra"), "{}", state);
        }
        let text = traced_without_refresh(&engine, &mut run, acts);
        prop_assert!(!text.contains("zebra"), "{}", text);
    }
}

/// What a run may do with tools that only its beginning may use.
#[derive(Debug, Clone)]
enum SecretAct {
    Turn(usize),
    Step,
    Find(usize),
    Load(usize),
    Describe(usize),
    Call(usize),
    Use,
    Pin(usize),
    Unpin(usize),
    Shown(usize),
    Take,
}

/// Two tools that only the beginning may use, and two that others may, too.
const SECRET: [&str; 4] =
    ["docs/zebra_mail_send", "zebra_space/zebra", "default/table_book", "docs/search"];

fn secret_act() -> impl Strategy<Value = SecretAct> {
    let tool = || 0..SECRET.len();
    prop_oneof![
        2 => (0..WORDS.len()).prop_map(SecretAct::Turn),
        1 => Just(SecretAct::Step),
        2 => (0..WORDS.len()).prop_map(SecretAct::Find),
        3 => tool().prop_map(SecretAct::Load),
        2 => tool().prop_map(SecretAct::Describe),
        4 => tool().prop_map(SecretAct::Call),
        2 => Just(SecretAct::Use),
        1 => tool().prop_map(SecretAct::Pin),
        1 => tool().prop_map(SecretAct::Unpin),
        1 => tool().prop_map(SecretAct::Shown),
        2 => Just(SecretAct::Take),
    ]
}

fn perform_secretly(run: &mut Session, acts: &[SecretAct]) {
    let mut open: Vec<Authorized> = Vec::new();
    for act in acts {
        match *act {
            SecretAct::Turn(text) => drop(run.turn(WORDS[text]).unwrap()),
            SecretAct::Step => drop(run.step()),
            SecretAct::Find(text) => {
                run.find_tool(&FindRequest::new(WORDS[text]).limit(3)).unwrap();
            }
            SecretAct::Load(name) => {
                run.find_tool(&FindRequest::of_names([SECRET[name]])).unwrap();
            }
            SecretAct::Describe(name) => {
                run.find_tool(&FindRequest::of_definitions([SECRET[name]])).unwrap();
            }
            SecretAct::Call(name) => {
                let call = Call::new(SECRET[name], json!({}));
                if let Verdict::Run(tool) = run.authorize(&call).unwrap() {
                    open.push(tool);
                }
            }
            SecretAct::Use => {
                if let Some(tool) = open.pop() {
                    run.record_use(&tool);
                }
            }
            SecretAct::Pin(name) => drop(run.pin(SECRET[name])),
            SecretAct::Unpin(name) => drop(run.unpin(SECRET[name])),
            SecretAct::Shown(name) => run.note_shown([SECRET[name].replace('/', "__")]),
            SecretAct::Take => drop(run.visible()),
        }
    }
}
