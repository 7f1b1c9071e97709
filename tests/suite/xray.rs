//! The X-ray page: self-contained, safe against what traces hold, and drawn by a browser.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use toolrack::trace::{Event, Stage, Trace, TraceBuffer, TraceLevel};
use toolrack::{
    Call, Catalog, Engine, EvictReason, FindRequest, RuntimeContext, Session, SessionOptions,
    Verdict, xray,
};

const TOOLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/tools.json");

const ASKED: [&str; 8] = [
    "which invoices did we send last month?",
    "book the payments that came in",
    "yes, do it",
    "open a ticket for the customer and tell the account owner",
    "what was the exchange rate on the last day of October?",
    "compose a haiku about the sea",
    "who is on holiday next week?",
    "delete the old draft and send the new one",
];

/// A run of so many turns with searches, calls and compactions.
fn run_of(turns: usize, level: TraceLevel) -> Vec<Event> {
    let engine = Engine::builder(Catalog::read(TOOLS).unwrap()).build().unwrap();
    let context = RuntimeContext::default()
        .approve_namespaces(["agent", "billing", "ledger", "fx", "helpdesk", "email", "hr", "crm"]);
    let options = SessionOptions::default()
        .core(["agent/read_state"])
        .limit(10)
        .retrieve(4)
        .stale_after(3)
        .context(context);
    let trace = TraceBuffer::new();
    let mut run = engine.session(options).unwrap();
    run.trace_at(level, trace.clone());
    for n in 0..turns {
        let turn = run.turn(ASKED[n % ASKED.len()]).unwrap();
        if n % 3 == 0 {
            run.find_tool(&FindRequest::new(ASKED[(n + 3) % ASKED.len()])).unwrap();
        }
        if let Some(tool) = turn.visible.tools().last() {
            call(&mut run, &tool.name);
        }
        if n % 10 == 9 {
            call(&mut run, "hr__search_employees");
            call(&mut run, "no_such_tool");
            run.on_compaction();
        }
    }
    trace.events()
}

fn call(run: &mut Session, name: &str) {
    if let Verdict::Run(tool) = run.authorize(&Call::new(name, json!({}))).unwrap() {
        run.record_use(&tool);
    }
}

// ---------------------------------------------------------------- the bytes

