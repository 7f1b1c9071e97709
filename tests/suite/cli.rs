//! The built command: what people read, what programs read, exit codes.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use toolrack::{Catalog, Config, SelectRequest};

const REGISTRY: &str = "tests/fixtures/registry61";

struct Ran {
    code: i32,
    out: String,
    err: String,
}

fn ran(arguments: &[&str], stdin: &str) -> Ran {
    ran_in(Path::new(env!("CARGO_MANIFEST_DIR")), arguments, stdin)
}

fn ran_in(folder: &Path, arguments: &[&str], stdin: &str) -> Ran {
    let mut child = Command::new(env!("CARGO_BIN_EXE_toolrack"))
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that does not read may be gone already.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn json(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {}{}", ran.out, ran.err))
}

#[test]
fn list_shows_names_and_costs() {
    let ran = ran(&["list", REGISTRY, "--namespace", "weather"], "");
    insta::assert_snapshot!(ran.out, @r"
    tool                      tokens  risk  description
    weather/weather_current       92  read  Get the current temperature, humidity, wind and sky conditi…
    weather/weather_forecast     123  read  Get the daily weather forecast for a location for up to ten…
    2 tools, 215 tokens.
    ");
    assert_eq!((ran.code, ran.err.as_str()), (0, ""));
}

#[test]
fn show_takes_the_unique_end_of_a_name() {
    let ran = ran(&["show", REGISTRY, "post_message"], "");
    // The schema's keys come in an order that another crate may switch.
    let text: Vec<&str> = ran.out.lines().take_while(|line| *line != "{").collect();
    let text: Vec<&str> = text.into_iter().filter(|line| !line.contains("hash")).collect();
    insta::assert_snapshot!(text.join("\n"), @r"
    slack/slack_post_message
      called       slack__slack_post_message
      tokens       85
      risk         read
      source       tests/fixtures/registry61/tools.jsonl

    Post a new message to a Slack channel or private group.
    ");
    assert!(ran.out.contains("\"description\": \"ID of the channel\""), "{}", ran.out);
    assert_eq!(ran.code, 0);
    let json = json(&self::ran(&["show", REGISTRY, "post_message", "--json"], ""));
    assert_eq!(
        (&json["name"], &json["namespace"]),
        (&"slack_post_message".into(), &"slack".into())
    );
}

#[test]
fn show_says_what_is_similar() {
    let ran = ran(&["show", REGISTRY, "slack_post_a_message"], "");
    assert_eq!(ran.code, 2);
    assert!(
        ran.err.starts_with("error: there is no tool 'slack_post_a_message': similar are "),
        "{}",
        ran.err
    );
    assert!(ran.err.contains("slack/slack_post_message"), "{}", ran.err);
}

#[test]
fn search_ranks_and_explains() {
    let ran = ran(&["search", REGISTRY, "translate this letter into French", "-k", "1"], "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].starts_with("#  tool"), "{}", ran.out);
    assert!(lines[1].starts_with("1  utilities/translate_text"), "{}", ran.out);
    assert!(
        lines[2].starts_with("1 of ") && lines[2].ends_with(" fitting tools, 61 in the catalog.")
    );

    let explained =
        self::ran(&["search", REGISTRY, "translate this letter", "-k", "1", "--explain"], "");
    for word in ["rank 1 of 61", "cosine", "lexical", "fused", "admitted     yes"] {
        assert!(explained.out.contains(word), "{word}: {}", explained.out);
    }
    let json =
        json(&self::ran(&["search", REGISTRY, "translate this letter", "--explain", "--json"], ""));
    assert_eq!(json["candidates"][0]["id"], "utilities/translate_text");
    assert_eq!(json["explanations"][0]["rank"], 1);
}

#[test]
fn nothing_that_fits_exits_with_1() {
    let ran = ran(&["search", REGISTRY, "qqqq zzzz", "--embedder", "none"], "");
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.out.starts_with("Nothing fits."), "{}", ran.out);
}

#[test]
fn catalogs_come_from_standard_input_files_and_folders() {
    let tools = r#"{"tools": [{"name": "send", "inputSchema": {}}]}"#;
    let piped = ran(&["list", "-"], tools);
    assert!(piped.out.contains("default/send"), "{}{}", piped.out, piped.err);

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mail.json"), tools).unwrap();
    std::fs::write(folder.path().join("chat.json"), tools).unwrap();
    let two = ran(&["list", folder.path().to_str().unwrap()], "");
    assert!(
        two.out.contains("chat/send") && two.out.contains("mail/send"),
        "{}{}",
        two.out,
        two.err
    );
    let one = folder.path().join("mail.json");
    let both = ran(&["list", one.to_str().unwrap(), "-"], tools);
    assert!(both.out.contains("mail/send") && both.out.contains("default/send"), "{}", both.out);
}

#[test]
fn errors_say_where_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("mcp.json"),
        r#"{"mcpServers": {"files": {"command": "x"}}}"#,
    )
    .unwrap();
    std::fs::write(folder.path().join("bad.jsonl"), "{\"name\": \"a\"}\n{\"name\": 3}\n").unwrap();
    std::fs::write(folder.path().join("toolrack.toml"), "[engine]\nfussion = \"rrf\"\n").unwrap();
    let none = tempfile::tempdir().unwrap();
    let error = |arguments: &[&str], place: &Path| {
        let ran = ran_in(place, arguments, "");
        assert_eq!(ran.code, 2, "{}", ran.out);
        ran.err
    };
    insta::assert_snapshot!(error(&["list"], none.path()), @"error: no catalog is given: name a file, a folder or - for standard input, or set 'catalog' in toolrack.toml");
    insta::assert_snapshot!(error(&["list", "a.json"], folder.path()), @"error: toolrack.toml, line 2: unknown key 'engine.fussion': did you mean 'fusion'?");
    std::fs::remove_file(folder.path().join("toolrack.toml")).unwrap();
    insta::assert_snapshot!(error(&["list", "a.json"], folder.path()), @r"
    error: cannot read a.json: give a readable file
      because: No such file or directory (os error 2)
    ");
    #[cfg(not(feature = "gateway"))]
    insta::assert_snapshot!(error(&["list", "mcp.json"], folder.path()), @"error: mcp.json is an MCP client's configuration: it names servers (files), not their tools; save what each answers to tools/list and give those files, or build with the feature gateway");
    insta::assert_snapshot!(error(&["eval", "nowhere"], none.path()), @r"
    error: cannot read nowhere: give a dataset's folder
      because: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(error(&["list", "--json", "a.json"], folder.path()), @r#"{"error":"cannot read a.json: give a readable file","causes":["No such file or directory (os error 2)"]}"#);
    let left_out = ran_in(folder.path(), &["list", "bad.jsonl"], "");
    insta::assert_snapshot!(left_out.err, @"left out: bad.jsonl, line 2: field 'name' is a number, not a string: give a string");
    assert_eq!(left_out.code, 0);
}

#[test]
fn definitions_cannot_steer_the_terminal() {
    let tools = r#"[{"name": "a\u001b[2J", "parameters": {},
        "description": "Red \u001b[31mletters\u001b[0m \u202e on a wall when it rains.\r\nBell: \u0007"}]"#;
    let commands: [&[&str]; 4] = [
        &["list", "-"],
        &["search", "-", "letters on a wall"],
        &["show", "-", "a\u{1b}[2J"],
        &["lint", "-"],
    ];
    for command in commands {
        let ran = ran(command, tools);
        let text = ran.out + &ran.err;
        assert!(text.contains(r"a\u{1b}[2J"), "{command:?}: {text}");
        assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{7}', '\r']), "{command:?}: {text:?}");
    }
    // For programs the words stay what they are.
    let list = json(&self::ran(&["list", "-", "--json"], tools));
    assert_eq!(list[0]["id"], "default/a\u{1b}[2J");
}

#[test]
fn what_holds_no_tools_is_told() {
    let error = |arguments: &[&str], stdin: &str| {
        let ran = ran(arguments, stdin);
        assert_eq!(ran.code, 2, "{}", ran.out);
        ran.err
    };
    insta::assert_snapshot!(error(&["list", "-"], "[]"), @"error: standard input: the listing holds no tool: add at least one tool definition");
    insta::assert_snapshot!(error(&["list", "-"], r#"{"dependencies": {"left-pad": {}}}"#), @"error: standard input holds no tool to rank, as what has no name counts as a tool that is built into a provider: give a list of tool definitions");
    insta::assert_snapshot!(error(&["list", "-"], r#"{"mcpServers": {"files": {"command": "x"}}}"#), @"error: standard input is an MCP client's configuration, which names servers and not their tools: give the file's name, so that its servers are asked");
    insta::assert_snapshot!(error(&["search", REGISTRY], ""), @"error: no catalog is given, as the last word ('tests/fixtures/registry61') is the request: name a file, a folder or - for standard input before it, or set 'catalog' in toolrack.toml");
    insta::assert_snapshot!(error(&["show", REGISTRY, ""], ""), @"error: there is no tool '': list the catalog to see all");

    // A folder's name starts no programs.
    let folder = tempfile::tempdir().unwrap();
    let tools = r#"{"tools": [{"name": "send", "inputSchema": {}}]}"#;
    std::fs::write(folder.path().join("mail.json"), tools).unwrap();
    let config = "{\n  // mine\n  \"mcpServers\": {\"x\": {\"command\": \"x\"},},\n}";
    std::fs::write(folder.path().join("mcp.json"), config).unwrap();
    let listed = ran_in(folder.path(), &["list", "."], "");
    assert!(listed.out.contains("default/send") && listed.code == 0, "{}", listed.out);
    assert!(
        listed.err.contains("mcp.json is an MCP client's configuration: name it by itself"),
        "{}",
        listed.err
    );

    // What a settings file names is looked for beside it, wherever the command runs.
    std::fs::write(folder.path().join("toolrack.toml"), "catalog = [\"mail.json\"]").unwrap();
    let settings = folder.path().join("toolrack.toml");
    let beside = ran(&["list", "--config", settings.to_str().unwrap()], "");
    assert!(beside.out.contains("default/send"), "{}{}", beside.out, beside.err);

    let nowhere = ran(&["search", REGISTRY, "rain", "--namespace", "wether"], "");
    assert_eq!(nowhere.code, 1);
    assert!(
        nowhere.err.starts_with("no tool has the namespace 'wether': there are "),
        "{}",
        nowhere.err
    );
}

#[test]
fn errors_of_arguments_are_json_for_programs() {
    let ran = ran(&["list", "--json", "--colour"], "");
    assert_eq!(ran.code, 2);
    let error: Value = serde_json::from_str(&ran.err).unwrap();
    assert!(
        error["error"].as_str().unwrap().starts_with("unexpected argument '--colour'"),
        "{}",
        ran.err
    );
}

#[test]
fn figures_are_compared_by_what_was_measured() {
    let arguments = ["eval", REGISTRY, "--metrics", "MRR,R@3", "--samples", "50"];
    let text = ran(&arguments, "");
    assert!(text.out.contains("  hybrid - dense by MRR: "), "{}", text.out);
    let markdown = ran(&[&arguments[..], &["--markdown"]].concat(), "").out;
    assert!(markdown.contains("By MRR:\n\n- registry61: dense leads by"), "{markdown}");
    assert!(!markdown.contains("nDCG@10, paired"), "{markdown}");
    let deep = ran(&["eval", REGISTRY, "--depth", "5"], "");
    insta::assert_snapshot!(deep.err, @"error: the depth is 5 but R@10 looks deeper: rank at least as many tools");

    let folder = tempfile::tempdir().unwrap();
    let part = folder.path().join("part.jsonl");
    std::fs::write(&part, "{\"id\": \"registry61-01\", \"ranked\": []}\n").unwrap();
    let part = ran(&["eval", REGISTRY, "--ranked", part.to_str().unwrap(), "--samples", "10"], "");
    assert!(
        part.err.contains("part.jsonl ranks nothing for 30 of 30 queries: they count as missed"),
        "{}",
        part.err
    );
}

#[test]
fn requests_that_nothing_fits_are_in_the_text() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("tools.jsonl"),
        "{\"name\": \"send_mail\", \"description\": \"Send an e-mail.\"}\n",
    )
    .unwrap();
    std::fs::write(
        folder.path().join("queries.jsonl"),
        "{\"id\": 1, \"query\": \"boil seven eggs\", \"tools\": []}\n",
    )
    .unwrap();
    let ran = ran_in(folder.path(), &["eval", ".", "--fusion", "hybrid", "--samples", "10"], "");
    assert!(ran.out.contains("what is 0 was not measured."), "{}", ran.out);
    assert!(
        ran.out.contains(
            "hybrid on 1 queries that nothing fits: no-match precision 1.000, recall 1.000"
        ),
        "{}",
        ran.out
    );
}

#[test]
fn eval_writes_every_kind_of_report() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (run, html) = (path("run.jsonl"), path("page.html"));
    let ran = ran(
        &[
            "eval",
            REGISTRY,
            "--baseline",
            "jaccard",
            "--samples",
            "100",
            "-k",
            "3,5,10",
            "--run",
            &run,
            "--html",
            &html,
            "-o",
            &path("out"),
            "--trec-run",
            &path("trec.run"),
            "--trec-qrels",
            &path("qrels"),
        ],
        "",
    );
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with("registry61: 61 tools (7273 tokens), 30 queries\nsystem "),
        "{}",
        ran.out
    );
    assert!(ran.out.contains("  hybrid - jaccard by nDCG@10: +0."), "{}", ran.out);

    let lines = std::fs::read_to_string(&run).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((lines.len(), &lines[0]["id"]), (30, &"registry61-01".into()));
    assert!(lines.iter().all(|line| line["ranked"].as_array().unwrap().len() >= 20));
    let meta = std::fs::read_to_string(format!("{run}.meta.json")).unwrap();
    let meta: Value = serde_json::from_str(&meta).unwrap();
    let mut keys: Vec<&str> = meta.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    assert_eq!(
        keys,
        ["build_s", "n_queries", "n_tools", "peak_rss_mb", "query_us_p50", "query_us_p95"]
    );
    assert_eq!((&meta["n_tools"], &meta["n_queries"]), (&61.into(), &30.into()));

    let page = std::fs::read_to_string(&html).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && !page.contains("<script"),
        "no script is needed"
    );
    assert!(page.find("Recall against tokens sent").unwrap() < page.find("nDCG@10 with").unwrap());
    for name in ["report.json", "report.md", "report.html"] {
        assert!(folder.path().join("out").join(name).is_file(), "{name}");
    }
    let markdown = std::fs::read_to_string(folder.path().join("out/report.md")).unwrap();
    assert!(markdown.contains("## Where hybrid loses"), "{markdown}");
    assert_eq!(std::fs::read_to_string(path("qrels")).unwrap().lines().count(), 30);

    // Its own ranking, read again, is as good as itself.
    let again = self::ran(&["eval", REGISTRY, "--ranked", &run, "--json", "--samples", "10"], "");
    let first = json(&self::ran(&["eval", REGISTRY, "--json", "--samples", "10"], ""));
    let again = json(&again);
    let ndcg =
        |value: &Value| value["datasets"][0]["systems"][0]["figures"]["nDCG@10"]["mean"].clone();
    assert_eq!(ndcg(&again), ndcg(&first));
}

#[test]
fn check_fails_when_a_figure_drops() {
    let folder = tempfile::tempdir().unwrap();
    let record = folder.path().join("record.json");
    let report = ran(&["eval", REGISTRY, "--fusion", "hybrid", "--json", "--samples", "100"], "");
    std::fs::write(&record, &report.out).unwrap();
    let record = record.to_str().unwrap();
    let check = ["eval", REGISTRY, "--fusion", "hybrid", "--samples", "100", "--check", record];
    let same = ran(&check, "");
    assert_eq!(
        (same.code, same.err.as_str()),
        (0, "No recorded figure fell by more than its interval.\n")
    );

    // A record holds the figures and no word of the dataset, and checks alike.
    let lean = folder.path().join("lean.json");
    let lean = lean.to_str().unwrap();
    let recorded =
        ran(&["eval", REGISTRY, "--fusion", "hybrid", "--samples", "100", "--record", lean], "");
    assert_eq!(recorded.code, 0, "{}", recorded.err);
    let text = std::fs::read_to_string(lean).unwrap();
    assert!(text.len() < report.out.len() / 4 && !text.contains("slack"), "{text}");
    let again = ["eval", REGISTRY, "--fusion", "hybrid", "--samples", "100", "--check", lean];
    assert_eq!(ran(&again, "").code, 0);

    let mut hollow: Value = serde_json::from_str(&text).unwrap();
    hollow["datasets"] = Value::Array(Vec::new());
    std::fs::write(record, hollow.to_string()).unwrap();
    let hollow = ran(&check, "");
    assert_eq!(hollow.code, 2);
    assert!(hollow.err.starts_with("error: the record holds no figure"), "{}", hollow.err);

    let mut better: Value = serde_json::from_str(&text).unwrap();
    let figure = &mut better["datasets"][0]["systems"][0]["figures"]["MRR"];
    (figure["mean"], figure["low"], figure["high"]) = (0.99.into(), 0.98.into(), 1.0.into());
    std::fs::write(record, better.to_string()).unwrap();
    let dropped = ran(&check, "");
    assert_eq!(dropped.code, 1);
    assert!(dropped.err.starts_with("dropped: registry61, hybrid: MRR is 0."), "{}", dropped.err);
    assert!(dropped.err.ends_with(", below the 0.980 of the recorded 0.990's interval\n"));
}

#[test]
fn replay_compares_settings_and_recommends() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("runs.jsonl");
    std::fs::write(
        &trace,
        r#"{"id": "1", "turns": [{"query": "what is the weather in Oslo?", "steps": ["weather_current"]}, {"query": "translate it into French", "steps": ["translate_text"]}]}"#,
    )
    .unwrap();
    let trace = trace.to_str().unwrap();
    let ran =
        ran(&["replay", trace, "--catalog", REGISTRY, "--limit", "10", "--timing", "epoch"], "");
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(
        ran.out.starts_with("runs: 1 runs, 2 turns, 2 steps, 61 tools\nsetting "),
        "{}",
        ran.out
    );
    for row in ["all tools", "top 8 a turn", "limit 10, epoch"] {
        assert!(ran.out.contains(row), "{row}: {}", ran.out);
    }
    assert!(ran.out.contains("K = "), "{}", ran.out);
    let missing = self::ran_in(folder.path(), &["replay", trace], "");
    assert_eq!(missing.code, 2);
    assert!(missing.err.contains("add --catalog"), "{}", missing.err);
}

