//! A working set beside a caller's own list.

use super::*;

#[test]
fn a_shadow_counts_what_would_have_been_missed() {
    let engine = office();
    let own: Vec<String> = engine
        .snapshot()
        .tools()
        .map(|tool| tool.id().to_string())
        .chain(["ghost".into()])
        .collect();
    let mut shadow = Shadow::new(engine.session(options()).unwrap());
    let turn = shadow.turn("which invoices did we send last month?", &own).unwrap();
    assert!(turn.visible.contains("billing__list_invoices"));
    shadow.call("billing/list_invoices").unwrap();
    shadow.call("agent__read_state").unwrap();
    shadow.call("helpdesk__create_ticket").unwrap();
    shadow.call("helpdesk__create_ticket").unwrap();
    shadow.call("ghost").unwrap();
    shadow.step();

    let report = shadow.report().clone();
    assert_eq!((report.turns, report.requests), (1, 2));
    assert_eq!((report.calls, report.unknown_calls), (4, 1));
    assert_eq!((report.shown, report.rescued), (3, 0));
    assert_eq!(report.missed_tools()[0].0.to_string(), "helpdesk/create_ticket");
    assert_eq!(report.unpriced.iter().collect::<Vec<_>>(), ["ghost"]);
    assert_eq!(report.own_tokens, report.naive_tokens);
    assert!(report.shadow_tokens * 4 < report.own_tokens, "{report}");
    assert!((report.shown_share() - 0.75).abs() < 1e-9 && report.reached_share() == 0.75);
    let text = report.to_string();
    assert!(text.contains("missed helpdesk/create_ticket, 1 times"), "{text}");
}

#[test]
fn a_shadow_counts_what_one_search_would_have_rescued() {
    let options = SessionOptions::default().limit(8).retrieve(0);
    let engine = office();
    let mut shadow = Shadow::new(engine.session(options).unwrap());
    shadow.turn("list the invoices of last month", ["billing/list_invoices"]).unwrap();
    shadow.call("billing/list_invoices").unwrap();
    let report = shadow.report();
    assert_eq!((report.shown, report.rescued, report.missed.len()), (0, 1, 0));
    assert_eq!(report.extra_requests, 1);
    assert_eq!(report.reached_share(), 1.0);
}

#[test]
fn a_shadow_tells_hidden_tools_from_missing_ones_no_more_than_a_session() {
    let engine = Engine::builder(secret_catalog()).build().unwrap();
    let mut shadow = Shadow::new(engine.session(options_small()).unwrap());
    shadow.turn("zebra", ["zebra_space/zebra"]).unwrap();
    shadow.call("zebra").unwrap();
    shadow.call("no_such_tool").unwrap();
    assert_eq!((shadow.report().calls, shadow.report().unknown_calls), (0, 2));
}

#[test]
fn a_shadow_follows_calls_by_the_end_of_a_name() {
    let catalog = Catalog::parse(
        r#"[{"name": "crm_list_deals", "namespace": "crm", "description": "List deals."},
            {"name": "read_file", "namespace": "files", "description": "Read a file."},
            {"name": "add", "description": "Add numbers."}]"#,
    )
    .unwrap();
    let engine = Engine::builder(catalog).build().unwrap();
    let mut reports = Vec::new();
    for name in ["list_deals", "crm/crm_list_deals", "crm__crm_list_deals"] {
        let options = SessionOptions::default().limit(1).pass_through(0).retrieve(0);
        let mut shadow = Shadow::new(engine.session(options).unwrap());
        shadow.turn("hello", [name, "read_file"]).unwrap();
        for _ in 0..3 {
            shadow.call(name).unwrap();
        }
        let report = shadow.report().clone();
        assert_eq!((report.calls, report.shown, report.missed.len()), (3, 2, 1), "{name} {report}");
        reports.push(report);
    }
    assert!(reports.windows(2).all(|pair| pair[0] == pair[1]), "{reports:?}");
}
