//! Servers that come, go, and misbehave.

use std::time::Duration;

use serde_json::json;
use toolrack::gateway::UpstreamState;

use crate::support::{Heard, Rig, runs, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_of_ten_pages_is_read_to_its_end() {
    let rig =
        Rig::new(&[("f", &["--tools", "484", "--page", "50"])], json!({})).await.ready().await;
    let status = &rig.gateway.status()[0];
    assert_eq!((status.tools, status.indexed, status.state), (500, 500, UpstreamState::Connected));
    let reply = rig.call("find_tool", json!({"intent": "the tool plain_483"})).await;
    assert!(text(&reply).contains("f__plain_483"), "{}", text(&reply));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_never_answers_holds_up_nobody() {
    let own = json!({"timeouts": {"connect": 1}, "restart": {"first": 60, "most": 60}});
    let rig = Rig::new(&[("deaf", &["--mute"]), ("good", &[])], own).await;
    rig.until(|all| all[1].indexed > 0).await;
    rig.find("good__echo").await;
    assert!(rig.text("good__echo", json!({"text": "hi"})).await.contains("hi"));
    rig.until(|all| all[0].state == UpstreamState::Waiting).await;
    let status = &rig.gateway.status()[0];
    assert_eq!(
        status.last_error.as_deref(),
        Some("it did not answer the handshake within 1 seconds")
    );
    assert!(status.stale_since.is_some() && status.indexed == 0);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_is_reported() {
    let text = r#"{"mcpServers": {"none": {"command": "/no/such/program"}}}"#;
    let config = toolrack::gateway::Config::parse(text, "t").unwrap();
    let gateway = toolrack::gateway::Gateway::new(
        crate::support::engine(),
        config,
        &toolrack::gateway::Options::default(),
    )
    .unwrap();
    let (near, far) = tokio::io::duplex(1024);
    let (input, output) = tokio::io::split(far);
    let serving = gateway.clone();
    tokio::spawn(async move { serving.serve_streams(input, output).await });
    let (input, output) = tokio::io::split(near);
    let transport = rmcp::transport::async_rw::AsyncRwTransport::new_client(input, output);
    let listener = crate::support::Listener::named("t");
    let client = rmcp::service::serve_client(listener, transport).await.unwrap();
    // The list comes although there is nothing behind it.
    let tools = client.list_tools(None).await.unwrap().tools;
    assert!(tools.is_empty(), "{tools:?}");
    let error = gateway.status()[0].last_error.clone().unwrap();
    assert!(error.starts_with("'/no/such/program' cannot be started: No such file"), "{error}");
    gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn death_in_a_call_fails_that_call_and_the_server_comes_back() {
    let own = json!({"restart": {"first": 0.2, "most": 1, "jitter": false}});
    let rig = Rig::new(&[("a", &[]), ("b", &[])], own).await.ready().await;
    for name in ["a__die", "a__pid", "b__slow"] {
        rig.find(name).await;
    }
    let before = rig.text("a__pid", json!({})).await;
    let (died, other) =
        tokio::join!(rig.call("a__die", json!({})), rig.call("b__slow", json!({"ms": 300})),);
    assert_eq!(died.is_error, Some(true));
    assert_eq!(
        text(&died),
        "server 'a' went away while the call ran (it exited with status 7; its last words were: \
         fake server up); it may or may not have taken effect: check before you call again"
    );
    assert_eq!(text(&other), "slow");
    // Its tools stay findable meanwhile, and calls say what is the matter.
    let down = rig.call("a__pid", json!({})).await;
    if down.is_error == Some(true) {
        assert!(text(&down).starts_with("server 'a' is not connected"), "{}", text(&down));
    }
    rig.until(|all| all[0].connections == 2 && all[0].stale_since.is_none()).await;
    assert_ne!(rig.text("a__pid", json!({})).await, before);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn garbage_on_standard_output_is_passed_over() {
    let rig = Rig::new(&[("f", &[])], json!({})).await.ready().await;
    rig.find("f__garbage").await;
    for _ in 0..3 {
        assert_eq!(rig.text("f__garbage", json!({})).await, "still here");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_banner_before_the_first_message_is_passed_over() {
    let rig = Rig::new(&[("f", &["--banner"])], json!({})).await.ready().await;
    rig.find("f__echo").await;
    assert!(rig.text("f__echo", json!({"text": "hi"})).await.contains("hi"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_without_end_is_given_up_and_holds_up_nobody() {
    let servers: &[(&str, &[&str])] =
        &[("circle", &["--circle"]), ("endless", &["--endless"]), ("good", &[])];
    let rig = Rig::new(servers, json!({})).await;
    rig.until(|all| all[2].indexed > 0).await;
    rig.find("good__echo").await;
    assert!(rig.text("good__echo", json!({"text": "hi"})).await.contains("hi"));
    rig.until(|all| all[..2].iter().all(|status| status.last_error.is_some())).await;
    let status = rig.gateway.status();
    let errors: Vec<&str> = status.iter().filter_map(|one| one.last_error.as_deref()).collect();
    assert_eq!(
        errors,
        [
            "its listing of tools comes back to the page 'again'",
            "its listing of tools has more than 1000 pages",
        ]
    );
    assert!(status[..2].iter().all(|one| one.indexed == 0 && one.connections == 1), "{status:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_at_its_start_is_tried_ever_more_seldom() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("starts");
    let own = json!({"restart": {"first": 0.1, "most": 0.8, "jitter": false}});
    let args = ["--crash", file.to_str().unwrap()];
    let rig = Rig::new(&[("bad", &args), ("good", &[])], own).await;
    rig.until(|all| all[1].indexed > 0).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let pids: Vec<u32> =
        std::fs::read_to_string(&file).unwrap().lines().map(|pid| pid.parse().unwrap()).collect();
    // After 0, 0.1, 0.3, 0.7, 1.5, 2.3 seconds and so on.
    assert!((3..=8).contains(&pids.len()), "{pids:?}");
    let status = &rig.gateway.status()[0];
    let error = status.last_error.as_deref().unwrap();
    assert!(
        error.ends_with("it exited with status 3; its last words were: Error: no license found"),
        "{error}"
    );
    assert_eq!(status.indexed, 0);
    rig.close().await;
    assert!(!pids.iter().any(|&pid| runs(pid)), "a process was left");
}

#[tokio::test(flavor = "multi_thread")]
async fn environment_and_folder_reach_the_server_and_a_command_may_be_relative() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(crate::support::fake(), folder.path().join("server")).unwrap();
    let own = folder.path().canonicalize().unwrap();
    let text = json!({"mcpServers": {"f": {
        "command": "./server", "cwd": own, "env": {"GREETING": "${HELLO}, 東京", "N": 3},
    }}});
    let lookup = |name: &str| (name == "HELLO").then(|| "hello".to_owned());
    let config = toolrack::gateway::Config::parse_with(&text.to_string(), "t", &lookup).unwrap();
    let options = toolrack::gateway::Options::default();
    let rig =
        Rig::of(config, &options, crate::support::Listener::named("test")).await.ready().await;
    rig.find("f__echo").await;
    let said = rig.text("f__echo", json!({"env": "GREETING"})).await;
    assert_eq!(said, format!("hello, 東京 in {}", own.display()));
    // What the gateway itself was given is there, too.
    assert!(rig.text("f__echo", json!({"env": "PATH"})).await.contains('/'));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_would_be_one_stay_apart() {
    let servers: &[(&str, &[&str])] =
        &[("a b", &["--names", "do it,do_it,do.it,検索"]), ("a_b", &[]), ("東京", &[])];
    let rig = Rig::new(servers, json!({"limit": 100, "whole": 100})).await.ready().await;
    let names = rig.tools().await;
    let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!((names.len(), distinct.len()), (19 * 3 + 4, 19 * 3 + 4));
    let safe = |name: &String| {
        (1..=64).contains(&name.len())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
    };
    assert!(names.iter().all(safe), "{names:?}");
    // Each reaches its own server and its own tool, by the name in the list.
    let list = rig.client.list_all_tools().await.unwrap();
    let mut answers = std::collections::BTreeSet::new();
    for tool in &list {
        let words = tool.description.clone().unwrap_or_default();
        if words.starts_with("The tool pid ")
            || words.starts_with("The tool do")
            || words.contains("検索")
        {
            answers.insert(rig.text(&tool.name, json!({})).await);
        }
    }
    assert_eq!(answers.len(), 3 + 4, "{answers:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_listed_twice_is_taken_once_and_reported() {
    let rig = Rig::new(&[("f", &["--twice"]), ("g", &[])], json!({})).await.ready().await;
    let status = &rig.gateway.status()[0];
    assert_eq!((status.tools, status.indexed), (20, 19));
    assert_eq!(status.problems, ["server 'f' lists 'echo' twice; the first one is taken"]);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_storm_of_changes_makes_few_listings_and_loses_none() {
    let rig = Rig::new(&[("f", &[])], json!({})).await.ready().await;
    rig.find("f__storm").await;
    let listings = rig.gateway.status()[0].listings;
    rig.call("f__storm", json!({"count": 300, "ms": 1500, "last": "after_the_storm"})).await;
    rig.until(|all| all[0].tools == 20).await;
    let made = rig.gateway.status()[0].listings - listings;
    assert!((1..=5).contains(&made), "{made} listings");
    assert!(text(&rig.find("f__after_the_storm").await).contains("f__after_the_storm"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_tool_is_announced_when_the_list_shows_it() {
    let servers: &[(&str, &[&str])] = &[("f", &["--tools", "0"]), ("other", &["--tools", "0"])];
    let rig = Rig::new(servers, json!({"limit": 40})).await.ready().await;
    // All fit, so all are shown.
    assert_eq!(rig.tools().await.len(), 32);
    rig.call("f__add", json!({"text": "brand_new"})).await;
    rig.until(|all| all[0].indexed == 17).await;
    let heard = tokio::time::timeout(Duration::from_secs(20), async {
        while !rig.client.service().heard().contains(&Heard::ToolsChanged) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    heard.await.expect("the change is announced");
    assert!(rig.tools().await.contains(&"f__brand_new".to_owned()));
    // Nobody else was asked again.
    let listings: Vec<u64> = rig.gateway.status().iter().map(|status| status.listings).collect();
    assert_eq!(listings, [2, 1]);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn risk_is_what_the_server_says_unless_the_operator_says_otherwise() {
    let own = json!({"risk": {"f/pid": "destructive"}});
    let config = crate::support::config(&[("f", &["--tools", "0"])], own);
    let (catalog, status) = toolrack::gateway::catalog(config).await.unwrap();
    assert!(status[0].last_error.is_none(), "{status:?}");
    let snapshot = catalog.snapshot();
    let risk = |name: &str| {
        snapshot.tools().find(|tool| tool.name() == name).map(|tool| tool.policy().risk)
    };
    use toolrack::Risk::{Destructive, Read, Write};
    assert_eq!((risk("echo"), risk("pid")), (Some(Read), Some(Destructive)));
    assert_eq!(risk("die"), Some(Write));
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_leaves_no_process() {
    let rig = Rig::new(&[("a", &[]), ("b", &[])], json!({})).await.ready().await;
    let pids: Vec<u32> = rig.gateway.status().iter().filter_map(|status| status.process).collect();
    assert!(pids.len() == 2 && pids.iter().all(|&pid| runs(pid)));
    rig.close().await;
    assert!(!pids.iter().any(|&pid| runs(pid)), "a process was left");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_started_ends_with_it() {
    let program = crate::support::fake();
    let script = format!("sleep 300 & echo $! >&2; exec {}", program.display());
    let text = json!({"mcpServers": {"sh": {"command": "sh", "args": ["-c", script]}}}).to_string();
    let config = toolrack::gateway::Config::parse(&text, "t").unwrap();
    let options = toolrack::gateway::Options::default();
    let gateway =
        toolrack::gateway::Gateway::new(crate::support::engine(), config, &options).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = gateway.clone();
    tokio::spawn(async move { serving.serve_http(listener).await });
    while gateway.status()[0].indexed == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pid = gateway.status()[0].process.unwrap();
    let children = || -> Vec<u32> {
        let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        listed.unwrap_or_default().split_whitespace().filter_map(|pid| pid.parse().ok()).collect()
    };
    let started = children();
    assert_eq!(started.len(), 1);
    gateway.close().await;
    // The orphan's new parent may take a moment to collect it.
    let gone = tokio::time::timeout(Duration::from_secs(20), async {
        while started.iter().any(|&pid| is_alive(pid)) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    gone.await.expect("the child of the server is gone");
}

fn is_alive(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim().starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_that_changes_is_withheld_until_it_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = toolrack::gateway::Options::default();
    options.state = Some(folder.path().join("state.json"));
    let listener = || crate::support::Listener::named("test");
    let own = json!({"quarantine": true, "limit": 30});
    let rig = Rig::with(&[("f", &[])], own.clone(), &options, listener()).await.ready().await;
    assert!(rig.tools().await.contains(&"f__echo".to_owned()));
    rig.call("f__add", json!({"mutate": true})).await;
    rig.until(|all| !all[0].withheld.is_empty()).await;
    assert!(!rig.tools().await.contains(&"f__echo".to_owned()));
    let refused = rig.call("f__echo", json!({})).await;
    assert!(text(&refused).starts_with("There is no tool called"), "{}", text(&refused));
    let told = rig.gateway.status()[0].withheld[0].clone();
    assert!(told.contains("its definition is not the one that was accepted"), "{told}");
    rig.close().await;

    // The operator pins what was told; the first definition is then the one that is withheld.
    let hash = told.rsplit('"').nth(1).unwrap().to_owned();
    let own = json!({"quarantine": true, "limit": 30, "pinned": {"f/echo": hash}});
    let rig = Rig::with(&[("f", &[])], own, &options, listener()).await.ready().await;
    assert!(!rig.tools().await.contains(&"f__echo".to_owned()));
    rig.call("f__add", json!({"mutate": true})).await;
    rig.until(|all| all[0].withheld.is_empty()).await;
    assert!(rig.tools().await.contains(&"f__echo".to_owned()));
    rig.close().await;
}
