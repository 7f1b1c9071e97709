//! Field cases that a client meets at the gateway, by their numbers.

use std::time::Duration;

use serde_json::{Value, json};
use toolrack::gateway::{Gateway, Mode, Options};
use toolrack::{Catalog, Engine};

use crate::http::{Site, hello, tools};
use crate::support::{Heard, Listener, Rig, call, config, text};

#[tokio::test(flavor = "multi_thread")]
async fn case_01_many_exact_names_in_one_query() {
    let names = "crm_list_accounts,crm_get_account,crm_list_deals,crm_get_deal,crm_list_notes,\
                 crm_get_note,crm_list_tasks,crm_get_task";
    let servers: &[(&str, &[&str])] = &[("crm", &["--names", names]), ("more", &["--tools", "40"])];
    let rig = Rig::new(servers, json!({})).await.ready().await;
    let asked: Vec<&str> = names.split(',').take(5).collect();
    let reply = rig.call("find_tool", json!({"intent": asked.join(" "), "limit": 3})).await;
    for name in asked {
        assert!(text(&reply).contains(&format!("crm__{name}")), "{name}: {}", text(&reply));
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_10_ordinary_word_treated_as_query_syntax() {
    let names = "query_table,export_data,fetch_text";
    let servers: &[(&str, &[&str])] = &[("t", &["--names", names]), ("more", &["--tools", "40"])];
    let rig = Rig::new(servers, json!({})).await.ready().await;
    let reply = rig.call("find_tool", json!({"intent": "export the data to a table"})).await;
    assert!(text(&reply).contains("t__export_data"), "{}", text(&reply));
    let long = "word ".repeat(200_000);
    for odd in ["title:foo AND (", "\"unbalanced", "a-b", "*", "+", "", "\u{0}", long.as_str()] {
        // Whatever it is, it is answered, and what comes after is, too.
        let reply = rig.call("find_tool", json!({"intent": odd})).await;
        assert!(!text(&reply).is_empty());
    }
    for odd in [json!({}), json!({"intent": null}), json!({"intent": 7}), json!({"intents": "x"})] {
        let reply = rig.call("find_tool", odd).await;
        assert!(!text(&reply).is_empty());
    }
    assert!(text(&rig.find("t__fetch_text").await).contains("t__fetch_text"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_15_truncation_collides_opposite_actions() {
    let [make, drop] = ["create", "delete"].map(|verb| {
        format!("enterprise_resource_management_{verb}_customer_subscription_billing_record_v2")
    });
    let names = format!("{make},{drop}");
    let servers: &[(&str, &[&str])] = &[("crm", &["--tools", "0", "--names", &names])];
    let rig = Rig::new(servers, json!({"whole": 100})).await.ready().await;
    let list = rig.client.list_all_tools().await.unwrap();
    let shown = |name: &str| {
        let words = format!("The tool {name} ");
        let tool = list.iter().find(|tool| tool.description.as_ref().unwrap().starts_with(&words));
        tool.unwrap().name.to_string()
    };
    let (shown_make, shown_drop) = (shown(&make), shown(&drop));
    assert_ne!(shown_make, shown_drop);
    assert!(shown_make.len() <= 64 && shown_drop.len() <= 64);
    assert!(rig.text(&shown_make, json!({})).await.starts_with(&make));
    assert!(rig.text(&shown_drop, json!({})).await.starts_with(&drop));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_16_same_name_on_two_servers() {
    let servers: &[(&str, &[&str])] = &[
        ("docs", &["--names", "search", "--tools", "20"]),
        ("tickets", &["--names", "search", "--tools", "20"]),
    ];
    let rig = Rig::new(servers, json!({})).await.ready().await;
    let reply = rig.find("search").await;
    let said = text(&reply);
    assert!(said.contains("docs__search") && said.contains("tickets__search"), "{said}");
    rig.find("docs__pid").await;
    rig.find("tickets__pid").await;
    assert_ne!(rig.text("docs__pid", json!({})).await, rig.text("tickets__pid", json!({})).await);
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_22_two_sessions_one_engine() {
    let site = Site::open(&Options::default()).await;
    let (one, two) = (site.client(None).await, site.client(None).await);
    call(&one, "find_tool", json!({"names": ["b__beta_9"]})).await.unwrap();
    assert!(tools(&one).await.contains(&"b__beta_9".to_owned()));
    assert!(!tools(&two).await.contains(&"b__beta_9".to_owned()));
    one.cancel().await.unwrap();
    // Nobody gets into a session that is over, or in without one.
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    let stranger = ("mcp-session-id", "00000000-0000-0000-0000-000000000000");
    assert_eq!(site.post(&[stranger], list.clone()).await.0, 404);
    let (status, said, _) = site.post(&[], list).await;
    assert!((400..500).contains(&status), "{status} {said}");
    let id = site.post(&[], hello()).await.2.unwrap();
    assert_ne!(id, stranger.1);
    // A hundred at once, each with one find of its own.
    let site = std::sync::Arc::new(site);
    let visits: Vec<_> = (0..100)
        .map(|number| {
            let site = std::sync::Arc::clone(&site);
            tokio::spawn(async move {
                let client = site.client(None).await;
                let own = format!("b__beta_{}", number % 20);
                call(&client, "find_tool", json!({"names": [own]})).await.unwrap();
                let found: Vec<String> = tools(&client).await;
                let found: Vec<&String> =
                    found.iter().filter(|name| name.starts_with("b__beta")).collect();
                assert_eq!(found, [&own]);
                client.cancel().await.unwrap();
            })
        })
        .collect();
    for visit in visits {
        visit.await.unwrap();
    }
    site.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_25_removed_versus_unreachable_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.state = Some(folder.path().join("state.json"));
    let own = json!({"restart": {"first": 60, "most": 60}});
    let servers: &[(&str, &[&str])] =
        &[("a", &["--tools", "20"]), ("b", &["--tools", "20"]), ("c", &["--tools", "20"])];
    let rig =
        Rig::with(servers, own.clone(), &options, Listener::named("test")).await.ready().await;
    for name in ["a__plain_1", "b__plain_1", "c__plain_1", "c__die"] {
        rig.find(name).await;
    }
    rig.call("c__die", json!({})).await;
    rig.until(|all| all[2].stale_since.is_some()).await;
    // C is away: its tools stay, marked.
    assert_eq!(rig.gateway.status()[2].indexed, 36);
    assert!(text(&rig.find("c__plain_2").await).contains("c__plain_2"));
    let said = rig.text("c__plain_2", json!({})).await;
    assert!(said.starts_with("server 'c' is not connected"), "{said}");
    rig.close().await;

    // B is out of the configuration and A has fewer tools: what is gone is gone, for old sessions, too.
    let servers: &[(&str, &[&str])] = &[("a", &["--tools", "1"]), ("c", &["--tools", "30"])];
    let rig = Rig::with(servers, own, &options, Listener::named("test")).await.ready().await;
    let names = rig.tools().await;
    assert!(names.contains(&"c__plain_1".to_owned()), "{names:?}");
    for gone in ["a__plain_1", "b__plain_1"] {
        assert!(!names.contains(&gone.to_owned()), "{names:?}");
        let said = text(&rig.find(gone).await);
        assert!(said.contains("There is no tool called"), "{said}");
    }
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_26_list_changed() {
    let rig = Rig::new(&[("f", &["--tools", "40"])], json!({})).await.ready().await;
    rig.find("f__add").await;
    rig.find("f__echo").await;
    rig.tools().await;
    rig.call("f__add", json!({"text": "new_tool"})).await;
    rig.until(|all| all[0].indexed == 57).await;
    let said = text(&rig.call("find_tool", json!({"intent": "new tool"})).await);
    assert!(said.contains("f__new_tool"), "{said}");
    // A tool in use that changes is announced, and shown as it is now.
    rig.tools().await;
    let before = rig.client.service().heard().len();
    rig.call("f__add", json!({"mutate": true})).await;
    let changed = async {
        while !rig.client.service().heard()[before..].contains(&Heard::ToolsChanged) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), changed).await.expect("it is announced");
    let list = rig.client.list_all_tools().await.unwrap();
    let echo = list.iter().find(|tool| tool.name == "f__echo").unwrap();
    assert!(echo.description.as_ref().unwrap().contains("First read"), "{echo:?}");
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_27_empty_allow_list() {
    let rig = Rig::new(&[("f", &[])], json!({"allow": []})).await;
    rig.until(|all| all[0].listings > 0 && all[0].hidden > 0).await;
    assert_eq!((rig.gateway.status()[0].indexed, rig.gateway.status()[0].hidden), (0, 19));
    for intent in ["echo", "anything at all"] {
        let said = text(&rig.call("find_tool", json!({"intent": intent})).await);
        assert!(!said.contains("f__"), "{said}");
    }
    let hidden = rig.text("f__echo", json!({})).await;
    let missing = rig.text("f__none", json!({})).await;
    assert_eq!(hidden.replace("f__echo", "?"), missing.replace("f__none", "?"));
    rig.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_28_hidden_but_executable() {
    let own = json!({"deny": ["f/wipe_disk"]});
    for mode in [Mode::List, Mode::Bridge] {
        let mut options = Options::default();
        options.mode = Some(mode);
        let servers: &[(&str, &[&str])] = &[("f", &["--names", "wipe_disk,list_disk"])];
        let rig = Rig::with(servers, own.clone(), &options, Listener::named("test")).await;
        let rig = rig.ready().await;
        for (tool, arguments) in [
            ("f__wipe_disk", json!({})),
            ("f/wipe_disk", json!({})),
            ("wipe_disk", json!({})),
            ("call_tool", json!({"name": "f__wipe_disk"})),
            ("call_tool", json!({"name": "wipe_disk", "arguments": {}})),
            ("describe_tool", json!({"name": "f__wipe_disk"})),
            ("find_tool", json!({"names": ["f__wipe_disk"]})),
        ] {
            let result = rig.call(tool, arguments).await;
            let said = text(&result);
            assert!(said.contains("There is no tool called"), "{tool}: {said}");
            assert!(!said.contains("The tool wipe_disk"), "{tool}: {said}");
        }
        rig.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_32_embedder_down() {
    let engine = Engine::builder(Catalog::empty()).without_embedder().build().unwrap();
    let servers: &[(&str, &[&str])] = &[("f", &["--tools", "40", "--names", "open_ticket"])];
    let gateway = Gateway::new(engine, config(servers, json!({})), &Options::default()).unwrap();
    let rig = Rig::on(gateway, Listener::named("test")).await.ready().await;
    let reply = rig.call("find_tool", json!({"intent": "open a ticket", "limit": 2})).await;
    assert!(text(&reply).contains("f__open_ticket"), "{}", text(&reply));
    let loaded = reply.structured_content.unwrap()["loaded"].clone();
    let count = loaded.as_array().map_or(0, Vec::len);
    assert!((1..=2).contains(&count), "{loaded}");
    assert_ne!(loaded, Value::Null);
    rig.close().await;
}
