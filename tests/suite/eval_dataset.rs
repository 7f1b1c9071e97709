//! Reading datasets, whole and broken ones.

use std::io::Write as _;
use std::path::Path;

use toolrack::ErrorKind;
use toolrack::eval::{
    Dataset, DatasetOptions, Gold, TextField, read_run, write_qrels, write_trec_run,
};

use crate::eval_shared::{benchdata, registry61};

const TOOLS: &str = r#"{"name": "GET /mail", "server": "mail", "parameters": {}}
{"name": "send", "server": "mail", "parameters": {}}
{"name": "send", "server": "chat", "parameters": {}}
{"name": "read_file", "server": "files", "parameters": {}, "core": true}"#;

fn folder(tools: &str, queries: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tools.jsonl"), tools).unwrap();
    std::fs::write(folder.path().join("queries.jsonl"), queries).unwrap();
    folder
}

/// The error of a dataset, with the folder's name cut off.
fn error(tools: &str, queries: &str) -> String {
    let folder = folder(tools, queries);
    let error = Dataset::read(folder.path()).unwrap_err();
    strip(&error.to_string(), folder.path())
}

fn strip(text: &str, folder: &Path) -> String {
    text.replace(&format!("{}/", folder.display()), "")
        .replace(&folder.display().to_string(), "SET")
}

#[test]
fn every_field_is_understood() {
    let queries = r#"
{"id": 7, "query": "You are Ana. Write to Bo.", "request": "write to Bo", "tools": ["mail/send"], "alternatives": {"mail/send": ["chat/send"]}, "group": "g", "extra": [1]}

{"id": "b", "tools": ["GET /mail", "read_file"], "main": "GET /mail", "turns": [{"query": "any mail?", "steps": ["GET /mail", "GET /mail"]}, {"query": "thanks", "steps": []}]}
{"id": "c", "query": "what is the meaning of life?", "tools": []}
{"id": "d", "query": "read it", "tools": ["read_file"], "steps": ["read_file"], "candidates": ["read_file", "chat/send"], "kind": "easy"}"#;
    let folder = folder(TOOLS, queries);
    let set = Dataset::read(folder.path()).unwrap();
    assert_eq!((set.len(), set.n_tools(), set.core()), (4, 4, &[3][..]));
    let [a, b, c, d] = set.queries() else { panic!() };
    assert_eq!(
        (a.id.as_str(), a.text.as_str(), a.group.as_deref()),
        ("7", "write to Bo", Some("g"))
    );
    assert_eq!((a.slots[0].tool, a.slots[0].alternatives.as_slice(), a.line), (1, &[2][..], 2));
    assert_eq!(
        (b.text.as_str(), b.kind.as_str(), b.slots.len()),
        ("any mail?\nthanks", "multi", 2)
    );
    assert_eq!((b.turns[0].steps.as_slice(), b.turns.len()), (&[0, 0][..], 2));
    assert_eq!((c.kind.as_str(), c.is_unanswerable()), ("none", true));
    assert_eq!(
        (d.kind.as_str(), d.turns[0].text.as_str(), d.candidates.len()),
        ("easy", "read it", 2)
    );
    assert_eq!((set.tool_name(1), set.tool_name(0)), ("mail/send".into(), "GET /mail".into()));

    let other = DatasetOptions::default().text(TextField::Query).gold(Gold::Main);
    let set = Dataset::read_with(folder.path().join("queries.jsonl"), &other).unwrap();
    assert_eq!(set.queries()[0].text, "You are Ana. Write to Bo.");
    assert_eq!(set.queries()[1].slots.len(), 1);
}