#[test]
fn the_page_refers_to_nothing_outside_itself() {
    let page = xray::page(&run_of(2, TraceLevel::Run));
    // The namespace of SVG is a name, not an address.
    let page = page.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http://", "https://", "src=", "@import", "url(", "<link rel=\"stylesheet"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn what_a_trace_holds_cannot_leave_its_place() {
    let engine = Engine::builder(
        Catalog::parse(r#"[{"name": "</script><script>alert(1)</script>"}, {"name": "b"}]"#)
            .unwrap(),
    )
    .build()
    .unwrap();
    let trace = TraceBuffer::new();
    let mut run = engine.session(SessionOptions::default().limit(1)).unwrap();
    run.trace_to(trace.clone());
    let attack = "</script><img src=x onerror=alert(1)><!-- \u{2028} /*js*/ /*data*/";
    run.turn(attack).unwrap();
    let page = xray::page(&trace.events());
    assert!(!page.contains("<img") && !page.contains("<script>alert"));
    let data = page.split_once(r#"id="data">"#).unwrap().1.split_once("</script>").unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    let messages: Vec<&str> =
        data["events"].as_array().unwrap().iter().filter_map(|e| e["message"].as_str()).collect();
    assert_eq!(messages, [attack]);
}

#[test]
fn a_runs_page_names_no_hidden_tool_and_an_operators_does() {
    assert!(!xray::page(&run_of(3, TraceLevel::Run)).contains("calendar/"));
    assert!(xray::page(&run_of(3, TraceLevel::Operator)).contains("calendar/"));
}

#[test]
fn the_same_trace_gives_the_same_page() {
    let events = run_of(3, TraceLevel::Run);
    assert_eq!(xray::page(&events), xray::page(&events));
}

// ---------------------------------------------------------------- in a browser

/// A page in a folder of its own, and the browser to open it with.
struct Browser {
    folder: tempfile::TempDir,
    program: PathBuf,
}

impl Browser {
    /// `None` when there is no Chromium and none is required: the test is skipped and says so.
    fn open(page: &str) -> Option<Self> {
        let named = std::env::var_os("TOOLRACK_CHROMIUM").map(PathBuf::from);
        let paths = std::env::var_os("PATH").unwrap_or_default();
        let found = named.or_else(|| {
            let places = std::env::split_paths(&paths);
            places
                .flat_map(|place| ["chromium", "chromium-browser"].map(|name| place.join(name)))
                .find(|program| program.is_file())
        });
        let Some(program) = found else {
            let required =
                std::env::var("TOOLRACK_REQUIRE_CHROMIUM").is_ok_and(|value| value == "1");
            assert!(!required, "chromium is required and was not found: install it");
            eprintln!("skipped: there is no chromium to open the page with");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("page.html"), page).unwrap();
        Some(Self { folder, program })
    }

    /// `fragment` is what follows the address: `#turn=2`, or nothing.
    fn run(&self, arguments: &[&str], fragment: &str) -> Vec<u8> {
        let profile = tempfile::tempdir().unwrap();
        let output = Command::new(&self.program)
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(arguments)
            .arg(format!("file://{}{fragment}", self.folder.path().join("page.html").display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    /// The document after its scripts ran.
    fn dom(&self) -> String {
        self.dom_at("")
    }

    fn dom_at(&self, fragment: &str) -> String {
        let dom = self.run(&["--window-size=1280,1000", "--dump-dom"], fragment);
        String::from_utf8(dom).unwrap()
    }

    fn screenshot(&self, size: (u32, u32), dark: bool) -> Picture {
        let path = self.folder.path().join("page.png");
        let mut arguments = vec![
            format!("--window-size={},{}", size.0, size.1),
            format!("--screenshot={}", path.display()),
        ];
        if dark {
            arguments.push("--blink-settings=preferredColorScheme=0".to_owned());
        }
        self.run(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), "");
        Picture::read(&path)
    }
}

struct Picture {
    width: u32,
    pixels: Vec<[u8; 3]>,
}

impl Picture {
    fn read(path: &Path) -> Self {
        let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let frame = reader.next_frame(&mut bytes).unwrap();
        let step = frame.color_type.samples();
        let pixels = bytes[..frame.buffer_size()]
            .chunks_exact(step)
            .map(|pixel| [pixel[0], pixel[1], pixel[2]])
            .collect();
        Self { width: frame.width, pixels }
    }

    /// How many pixels have the colour `#rrggbb`.
    fn count(&self, colour: u32) -> usize {
        let [_, red, green, blue] = colour.to_be_bytes();
        self.pixels.iter().filter(|pixel| **pixel == [red, green, blue]).count()
    }

    fn brightness(&self) -> f64 {
        let sum: u64 = self.pixels.iter().flatten().map(|&value| u64::from(value)).sum();
        sum as f64 / (self.pixels.len() * 3) as f64
    }
}

/// The text of a document, markup and data left out.
fn text_of(dom: &str) -> String {
    let body = dom
        .split_once("<body>")
        .unwrap()
        .1
        .split(r#"<script type="application/json""#)
        .next()
        .unwrap();
    let mut text = String::new();
    let mut inside = false;
    for c in body.chars() {
        match c {
            '<' => inside = true,
            '>' => {
                inside = false;
                text.push(' ');
            }
            _ if !inside => text.push(c),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("&amp;", "&")
}

#[test]
fn a_browser_shows_turns_tools_scores_and_savings() {
    let Some(browser) = Browser::open(&xray::page(&run_of(6, TraceLevel::Operator))) else {
        return;
    };
    let text = text_of(&browser.dom());
    for part in [
        "Operator's trace: shows hidden tools",
        "Turns 6 6 requests to the model",
        "Turn 1 of 6",
        "which invoices did we send last month?",
        "Visible at the end of the turn",
        "billing/list_invoices new: fits the request",
        "agent/read_state core",
        "Meaning (cosine)",
        "Words (score, share)",
        "let in",
        "Excluded by policy",
        "namespace not approved:",
        "calendar/",
        "% saved",
    ] {
        assert!(text.contains(part), "no '{part}' in: {text}");
    }
    assert!(!text.contains("does not know"), "{text}");
}

#[test]
fn a_browser_draws_the_bars_in_light_and_in_dark() {
    let Some(browser) = Browser::open(&xray::page(&run_of(6, TraceLevel::Run))) else { return };
    // Colours of the two arms, as the style has them.
    let light = browser.screenshot((1280, 1600), false);
    assert_eq!(light.width, 1280);
    assert!(light.count(0x2563a8) > 1_000, "no bars of the dense arm");
    assert!(light.count(0xa8630f) > 1_000, "no bars of the lexical arm");
    let dark = browser.screenshot((1280, 1600), true);
    assert!(dark.count(0x7ab0f0) > 1_000 && dark.count(0xdfa750) > 1_000);
    // The chart and what is selected have a colour of their own: it must not be taken for bars.
    assert!(light.count(0x6a4a9c) > 100 && dark.count(0xb9a2ea) > 100);
    assert!(light.brightness() > 200.0 && dark.brightness() < 60.0);
}

#[test]
fn a_browser_says_why_tools_left_and_draws_what_every_tool_would_take() {
    let events = run_of(12, TraceLevel::Run);
    let Some(browser) = Browser::open(&xray::page(&events)) else { return };
    let mut reasons = std::collections::BTreeMap::new();
    for event in &events {
        let Stage::Eviction(eviction) = &event.stage else { continue };
        let list = events.iter().rev().find_map(|other| match &other.stage {
            Stage::List(list) if other.turn == event.turn => Some(list),
            _ => None,
        });
        for gone in eviction.evicted.iter().filter(|gone| !list.unwrap().tools.contains(&gone.tool))
        {
            let why = match gone.why {
                EvictReason::Stale { idle } => format!("not wanted for {idle} steps"),
                EvictReason::LeastRecent => "least recently wanted".to_owned(),
                other => panic!("{other:?}"),
            };
            reasons.entry(why).or_insert((event.turn, gone.tool.to_string()));
        }
    }
    assert!(reasons.len() > 1, "{reasons:?}");
    for (why, (turn, tool)) in reasons.iter().take(3) {
        let text = text_of(&browser.dom_at(&format!("#turn={turn}")));
        assert!(text.contains(&format!("{tool} {why}")), "no '{tool} {why}' in: {text}");
    }

    let dom = browser.dom();
    let path = |class: &str| {
        let (_, rest) = dom.split_once(&format!("<path class=\"{class}\" d=\"")).unwrap();
        rest.split_once('"').unwrap().0.to_owned()
    };
    let (all, sent) = (path("all"), path("sent"));
    // One stretch a turn and one before the first; every tool takes the most, which is the top.
    assert_eq!((all.matches('H').count(), sent.matches('H').count()), (13, 13));
    assert!(all.starts_with("M0.0 16.0H"), "{all}");
    let Stage::List(list) = &events[1].stage else { panic!("{:?}", events[1]) };
    let share = list.tokens.sent as f64 / list.tokens.naive as f64;
    assert!(sent.starts_with(&format!("M0.0 {:.1}H", 104.0 - 88.0 * share)), "{sent}");
}

/// The page of a turn of the trace's own lines, one for each of `stages`.
fn page_of_stages(stages: &[serde_json::Value]) -> String {
    let lines = stages.iter().enumerate().map(|(seq, stage)| {
        let mut line = json!({"seq": seq, "turn": 1});
        let fields = line.as_object_mut().unwrap();
        fields.extend(stage.as_object().unwrap().clone());
        line.to_string()
    });
    let trace = Trace::parse(&lines.collect::<Vec<_>>().join("\n"));
    assert!(trace.damaged.is_empty(), "{:?}", trace.damaged);
    xray::page_of(&trace)
}

#[test]
fn the_gates_mark_is_what_was_asked() {
    let thresholds = json!({"by": "cosine", "read": 0.2, "write": 0.3, "destructive": 0.6,
        "coverage": 0.5, "margin": 0.1});
    let words = |tool: &str| json!({"tool": tool, "bm25": 1.0, "lexical": 0.1, "coverage": 0.1, "name_coverage": 0.0});
    let page = page_of_stages(&[
        json!({"event": "turn", "message": "alpha beta gamma delta"}),
        json!({"event": "intent", "intents": ["alpha beta gamma delta"], "recent": 0, "k": 5}),
        json!({"event": "dense", "scores": [{"tool": "x/fits", "cosine": 0.7},
            {"tool": "x/keyword", "cosine": 0.3}]}),
        json!({"event": "lexical", "scores": [words("x/fits"), words("x/keyword"), words("x/blind")]}),
        // A list of keywords asks more of a tool than its class does; what has no vector is judged by
        // its words, on a scale to 3.
        json!({"event": "gate", "outcome": "found", "thresholds": thresholds, "total": 1,
        "admitted": [{"tool": "x/fits", "risk": "write", "reaches": 0.7}],
        "rejected": [
            {"tool": "x/keyword", "risk": "read", "why": "below-threshold", "reaches": 0.3, "asked": 0.6},
            {"tool": "x/blind", "risk": "read", "why": "below-threshold", "reaches": 0.3, "asked": 0.75},
        ]}),
    ]);
    let Some(browser) = Browser::open(&page) else { return };
    let dom = browser.dom();
    let rows: Vec<&str> =
        dom.split("<tr").filter(|row| row.contains("class=\"gate\"><div")).collect();
    let row = |tool: &str| {
        let row = rows.iter().find(|row| row.contains(tool)).unwrap();
        row.split_once("class=\"gate\"").unwrap().1.replace(' ', "")
    };
    let (fits, keyword, blind) = (row("x/fits"), row("x/keyword"), row("x/blind"));
    assert!(fits.contains("width:70%") && fits.contains("left:30%"), "{fits}");
    assert!(keyword.contains("width:30%") && keyword.contains("left:60%"), "{keyword}");
    assert!(blind.contains("width:10%") && blind.contains("left:25%"), "{blind}");
    assert!(text_of(&dom).contains("0.30 by words"), "{blind}");
}

#[test]
fn every_kind_of_event_is_known_to_the_page() {
    let mut lines: Vec<String> = crate::trace::whole_run(&crate::trace::office(), TraceLevel::Run)
        .events()
        .iter()
        .map(Event::to_line)
        .collect();
    let failed = json!({"seq": lines.len(), "turn": 3, "event": "failed", "error": "no disk"});
    lines.push(failed.to_string());
    let trace = Trace::parse(&lines.join("\n"));
    assert!(trace.damaged.is_empty());
    // The reader names all kinds that there are when it meets one that there is not.
    let stranger = Trace::parse(r#"{"seq": 0, "turn": 0, "event": "no_such_stage"}"#);
    let problem = &stranger.damaged[0].problem;
    let kinds: Vec<&str> = problem.split('`').skip(3).step_by(2).collect();
    assert!(kinds.len() > 25, "{problem}");
    let fed: Vec<&str> = trace.events.iter().map(|event| event.stage.name()).collect();
    for kind in kinds {
        assert!(fed.contains(&kind), "no {kind} in {fed:?}");
    }
    let Some(browser) = Browser::open(&xray::page_of(&trace)) else { return };
    let text = text_of(&browser.dom_at("#turn=2"));
    assert!(!text.contains("does not know"), "{text}");
    assert!(
        text.contains("the model was given definitions by other means: email/send_email"),
        "{text}"
    );
    assert!(text_of(&browser.dom_at("#turn=3")).contains("no disk"));
}

#[test]
fn a_look_up_is_told_from_a_search() {
    let engine = Engine::builder(Catalog::read(TOOLS).unwrap()).without_embedder().build().unwrap();
    let mut run = engine.session(SessionOptions::default().limit(3).retrieve(1)).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    run.turn("which invoices did we send?").unwrap();
    run.find_tool(&FindRequest::of_definitions(["helpdesk/create_ticket"])).unwrap();
    let Some(browser) = Browser::open(&xray::page(&trace.events())) else { return };
    let text = text_of(&browser.dom());
    assert!(text.contains("look up the definition of helpdesk/create_ticket"), "{text}");
    assert!(!text.contains(" search found"), "{text}");
}

#[test]
fn what_would_be_hidden_or_turn_the_line_around_is_shown_as_an_escape() {
    let catalog = Catalog::from_tools([
        crate::fixtures::tool("default/\u{202e}gnihton_od", "Sorts\u{200b} mail."),
        crate::fixtures::tool("default/other", "Sends mail."),
    ]);
    let engine = Engine::builder(catalog.unwrap()).without_embedder().build().unwrap();
    let mut run = engine.session(SessionOptions::default().limit(1).retrieve(1)).unwrap();
    let trace = TraceBuffer::new();
    run.trace_to(trace.clone());
    run.turn("sorts mail\u{7} \u{2066}with\u{e0041} 👩\u{200d}👧\nin two lines").unwrap();
    let Some(browser) = Browser::open(&xray::page(&trace.events())) else { return };
    let dom = browser.dom();
    let (body, _) = dom.split_once(r#"<script type="application/json""#).unwrap();
    let raw = ['\u{202e}', '\u{200b}', '\u{7}', '\u{2066}', '\u{e0041}'];
    assert!(!body.contains(raw), "{body}");
    let text = text_of(&dom);
    assert!(text.contains("\\u{202e}gnihton_od"), "{text}");
    // A joiner is part of how people write.
    assert!(
        text.contains("sorts mail\\u{7} \\u{2066}with\\u{e0041} 👩\u{200d}👧 in two lines"),
        "{text}"
    );
}

#[test]
fn two_hundred_turns_are_drawn_and_only_rows_in_view_are_in_the_document() {
    let events = run_of(200, TraceLevel::Run);
    let page = xray::page(&events);
    let Some(browser) = Browser::open(&page) else { return };
    let dom = browser.dom();
    let rows = dom.matches(r#"class="row""#).count();
    assert!((5..40).contains(&rows), "{rows} rows");
    assert!(dom.contains(r#"aria-setsize="201""#));
    let text = text_of(&dom);
    assert!(text.contains("Turns 200") && text.contains("Turn 1 of 200"), "{text}");
    assert!(browser.screenshot((1280, 1600), false).count(0x2563a8) > 1_000);
}

#[test]
fn the_keyboard_moves_through_the_turns() {
    let page = xray::page(&run_of(40, TraceLevel::Run));
    // Keys as a person would press them, once the page stands.
    let keys = r#"<script>
        const press = (key, at) => at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
        press("j", document.body);
        press("j", document.body);
        press("k", document.body);
        document.getElementById("turns").focus();
        press("ArrowDown", document.activeElement);
        press("End", document.activeElement);
        press("PageUp", document.activeElement);
        press("ArrowUp", document.activeElement);
        press("ArrowUp", document.activeElement);
    </script></body>"#;
    let Some(browser) = Browser::open(&page.replace("</body>", keys)) else { return };
    let dom = browser.dom();
    let (before, _) = dom.split_once(r#"" aria-selected="true""#).unwrap();
    let end = before.rsplit_once('"').unwrap().1;
    let turn: usize = end.strip_prefix("turn-").unwrap().parse().unwrap();
    assert!((5..38).contains(&turn), "{turn}");
    assert!(dom.contains(&format!("aria-activedescendant=\"{end}\"")));
    assert!(text_of(&dom).contains(&format!("Turn {turn} of 40")));
}

#[test]
fn a_narrow_window_does_not_scroll_sideways() {
    let page = xray::page(&run_of(4, TraceLevel::Operator));
    // A window is at least 500 wide, a frame is not.
    let frame = page.replace('&', "&amp;").replace('"', "&quot;");
    let outer = format!(
        r#"<!doctype html><title>-</title><iframe id="f" style="width:400px;height:900px;border:0"
        srcdoc="{frame}" onload="const d = f.contentDocument.documentElement;
        document.title = d.clientWidth + ' of ' + d.scrollWidth"></iframe>"#
    );
    let Some(browser) = Browser::open(&outer) else { return };
    let dom = browser.dom();
    assert!(dom.contains("<title>400 of 400</title>"), "{}", &dom[..200]);
}

#[test]
fn an_empty_and_a_damaged_trace_say_what_they_are() {
    let Some(browser) = Browser::open(&xray::page(&[])) else { return };
    let text = text_of(&browser.dom());
    assert!(
        text.contains("This trace holds no events") && text.contains("run.trace_to("),
        "{text}"
    );

    let events = run_of(2, TraceLevel::Run);
    let mut lines: Vec<String> = events.iter().map(Event::to_line).collect();
    lines[4].truncate(30);
    lines.push(r#"{"seq":9999,"turn":2,"event":"from_the_future"}"#.to_owned());
    let trace = Trace::parse(&lines.join("\n"));
    assert_eq!(trace.damaged.len(), 2);
    let text = text_of(&Browser::open(&xray::page_of(&trace)).unwrap().dom());
    assert!(text.contains("2 lines of the trace could not be read; the rest is shown."), "{text}");
    assert!(text.contains("Line 5: ") && text.contains("Turn 1 of 2"), "{text}");

    let text = text_of(&Browser::open(&xray::page_of(&Trace::parse("not a trace"))).unwrap().dom());
    assert!(text.contains("No line of this trace can be read"), "{text}");

    let text = text_of(&Browser::open(&xray::page(&events[5..])).unwrap().dom());
    assert!(text.contains("The beginning of the trace is missing"), "{text}");
}

#[test]
fn a_live_page_takes_events_as_they_come() {
    let page = xray::live_page("/events");
    let events = run_of(3, TraceLevel::Run);
    let feed: String = events
        .iter()
        .map(|event| {
            let line = event.to_line().replace('<', "\\u003c");
            // Each comes twice, as from a stream that connected again.
            format!("xray.append({line}); xray.append({});", serde_json::to_string(&line).unwrap())
        })
        .collect();
    let page = page.replace("</body>", &format!("<script>{feed}</script></body>"));
    let Some(browser) = Browser::open(&page) else { return };
    let text = text_of(&browser.dom());
    assert!(text.contains("Turns 3") && text.contains("Turn 3 of 3"), "{text}");

    let text = text_of(&Browser::open(&xray::live_page("/events")).unwrap().dom());
    assert!(text.contains("No connection") || text.contains("Waiting for the run"), "{text}");
}