#[test]
fn lint_fails_on_errors_and_writes_sarif() {
    let clean = ran(&["lint", REGISTRY, "--json"], "");
    assert_eq!(clean.code, 0, "{}", clean.err);
    assert_eq!(json(&clean)["n_tools"], 61);
    let broken = r#"[{"name": "a", "parameters": {}}]"#;
    let ran = ran(&["lint", "-"], broken);
    assert_eq!(ran.code, 1);
    insta::assert_snapshot!(ran.out, @r"
    error empty-description: no description: only the name can be found (1)
      standard input: default/a: it has no description: only words of its name find it
      To mend it, say what the tool does and when to use it, in users' words.
    1 tools, 1 findings.
    ");
    assert_eq!(self::ran(&["lint", "-", "--fail-on", "never"], broken).code, 0);
    assert_eq!(self::ran(&["lint", "-", "--allow", "empty-description"], broken).code, 0);
    let sarif = json(&self::ran(&["lint", "-", "--sarif"], broken));
    assert_eq!(sarif["runs"][0]["results"][0]["level"], "error");
    let unknown = self::ran(&["lint", "-", "--allow", "spelling"], broken);
    assert!(
        unknown.err.starts_with("error: 'spelling' is no rule: write one of hidden-characters, ")
    );
}

#[test]
fn tuned_settings_are_not_measured_on_what_they_were_fitted_on() {
    let folder = tempfile::tempdir().unwrap();
    let verbs = ["send", "read", "book", "find", "delete", "list"];
    let nouns = ["mail", "file", "room", "flight", "invoice", "photo", "ticket", "song"];
    let (mut tools, mut queries) = (String::new(), String::new());
    for verb in verbs {
        for noun in nouns {
            tools += &format!(
                "{{\"name\": \"{verb}_{noun}\", \"description\": \"To {verb} a {noun}.\"}}\n"
            );
            queries += &format!(
                "{{\"id\": \"{verb}-{noun}\", \"query\": \"Hello! please {verb} my {noun}\", \"request\": \"please {verb} my {noun}\", \"tools\": [\"{verb}_{noun}\"], \"steps\": [\"{verb}_{noun}\"]}}\n"
            );
        }
    }
    std::fs::write(folder.path().join("tools.jsonl"), tools).unwrap();
    std::fs::write(folder.path().join("queries.jsonl"), queries).unwrap();
    let tune = ran_in(folder.path(), &["tune", ".", "-o", "tuned.toml", "--seed", "3"], "");
    assert_eq!(tune.code, 0, "{}", tune.err);
    assert!(
        tune.out.contains("gain, paired") && tune.out.ends_with("Written to tuned.toml.\n"),
        "{}",
        tune.out
    );
    let check = ran_in(folder.path(), &["config", "--check", "tuned.toml"], "");
    assert_eq!(check.code, 0, "{}", check.err);
    assert!(check.out.starts_with("tuned.toml is valid ("), "{}", check.out);

    let refused = ran_in(folder.path(), &["eval", ".", "--settings", "tuned.toml"], "");
    assert_eq!(refused.code, 2);
    assert!(refused.err.starts_with("error: the settings were fitted on "), "{}", refused.err);
    let held_out = ran_in(
        folder.path(),
        &["eval", ".", "--settings", "tuned.toml", "--held-out", "--json"],
        "",
    );
    let report = json(&held_out);
    let measured = report["datasets"][0]["n_queries"].as_u64().unwrap();
    assert!((10..40).contains(&measured), "{measured}");
    assert_eq!(report["datasets"][0]["systems"][0]["name"], "tuned");

    // Asking in other words is asking of the same requests.
    let asked =
        ran_in(folder.path(), &["eval", ".", "--settings", "tuned.toml", "--text", "query"], "");
    assert!(asked.err.contains("add --held-out"), "{}", asked.err);
    // Another half would be one that the settings have seen.
    let again = ran_in(folder.path(), &["--config", "tuned.toml", "tune", ".", "--seed", "5"], "");
    assert_eq!(again.code, 2);
    assert!(
        again.err.contains("were fitted on ") && again.err.contains("with seed 3 before"),
        "{}",
        again.err
    );
    let other = ran_in(folder.path(), &["tune", ".", "-o", "other.toml", "--seed", "5"], "");
    assert_eq!(other.code, 0, "{}", other.err);
    let both = ["eval", ".", "--settings", "tuned.toml,other.toml", "--held-out"];
    let both = ran_in(folder.path(), &both, "");
    assert_eq!(both.code, 2);
    assert!(both.err.contains("by seeds [3, 5]"), "{}", both.err);
    let replayed = ran_in(folder.path(), &["--config", "tuned.toml", "replay", "."], "");
    assert!(replayed.err.contains("were fitted on "), "{}", replayed.err);
}

#[test]
fn calibrated_thresholds_are_loaded_by_whoever_reads_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/registry61");
    std::fs::copy(format!("{source}/tools.jsonl"), path("tools.jsonl")).unwrap();
    let mut queries = std::fs::read_to_string(format!("{source}/queries.jsonl")).unwrap();
    let answerable = queries.lines().count();
    let things = ["bicycle", "garden", "violin", "sofa", "kettle", "tent", "rug", "candle"];
    let deeds =
        ["polish the old", "paint the small", "glue my broken", "admire a wooden", "sell no"];
    for (deed, thing) in deeds.iter().flat_map(|deed| things.map(|thing| (deed, thing))) {
        queries += &format!(
            "{{\"id\": \"{deed}-{thing}\", \"query\": \"{deed} {thing}\", \"tools\": []}}\n"
        );
    }
    std::fs::write(path("queries.jsonl"), queries).unwrap();
    let run = ran_in(folder.path(), &["calibrate", ".", "-o", "gate.toml"], "");
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("\n  destructive "), "{}", run.out);
    assert!(run.out.ends_with("Written to gate.toml.\n"), "{}", run.out);

    // The file is one that everything reads, the engine included.
    let config = Config::read(path("gate.toml")).unwrap();
    let gate = &config.engine.gate;
    let (read, write, destructive) = (gate.read.unwrap(), gate.write.unwrap(), gate.destructive);
    assert!(read <= write && write <= destructive.unwrap(), "{gate:?}");
    let engine =
        config.builder(Catalog::read(path("tools.jsonl")).unwrap()).unwrap().build().unwrap();
    let selection = engine.select(&SelectRequest::new("what is the weather")).unwrap();
    assert_eq!((selection.thresholds.read, selection.thresholds.write), (read, write));

    // The figures are those of the half that was not fitted to, and there is such a half for eval.
    let report = json(&ran_in(folder.path(), &["calibrate", ".", "--json"], ""));
    let count = |part: &str, kind: &str| report[part][kind].as_u64().unwrap() as usize;
    assert_eq!(count("fitted", "unanswerable") + count("reported", "unanswerable"), 40);
    assert!(count("fitted", "answerable") + count("reported", "answerable") <= answerable);
    let shares = |class: &str, share: &str| report["classes"][class][share].as_f64().unwrap();
    assert!(shares("read", "kept") > 0.5, "{report}");
    assert!(shares("destructive", "admitted") < 0.3, "{report}");
    let refused = ran_in(folder.path(), &["eval", ".", "--settings", "gate.toml"], "");
    assert!(refused.err.contains("add --held-out"), "{}", refused.err);

    // Another seed would report on what weights were fitted to.
    let again =
        ran_in(folder.path(), &["--config", "gate.toml", "calibrate", ".", "--seed", "5"], "");
    assert_eq!(again.code, 2);
    assert!(
        again.err.contains("were fitted on ") && again.err.contains("seed 17"),
        "{}",
        again.err
    );
    let words = ran_in(folder.path(), &["calibrate", ".", "--embedder", "none"], "");
    assert_eq!(words.code, 2);
    assert!(words.err.contains("no model to calibrate"), "{}", words.err);
}

#[test]
fn config_prints_all_keys_and_checks_files() {
    let template = ran(&["config"], "");
    for line in
        ["[session.working_set]", "# limit = 20", "# timing = \"epoch\"", "[gateway.restart]"]
    {
        assert!(template.out.contains(line), "{line}: {}", template.out);
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("toolrack.toml"), &template.out).unwrap();
    let check = ran_in(folder.path(), &["config", "--check", "--json"], "");
    assert_eq!(json(&check)["valid"], true);
}

#[test]
fn help_states_the_exit_codes_and_completions_are_written() {
    let help = ran(&["--help"], "");
    assert!(help.out.contains("Exit codes:\n  0  done"), "{}", help.out);
    for command in [
        "search",
        "list",
        "show",
        "eval",
        "replay",
        "lint",
        "tune",
        "calibrate",
        "config",
        "completions",
    ] {
        assert!(help.out.contains(&format!("\n  {command} ")), "{command}: {}", help.out);
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(ran(&["completions", shell], "").out.contains("toolrack"), "{shell}");
    }
    assert_eq!(ran(&["search"], "").code, 2);
}