#[test]
fn broken_datasets_say_where_and_what_to_do() {
    let good = r#"{"id": "1", "query": "q", "tools": ["read_file"]}"#;
    insta::assert_snapshot!(error(TOOLS, r#"{"id": "1", "query": "q", "tools": ["readfile"]}"#), @"queries.jsonl, line 1: gold tool 'readfile' is not in the catalog: name a tool of tools.jsonl");
    insta::assert_snapshot!(error(TOOLS, r#"{"id": "1", "query": "q", "tools": ["send"]}"#), @"queries.jsonl, line 1: gold tool 'send' stands for several tools: write the namespace, as in 'mail/send'");
    insta::assert_snapshot!(error(TOOLS, &format!("{good}\n\n{good}")), @"queries.jsonl, line 3: id '1' is that of line 1: give every query an id of its own");
    insta::assert_snapshot!(error(TOOLS, r#"{"id": "1", "query": "q", "tools": ["read_file", "read_file"]}"#), @"queries.jsonl, line 1: gold tool 'read_file' is named twice: name each tool once");
    insta::assert_snapshot!(error(TOOLS, r#"{"id": "1", "query": " ", "tools": ["read_file"]}"#), @"queries.jsonl, line 1: field 'query' is empty: write the request");
    insta::assert_snapshot!(error(TOOLS, r#"{"id": "1", "query": "q"}"#), @"queries.jsonl, line 1: field 'tools' is missing: name the tools that the request needs, or write [] when none fits");
    insta::assert_snapshot!(error(TOOLS, r#"{"id": "1", "query": "q", "tools": ["read_file"], "steps": ["x"]}"#), @"queries.jsonl, line 1: step 'x' is not in the catalog: name a tool of tools.jsonl");
    insta::assert_snapshot!(error(TOOLS, r#"{"id": "1", "query": "q", "tools": ["read_file"], "alternatives": {"GET /mail": []}}"#), @"queries.jsonl, line 1: alternatives are given for 'GET /mail', which is not in 'tools': name a gold tool");
    insta::assert_snapshot!(error(TOOLS, "{\"id\": \"1\", \"query\""), @"queries.jsonl, line 1: is no query (EOF while parsing an object at column 19): write an object with id, query and tools");
    insta::assert_snapshot!(error(TOOLS, "\n \n"), @"queries.jsonl is empty: write one query a line");
    insta::assert_snapshot!(error("", good), @"tools.jsonl is empty: give a list of tool definitions");
    insta::assert_snapshot!(error("{\"name\": \"a\"}\n\n{\"name\": \"a\"}", good), @"tool default/a is defined twice, at tools.jsonl, line 1 ('a') (tools.jsonl) and at tools.jsonl, line 3 ('a') (tools.jsonl): rename one or give each source its own namespace");
    insta::assert_snapshot!(error("{\"name\": \"a\"}\n{\"name\": \"b\", \"parameters\": 3}", good), @"tools.jsonl, line 2 ('b'): field 'parameters' is a number, not an object: give a JSON schema");
}

#[test]
fn folders_that_are_no_datasets_say_what_is_missing() {
    let folder = folder(TOOLS, "");
    std::fs::remove_file(folder.path().join("queries.jsonl")).unwrap();
    let error = Dataset::read(folder.path()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    insta::assert_snapshot!(strip(&error.to_string(), folder.path()), @"SET has tools but no queries.jsonl: add labelled queries, or lint and search it as a catalog");
    std::fs::remove_file(folder.path().join("tools.jsonl")).unwrap();
    let error = Dataset::read(folder.path()).unwrap_err();
    insta::assert_snapshot!(strip(&error.to_string(), folder.path()), @"SET has no tools.jsonl: give a dataset's folder, with tools.jsonl and queries.jsonl");
    let error = Dataset::discover(folder.path()).unwrap_err();
    insta::assert_snapshot!(strip(&error.to_string(), folder.path()), @"SET holds no dataset: give a folder with tools.jsonl and queries.jsonl");
}

#[test]
fn a_line_of_100_mb_and_bytes_that_are_no_text_are_refused() {
    let folder = folder(TOOLS, r#"{"id": "1", "query": "q", "tools": []}"#);
    for name in ["queries.jsonl", "tools.jsonl"] {
        let path = folder.path().join(name);
        let before = std::fs::read(&path).unwrap();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(b"\n{\"id\": \"2\", \"query\": \"").unwrap();
        for _ in 0..100 {
            file.write_all(&vec![b'x'; 1_000_000]).unwrap();
        }
        drop(file);
        let error = Dataset::read(folder.path()).unwrap_err();
        assert!(
            error
                .to_string()
                .ends_with(": the line is longer than 16 MiB: write one JSON object a line"),
            "{error}"
        );
        assert!(error.to_string().contains(&format!("{name}, line ")), "{error}");
        std::fs::write(&path, before).unwrap();
    }
    std::fs::write(folder.path().join("queries.jsonl"), b"{}\n\xff{}").unwrap();
    let error = Dataset::read(folder.path()).unwrap_err();
    assert!(error.to_string().contains("line 2: byte 1 is not UTF-8"), "{error}");
}

#[test]
fn trec_files_go_out_and_come_in() {
    let queries = r#"{"id": "a b", "query": "q", "tools": ["GET /mail", "mail/send"], "alternatives": {"mail/send": ["chat/send"]}}
{"id": "c", "query": "q2", "tools": ["read_file"]}"#;
    let folder = folder(TOOLS, queries);
    let set = Dataset::read(folder.path()).unwrap();
    let qrels = write_qrels(&set);
    insta::assert_snapshot!(qrels, @r"
    a%20b 1 GET%20/mail 1
    a%20b 2 mail/send 1
    a%20b 2 chat/send 1
    c 1 read_file 1
    ");
    let path = folder.path().join("qrels");
    std::fs::write(&path, &qrels).unwrap();
    let again = Dataset::read_with(folder.path(), &DatasetOptions::default().qrels(&path)).unwrap();
    assert_eq!(again.queries(), set.queries());
    // What is not judged is left out; relevance 0 is no gold.
    std::fs::write(&path, "c 0 read_file 0\nc 0 GET%20/mail 2\n").unwrap();
    let again = Dataset::read_with(folder.path(), &DatasetOptions::default().qrels(&path)).unwrap();
    assert_eq!((again.len(), again.queries()[0].slots[0].tool), (1, 0));

    let run = write_trec_run(&set, &[vec![2, 0], vec![3]], "mine");
    insta::assert_snapshot!(run, @r"
    a%20b Q0 chat/send 1 2 mine
    a%20b Q0 GET%20/mail 2 1 mine
    c Q0 read_file 1 1 mine
    ");
    let path = folder.path().join("run");
    std::fs::write(&path, &run).unwrap();
    assert_eq!(read_run(&path, &set).unwrap(), [vec![2, 0], vec![3]]);
    std::fs::write(&path, "c Q0 read_file 1 0.5 x\nc Q0 GET%20/mail 2 0.7 x\n").unwrap();
    assert_eq!(read_run(&path, &set).unwrap(), [vec![], vec![0, 3]]);
    std::fs::write(&path, "{\"id\": \"c\", \"ranked\": [\"chat/send\", \"read_file\"]}\n").unwrap();
    assert_eq!(read_run(&path, &set).unwrap(), [vec![], vec![2, 3]]);

    for (text, message) in [
        (
            "c Q0 read_file 1 1",
            "line 1: has 5 columns, not 6: write query, Q0, tool, rank, score and a tag",
        ),
        ("c Q0 read_file 1 NaN x", "line 1: score 'NaN' is no number: write the score"),
        ("z Q0 read_file 1 1 x", "is not in "),
        ("c Q0 nothing 1 1 x", "line 1: tool 'nothing' is not in the catalog: rank the tools of "),
        ("c Q0 read_file 1 1 x\nc Q0 read_file 2 0 x", "line 2: tool 'read_file' is ranked twice"),
        ("", "is empty: write one ranking a line"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = read_run(&path, &set).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn the_project_s_own_registry_is_read() {
    let set = Dataset::read(registry61()).unwrap();
    assert_eq!((set.name(), set.n_tools(), set.len(), set.core().len()), ("registry61", 61, 30, 5));
}

#[test]
fn all_published_sets_are_read() {
    let Some(folder) = benchdata("all_published_sets_are_read") else { return };
    let sets = Dataset::discover(&folder).unwrap();
    let counts: Vec<(String, usize, usize)> = sets
        .iter()
        .map(|path| Dataset::read(path).unwrap())
        .map(|set| (set.name().to_owned(), set.n_tools(), set.len()))
        .collect();
    let count = |name: &str| {
        counts.iter().find(|(set, ..)| set == name).map(|&(_, tools, queries)| (tools, queries))
    };
    assert_eq!(count("mcptoolbenchpp"), Some((1484, 677)));
    assert_eq!(count("toolbench"), Some((3653, 764)));
    assert_eq!(count("tau2-bench"), Some((111, 248)));
    assert_eq!(counts.len(), 19);
}
