//! What a client sees, in both modes.

use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, JsonObject, ProtocolVersion,
};
use rmcp::service::PeerRequestOptions;
use serde_json::{Value, json};
use toolrack::gateway::{Mode, Options};

use crate::support::{Heard, Listener, Rig, call, direct, text};

/// Two servers of 66 tools together: more than fit.
const SERVERS: &[(&str, &[&str])] = &[
    ("a", &["--tools", "14", "--prefix", "alpha"]),
    ("b", &["--tools", "20", "--prefix", "beta"]),
];

async fn bridge(own: Value) -> Rig {
    let mut options = Options::default();
    options.mode = Some(Mode::Bridge);
    Rig::with(SERVERS, own, &options, Listener::named("test")).await.ready().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_begins_with_the_core_and_grows_by_what_is_found() {
    let rig = Rig::new(SERVERS, json!({"core": ["a/echo"]})).await.ready().await;
    let tools = rig.tools().await;
    assert_eq!(tools, ["a__echo", "find_tool", "call_tool"]);

    let reply = rig.call("find_tool", json!({"intent": "the tool beta_7"})).await;
    assert!(text(&reply).contains("b__beta_7"), "{}", text(&reply));
    assert!(reply.structured_content.unwrap()["loaded"].as_array().unwrap().len() <= 20);
    rig.hears(|heard| heard == [Heard::ToolsChanged]).await;

    let grown = rig.tools().await;
    assert_eq!(grown[..3], tools);
    assert!(grown.contains(&"b__beta_7".to_owned()));
    assert!(rig.text("b__beta_7", json!({"text": "x"})).await.starts_with("beta_7"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_found_can_be_called_through_call_tool() {
    let rig = Rig::new(SERVERS, json!({})).await.ready().await;
    let reply = rig.find("b__beta_3").await;
    // This client has not shown that it reads the list anew, so the definition comes along.
    assert!(text(&reply).contains(r#""inputSchema":"#), "{}", text(&reply));
    let arguments = json!({"name": "b__beta_3", "arguments": {"text": "東京"}});
    assert!(rig.text("call_tool", arguments).await.contains("東京"));
    let as_text = json!({"name": "b__beta_3", "arguments": "{\"text\": \"quoted\"}"});
    assert!(rig.text("call_tool", as_text).await.contains("quoted"));
    for (wrong, words) in [
        (json!({}), "call_tool was not understood: give 'name'"),
        (json!({"name": "x", "arguments": [1]}), "call_tool was not understood: 'arguments'"),
    ] {
        let result = rig.call("call_tool", wrong).await;
        assert_eq!(result.is_error, Some(true));
        assert!(text(&result).starts_with(words), "{}", text(&result));
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_follows_announcements_is_not_sent_definitions_twice() {
    let rig = Rig::new(SERVERS, json!({})).await.ready().await;
    rig.tools().await;
    assert!(text(&rig.find("b__beta_3").await).contains("inputSchema"));
    rig.tools().await;
    assert!(!text(&rig.find("b__beta_4").await).contains("inputSchema"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guess_is_answered_with_the_definition() {
    let rig = Rig::new(SERVERS, json!({})).await.ready().await;
    let first = rig.call("a__alpha_1", json!({"wrong": 1})).await;
    assert_eq!(first.is_error, Some(true));
    assert!(
        text(&first).contains("a__alpha_1 did not run") && text(&first).contains("inputSchema")
    );
    assert!(rig.text("a__alpha_1", json!({"text": "now"})).await.starts_with("alpha_1"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bridge_is_constant() {
    let rig = bridge(json!({"core": ["a/echo"]})).await;
    let before = serde_json::to_string(&rig.client.list_tools(None).await.unwrap()).unwrap();
    assert_eq!(rig.tools().await, ["find_tool", "describe_tool", "call_tool"]);
    let reply = rig.call("find_tool", json!({"intent": "the tool beta_7"})).await;
    assert!(text(&reply).starts_with("Found"), "{}", text(&reply));
    assert!(text(&reply).contains("inputSchema"));
    let arguments = json!({"name": "b__beta_7", "arguments": {"text": "x"}});
    assert!(rig.text("call_tool", arguments).await.starts_with("beta_7"));

    let shown = rig.text("describe_tool", json!({"names": ["a__alpha_2", "nothing_such"]})).await;
    assert!(shown.contains(r#""name":"a__alpha_2""#) && shown.contains("annotations"), "{shown}");
    assert!(shown.contains("There is no tool called 'nothing_such'"), "{shown}");
    let arguments = json!({"name": "a__alpha_2"});
    assert!(rig.text("call_tool", arguments).await.starts_with("alpha_2"));

    let after = serde_json::to_string(&rig.client.list_tools(None).await.unwrap()).unwrap();
    assert_eq!(before, after);
    assert!(rig.client.service().heard().is_empty());
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_clients_name_picks_the_mode() {
    let options = Options::default();
    let rig = Rig::with(SERVERS, json!({}), &options, Listener::named("claude-ai")).await;
    assert_eq!(rig.tools().await, ["find_tool", "describe_tool", "call_tool"]);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hidden_tool_is_like_a_missing_one() {
    let own = json!({"deny": ["a/alpha_1"], "servers": {"b": {"allow": ["beta_1*"]}}});
    let rig = Rig::new(SERVERS, own).await.ready().await;
    let status = rig.gateway.status();
    assert_eq!((status[0].hidden, status[1].hidden, status[1].indexed), (1, 25, 11));
    let hidden = rig.text("a__alpha_1", json!({})).await;
    let missing = rig.text("a__alpha_X", json!({})).await;
    let head = |text: &str| {
        text.split('.').next().unwrap().replace("alpha_1", "?").replace("alpha_X", "?")
    };
    assert_eq!(head(&hidden), head(&missing));
    assert!(
        !text(&rig.call("find_tool", json!({"intent": "alpha_1"})).await).contains("a__alpha_1:")
    );
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_catalog_is_shown_whole() {
    let rig = Rig::new(&[("f", &["--tools", "2"])], json!({})).await.ready().await;
    let tools = rig.tools().await;
    assert_eq!(tools.len(), 18);
    assert!(!tools.contains(&"find_tool".to_owned()));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn results_and_errors_arrive_as_they_are() {
    let rig = Rig::new(&[("f", &[])], json!({})).await.ready().await;
    let direct = direct(&[]).await;
    rig.tools().await;
    for name in ["rich", "boom", "big"] {
        let arguments = json!({"bytes": 5_000_000});
        let through = rig.call(&format!("f__{name}"), arguments.clone()).await;
        let plain = call(&direct, name, arguments).await.unwrap();
        assert_eq!(through, plain, "{name}");
    }
    let through = call(&rig.client, "f__refuse", json!({})).await.unwrap_err().to_string();
    let plain = call(&direct, "refuse", json!({})).await.unwrap_err().to_string();
    assert_eq!(through, plain);
    let _ = direct.cancel().await;
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn progress_and_logs_arrive_in_order_and_before_the_result() {
    let rig = Rig::new(&[("f", &[])], json!({})).await.ready().await;
    rig.tools().await;
    assert_eq!(rig.text("f__count_up", json!({})).await, "counted");
    let heard = || rig.client.service().heard();
    let all_heard = tokio::time::timeout(Duration::from_secs(20), async {
        while heard().len() < 11 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    all_heard.await.unwrap_or_else(|_| panic!("{:?}", heard()));
    assert!(heard().contains(&Heard::Log(Some("f".to_owned()))));
    // rmcp's client hands each notification to a task, so only the set is certain here.
    let mut steps: Vec<f64> = heard()
        .iter()
        .filter_map(|heard| match heard {
            Heard::Progress(step) => Some(*step),
            _ => None,
        })
        .collect();
    steps.sort_by(f64::total_cmp);
    assert_eq!(steps, (1..=10).map(f64::from).collect::<Vec<_>>());
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancellation_reaches_the_server() {
    let rig = Rig::new(&[("f", &[])], json!({})).await.ready().await;
    rig.tools().await;
    let params = CallToolRequestParams::new("f__hang").with_arguments(JsonObject::new());
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
    let handle = rig
        .client
        .send_cancellable_request(request, PeerRequestOptions::no_options())
        .await
        .unwrap();
    rig.until(|all| all[0].open_calls == 1).await;
    handle.cancel(Some("enough".to_owned())).await.unwrap();
    rig.until(|all| all[0].open_calls == 0).await;
    let cancelled = async {
        while rig.text("f__cancelled", json!({})).await == "[]" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), cancelled).await.expect("it was told");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_call_ends_at_its_time_limit() {
    let rig = Rig::new(&[("f", &[])], json!({"timeouts": {"call": 0.3}})).await.ready().await;
    rig.tools().await;
    let result = rig.call("f__hang", json!({})).await;
    assert_eq!(result.is_error, Some(true));
    assert!(text(&result).starts_with("server 'f' gave no sign for 0.3 seconds"));
    // And the server is told to stop.
    let cancelled = async {
        while rig.text("f__cancelled", json!({})).await == "[]" {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), cancelled).await.expect("it was told");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_ask_the_client() {
    let rig = Rig::new(&[("f", &[])], json!({})).await.ready().await;
    rig.tools().await;
    for (method, answer) in [
        ("roots/list", "file:///here"),
        ("elicitation/create", "Ada"),
        ("sampling/createMessage", "a-model"),
    ] {
        let said = rig.text("f__ask", json!({"text": method})).await;
        assert!(said.contains(answer), "{method}: {said}");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_level_of_logging_reaches_the_server_and_holds_for_what_comes_back() {
    let rig = Rig::new(&[("f", &[])], json!({})).await.ready().await;
    rig.tools().await;
    let params = rmcp::model::SetLevelRequestParams::new(rmcp::model::LoggingLevel::Error);
    rig.client.set_level(params).await.unwrap();
    assert_eq!(rig.text("f__echo", json!({"level": true})).await, "error");
    // It says something at the level of information.
    rig.call("f__count_up", json!({})).await;
    rig.call("f__echo", json!({})).await;
    let heard = rig.client.service().heard();
    assert!(!heard.iter().any(|heard| matches!(heard, Heard::Log(_))), "{heard:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_client_cannot_answer_is_refused_to_the_server() {
    let options = Options::default();
    let rig = Rig::with(&[("f", &[])], json!({}), &options, Listener::unable()).await.ready().await;
    rig.tools().await;
    for method in ["roots/list", "elicitation/create", "sampling/createMessage"] {
        let said = rig.text("f__ask", json!({"text": method})).await;
        assert!(said.contains("the client cannot"), "{method}: {said}");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_and_resources_are_of_their_servers() {
    let servers: &[(&str, &[&str])] =
        &[("a", &["--shelf", "--prefix", "alpha"]), ("b", &["--shelf", "--prefix", "beta"])];
    let rig = Rig::new(servers, json!({"limit": 60, "whole": 60})).await.ready().await;
    rig.hears(|heard| heard.contains(&Heard::PromptsChanged)).await;
    let listed = async {
        while rig.client.list_all_prompts().await.unwrap().len() < 2
            || rig.client.list_all_resources().await.unwrap().len() < 2
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), listed).await.expect("both list theirs");
    rig.tools().await;
    for (server, prefix) in [("a", "alpha"), ("b", "beta")] {
        let prompt = rmcp::model::GetPromptRequestParams::new(format!("{server}__greet"));
        let prompt = serde_json::to_string(&rig.client.get_prompt(prompt).await.unwrap()).unwrap();
        assert!(prompt.contains(&format!("{prefix} says")), "{prompt}");
        for uri in ["fake://greet", "fake://any/7"] {
            let shown = format!("{server}+{uri}");
            let params = rmcp::model::ReadResourceRequestParams::new(shown.clone());
            let read = rig.client.read_resource(params).await.unwrap();
            let read = serde_json::to_string(&read).unwrap();
            assert!(read.contains(&format!("{prefix} keeps")) && read.contains(&shown), "{read}");
        }
    }
    let templates = rig.client.list_all_resource_templates().await.unwrap();
    let templates: Vec<&str> = templates.iter().map(|one| one.uri_template.as_str()).collect();
    assert_eq!(templates, ["a+fake://any/{id}", "b+fake://any/{id}"]);

    // Changes of one are announced, and an update under the address that the client knows.
    let params = rmcp::model::SubscribeRequestParams::new("b+fake://greet");
    rig.client.subscribe(params).await.unwrap();
    let before = rig.client.service().heard().len();
    for server in ["a", "b"] {
        rig.call(&format!("{server}__add"), json!({"text": "more"})).await;
    }
    rig.hears(|heard| {
        let heard = &heard[before..];
        heard.contains(&Heard::PromptsChanged) && heard.contains(&Heard::ResourcesChanged)
    })
    .await;
    rig.hears(|heard| heard.iter().any(|heard| matches!(heard, Heard::Updated(_)))).await;
    let heard = rig.client.service().heard();
    let updated = heard.iter().filter(|heard| matches!(heard, Heard::Updated(_)));
    let updated: Vec<&Heard> = updated.collect();
    assert_eq!(updated, [&Heard::Updated("b+fake://greet".to_owned())]);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_does_not_wait_for_the_slowest() {
    let servers: &[(&str, &[&str])] = &[("good", &[]), ("slow", &["--start-after", "5000"])];
    let began = std::time::Instant::now();
    let rig = Rig::new(servers, json!({"limit": 60, "core": ["good/echo", "slow/echo"]})).await;
    rig.until(|all| all[0].indexed > 0).await;
    let tools = rig.tools().await;
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(tools.contains(&"good__echo".to_owned()), "{tools:?}");
    assert!(!tools.contains(&"slow__echo".to_owned()), "{tools:?}");
    // Core tools of the late one come in when it answers, and the client is told.
    let rig = rig.ready().await;
    rig.hears(|heard| heard.contains(&Heard::ToolsChanged)).await;
    assert!(rig.tools().await.contains(&"slow__echo".to_owned()));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_beyond_all_measure_fails_its_call_alone() {
    let rig = Rig::new(&[("f", &[]), ("g", &[])], json!({"timeouts": {"call": 5}}));
    let rig = rig.await.ready().await;
    rig.find("f__big").await;
    rig.find("g__echo").await;
    let (big, other) = tokio::join!(
        rig.call("f__big", json!({"bytes": 70_000_000})),
        rig.call("g__echo", json!({"text": "hi"})),
    );
    assert_eq!(big.is_error, Some(true));
    assert!(text(&big).starts_with("server 'f' "), "{}", text(&big));
    assert!(text(&other).contains("hi"));
    assert_eq!(rig.text("f__big", json!({"bytes": 3})).await, "xxx");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_and_prompts_of_nobody_are_empty_lists() {
    let rig = Rig::new(&[("f", &[])], json!({})).await.ready().await;
    assert!(rig.client.list_all_resources().await.unwrap().is_empty());
    assert!(rig.client.list_all_prompts().await.unwrap().is_empty());
    let info = rig.client.peer_info().unwrap();
    assert_eq!(info.protocol_version, ProtocolVersion::LATEST_WITH_INITIALIZE);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_working_set_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.state = Some(folder.path().join("state.json"));
    let rig = Rig::with(SERVERS, json!({}), &options, Listener::named("test")).await.ready().await;
    rig.find("b__beta_9").await;
    rig.close().await;

    let rig = Rig::with(SERVERS, json!({}), &options, Listener::named("test")).await.ready().await;
    assert!(rig.tools().await.contains(&"b__beta_9".to_owned()));
    assert!(rig.text("b__beta_9", json!({})).await.starts_with("beta_9"));
    rig.close().await;
    // Somebody else's session is not continued.
    let rig = Rig::with(SERVERS, json!({}), &options, Listener::named("other")).await.ready().await;
    assert!(!rig.tools().await.contains(&"b__beta_9".to_owned()));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_gateways_may_keep_their_sessions_in_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.state = Some(folder.path().join("state.json"));
    let open = async |name| {
        Rig::with(SERVERS, json!({}), &options, Listener::named(name)).await.ready().await
    };
    let (one, two) = (open("one").await, open("two").await);
    one.find("b__beta_1").await;
    two.find("b__beta_2").await;
    one.close().await;
    two.close().await;
    for (name, own, others) in
        [("one", "b__beta_1", "b__beta_2"), ("two", "b__beta_2", "b__beta_1")]
    {
        let rig = open(name).await;
        let tools = rig.tools().await;
        assert!(
            tools.contains(&own.to_owned()) && !tools.contains(&others.to_owned()),
            "{tools:?}"
        );
        rig.close().await;
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
