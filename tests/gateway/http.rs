//! Streamable HTTP: sessions, tokens, and who is kept out.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use rmcp::RoleClient;
use rmcp::service::{RunningService, serve_client};
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolrack::ErrorKind;
use toolrack::gateway::{Config, Gateway, Options, Tokens};

use crate::support::{Listener, Rig, call, config, engine, text};

const SERVERS: &[(&str, &[&str])] = &[
    ("a", &["--tools", "14", "--prefix", "alpha"]),
    ("b", &["--tools", "20", "--prefix", "beta"]),
];

pub(crate) struct Site {
    pub(crate) gateway: Gateway,
    address: SocketAddr,
}

impl Site {
    pub(crate) async fn open(options: &Options) -> Self {
        Self::open_with(options, json!({})).await
    }

    pub(crate) async fn open_with(options: &Options, own: Value) -> Self {
        let gateway = Gateway::new(engine(), config(SERVERS, own), options).unwrap();
        Self::open_at(gateway, "127.0.0.1:0".parse().unwrap()).await
    }

    async fn open_at(gateway: Gateway, address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = gateway.clone();
        tokio::spawn(async move { serving.serve_http(listener).await });
        while gateway.status().iter().any(|status| status.indexed == 0) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        Self { gateway, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub(crate) async fn client(&self, token: Option<&str>) -> RunningService<RoleClient, Listener> {
        let mut config = StreamableHttpClientTransportConfig::with_uri(self.url());
        if let Some(token) = token {
            config = config.auth_header(token);
        }
        let transport = StreamableHttpClientTransport::from_config(config);
        serve_client(Listener::named("test"), transport).await.unwrap()
    }

    /// Status and body of a plain request.
    pub(crate) async fn post(
        &self,
        headers: &[(&str, &str)],
        body: Value,
    ) -> (u16, String, Option<String>) {
        let url = self.url();
        let headers: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        tokio::task::spawn_blocking(move || {
            let agent: ureq::Agent =
                ureq::Agent::config_builder().http_status_as_error(false).build().into();
            let mut request = agent
                .post(&url)
                .header("content-type", "application/json")
                .header("accept", "application/json, text/event-stream");
            for (name, value) in &headers {
                request = request.header(name, value);
            }
            let mut response = request.send(body.to_string()).unwrap();
            let id = response.headers().get("mcp-session-id");
            let id = id.map(|id| id.to_str().unwrap().to_owned());
            let status = response.status().as_u16();
            let text = if status >= 400 {
                response.body_mut().read_to_string().unwrap_or_default()
            } else {
                // An event stream may stay open after the answer.
                let mut lines = BufReader::new(response.body_mut().as_reader()).lines();
                lines
                    .find_map(|line| line.ok().filter(|line| line.contains("\"jsonrpc\"")))
                    .unwrap_or_default()
            };
            (status, text, id)
        })
        .await
        .unwrap()
    }
}

pub(crate) fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}})
}

fn tokens(folder: &Path) -> Options {
    let path = folder.join("tokens.json");
    let text = json!({"tokens": [
        {"name": "ada", "token": "ada-0123456789abcdef", "context": {"namespaces": ["a"]}},
        {"name": "bob", "token": "bob-0123456789abcdef"},
        {"name": "olga", "token": "olga-0123456789abcdef", "operator": true},
    ]});
    std::fs::write(&path, text.to_string()).unwrap();
    let mut options = Options::default();
    options.tokens = Some(path);
    options
}

pub(crate) async fn tools(client: &RunningService<RoleClient, Listener>) -> Vec<String> {
    let tools = client.list_tools(None).await.unwrap().tools;
    tools.iter().map(|tool| tool.name.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_session_has_a_working_set_of_its_own() {
    let site = Site::open(&Options::default()).await;
    let (one, two) = (site.client(None).await, site.client(None).await);
    call(&one, "find_tool", json!({"names": ["b__beta_9"]})).await.unwrap();
    assert!(tools(&one).await.contains(&"b__beta_9".to_owned()));
    assert!(!tools(&two).await.contains(&"b__beta_9".to_owned()));
    let result = call(&one, "b__beta_9", json!({"text": "x"})).await.unwrap();
    assert!(text(&result).starts_with("beta_9"));
    let asked = call(&one, "find_tool", json!({"names": ["a__ask"]})).await.unwrap();
    assert_ne!(asked.is_error, Some(true));
    let roots = call(&one, "a__ask", json!({"text": "roots/list"})).await.unwrap();
    assert!(text(&roots).contains("file:///here"), "{}", text(&roots));
    site.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_decides_what_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::open(&tokens(folder.path())).await;
    let ada = site.client(Some("ada-0123456789abcdef")).await;
    let bob = site.client(Some("bob-0123456789abcdef")).await;
    let search = json!({"names": ["b__beta_9"]});
    let reply = call(&ada, "find_tool", search.clone()).await.unwrap();
    assert!(text(&reply).contains("There is no tool called"), "{}", text(&reply));
    for name in ["b__beta_9", "b/beta_9", "beta_9"] {
        let told = call(&ada, "describe_tool", json!({"name": name})).await.unwrap();
        assert!(text(&told).starts_with("There is no tool called"), "{}", text(&told));
    }
    let refused = call(&ada, "b__beta_9", json!({})).await.unwrap();
    assert!(text(&refused).starts_with("There is no tool called"), "{}", text(&refused));
    let rest = text(&refused).replacen("'b__beta_9'", "", 1);
    assert!(!rest.contains("b__"), "{rest}");
    assert!(text(&call(&bob, "find_tool", search).await.unwrap()).contains("b__beta_9"));
    site.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_token_nobody_comes_in() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::open(&tokens(folder.path())).await;
    for header in [None, Some("Bearer wrong"), Some("Basic ada-0123456789abcdef")] {
        let headers: Vec<(&str, &str)> =
            header.map(|value| ("authorization", value)).into_iter().collect();
        let (status, body, _) = site.post(&headers, hello()).await;
        assert_eq!((status, body.as_str()), (401, "A bearer token is needed."));
    }
    // A session belongs to the token that opened it.
    let ada = ("authorization", "Bearer ada-0123456789abcdef");
    let (status, _, id) = site.post(&[ada], hello()).await;
    assert_eq!(status, 200);
    let id = id.unwrap();
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(site.post(&[ada, ("mcp-session-id", &id)], ready.clone()).await.0, 202);
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let bob = ("authorization", "Bearer bob-0123456789abcdef");
    let stolen = site.post(&[bob, ("mcp-session-id", &id)], ping).await;
    assert_eq!((stolen.0, stolen.1.as_str()), (404, "There is no such session."));
    site.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_other_sites_do_not_come_in() {
    let site = Site::open(&Options::default()).await;
    for headers in [
        [("host", "evil.example"), ("x", "y")],
        [("host", "localhost"), ("origin", "https://evil.example")],
        [("host", "localhost"), ("origin", "null")],
    ] {
        assert_eq!(site.post(&headers, hello()).await.0, 403, "{headers:?}");
    }
    let local = [("host", "localhost:8080"), ("origin", "http://localhost:3000")];
    assert_eq!(site.post(&local, hello()).await.0, 200);
    site.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_outlives_the_process() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = tokens(folder.path());
    options.state = Some(folder.path().join("state.json"));
    let bob = ("authorization", "Bearer bob-0123456789abcdef");
    let find = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call",
        "params": {"name": "find_tool", "arguments": {"names": ["b__beta_9"]}}});
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});

    let site = Site::open(&options).await;
    let id = site.post(&[bob], hello()).await.2.unwrap();
    let session = ("mcp-session-id", id.as_str());
    assert_eq!(site.post(&[bob, session], ready).await.0, 202);
    assert_eq!(site.post(&[bob, session], find).await.0, 200);
    site.gateway.close().await;
    let stored = std::fs::read_to_string(folder.path().join("state.json")).unwrap();
    assert!(stored.contains("b/beta_9") && !stored.contains("0123456789abcdef"), "{stored}");

    let site = Site::open(&options).await;
    let ada = ("authorization", "Bearer ada-0123456789abcdef");
    let list = json!({"jsonrpc": "2.0", "id": 4, "method": "tools/list"});
    assert_eq!(site.post(&[ada, session], list.clone()).await.0, 404);
    assert_eq!(site.post(&[bob, session], list).await.0, 200);
    site.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_and_state_are_served() {
    let site = Site::open(&Options::default()).await;
    let client = site.client(None).await;
    call(&client, "find_tool", json!({"names": ["a__echo"]})).await.unwrap();
    call(&client, "a__echo", json!({})).await.unwrap();
    let (metrics, xray) = (
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
    );
    let (at_metrics, at_xray) = (metrics.local_addr().unwrap(), xray.local_addr().unwrap());
    let (one, two) = (site.gateway.clone(), site.gateway.clone());
    tokio::spawn(async move { one.serve_metrics(metrics).await });
    tokio::spawn(async move { two.serve_xray(xray).await });
    let get = |url: String| async move {
        let read = move || ureq::get(&url).call().unwrap().body_mut().read_to_string().unwrap();
        tokio::task::spawn_blocking(read).await.unwrap()
    };
    let figures = get(format!("http://{at_metrics}/metrics")).await;
    for line in [
        r#"toolrack_calls_total{server="a",outcome="ok"} 1"#,
        r#"toolrack_searches_total{status="loaded"} 1"#,
        r#"toolrack_tools{server="b"} 36"#,
        "toolrack_sessions 1",
    ] {
        assert!(figures.contains(line), "{line} is not in\n{figures}");
    }
    let state: Value = serde_json::from_str(&get(format!("http://{at_xray}/state")).await).unwrap();
    assert_eq!(state["catalog"]["tools"], 66);
    assert_eq!(state["upstreams"][0]["state"], "connected");
    assert!(state["sessions"][0]["run"]["visible"].to_string().contains("a__echo"));
    site.gateway.close().await;
}

/// Status and the first `most` lines of what `url` sends that are not empty.
async fn lines(
    url: String,
    headers: Vec<(&'static str, String)>,
    most: usize,
) -> (u16, Vec<String>) {
    let read = move || {
        let agent: ureq::Agent =
            ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let mut request = agent.get(&url);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let mut response = request.call().unwrap();
        let status = response.status().as_u16();
        let lines = BufReader::new(response.body_mut().as_reader()).lines().map_while(Result::ok);
        (status, lines.filter(|line| !line.is_empty()).take(most).collect())
    };
    tokio::task::spawn_blocking(read).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_sessions_do_is_for_operators() {
    let folder = tempfile::tempdir().unwrap();
    let mut options = tokens(folder.path());
    options.xray = Some("127.0.0.1:0".parse().unwrap());
    let site = Site::open(&options).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = site.gateway.clone();
    tokio::spawn(async move { serving.serve_xray(listener).await });
    let at = |path: &str| format!("http://{address}{path}");

    // A browser sends a name and a password in base64.
    let basic = |pair: &str| ("authorization", format!("Basic {}", BASE64_STANDARD.encode(pair)));
    let bearer = |name: &str| ("authorization", format!("Bearer {name}-0123456789abcdef"));
    for path in ["/", "/state", "/events", "/session/1", "/session/1/events"] {
        for (headers, status) in [
            (vec![], 401),
            (vec![bearer("mallory")], 401),
            (vec![("authorization", "Basic ???".to_owned())], 401),
            (vec![bearer("ada")], 403),
            (vec![basic("olga:ada-0123456789abcdef")], 403),
            (vec![bearer("olga"), ("origin", "https://elsewhere.example".to_owned())], 403),
            (vec![bearer("olga"), ("host", "elsewhere.example".to_owned())], 403),
        ] {
            let (seen, text) = lines(at(path), headers.clone(), 9).await;
            assert_eq!(seen, status, "{path} {headers:?}: {text:?}");
            assert!(!text.join("").contains("0123456789abcdef"), "{text:?}");
        }
    }

    let client = site.client(Some("ada-0123456789abcdef")).await;
    call(&client, "find_tool", json!({"names": ["a__echo"]})).await.unwrap();
    let operator = basic("anybody:olga-0123456789abcdef");
    let (status, page) = lines(at("/session/1"), vec![operator.clone()], 999).await;
    assert_eq!((status, page.join("").contains("Session 1: test")), (200, true));
    let (_, all) = lines(at("/session/1/events"), vec![operator.clone()], 8).await;
    assert!(all[0].starts_with("id: 1.0") && all[1].contains(r#""event":"open""#), "{all:?}");
    let place = all[2].strip_prefix("id: ").unwrap().to_owned();
    let after = vec![operator.clone(), ("last-event-id", place)];
    let (_, rest) = lines(at("/session/1/events"), after, 4).await;
    assert_eq!(rest, all[4..8]);

    let (status, _) = lines(at("/session/2"), vec![operator.clone()], 1).await;
    assert_eq!(status, 404);
    let (_, none) = lines(at("/session/2/events"), vec![operator.clone()], 9).await;
    assert_eq!(none, ["event: end", "data: over"]);
    site.gateway.close().await;
}

/// A server behind HTTP: another gateway, which wants a token.
#[tokio::test(flavor = "multi_thread")]
async fn servers_may_be_reached_over_http() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::open(&tokens(folder.path())).await;
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let token = |name: &str| json!({"Authorization": format!("Bearer {name}-0123456789abcdef")});
    let text_of = json!({
        "mcpServers": {
            "far": {"type": "http", "url": site.url(), "headers": token("bob")},
            "locked": {"url": site.url(), "headers": token("eve")},
            "silent": {"url": format!("http://{}/mcp", silent.local_addr().unwrap())},
        },
        "toolrack": {"timeouts": {"connect": 1.5}},
    });
    let config = Config::parse(&text_of.to_string(), "test.json").unwrap();
    let rig = Rig::of(config, &Options::default(), Listener::named("test")).await;
    rig.until(|all| all[0].indexed > 0 && all[1..].iter().all(|one| one.last_error.is_some()))
        .await;
    let errors: Vec<String> = rig.gateway.status()[1..].iter().map(ToString::to_string).collect();
    assert!(errors[0].contains("last error: it asks for authorization"), "{errors:?}");
    assert!(errors[1].contains("it did not answer the handshake within 1.5 seconds"), "{errors:?}");
    // Both are in the list at once only if all servers were heard of before the first search.
    rig.find("far__find_tool").await;
    rig.find("far__call_tool").await;
    rig.text("far__find_tool", json!({"names": ["a__echo"]})).await;
    let inner = json!({"name": "a__echo", "arguments": {"text": "東京"}});
    let said = rig.text("far__call_tool", inner).await;
    assert!(said.contains("東京"), "{said}");
    rig.close().await;
    site.gateway.close().await;
}

/// A server over HTTP that forgets its sessions, then goes away and comes back.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_over_http_that_was_away_is_called_again() {
    let open = |own| Gateway::new(engine(), config(SERVERS, own), &Options::default()).unwrap();
    let site = Site::open_at(open(json!({"idle": 1})), "127.0.0.1:0".parse().unwrap()).await;
    let address = site.address;
    let text_of = json!({
        "mcpServers": {"far": {"url": site.url()}},
        "toolrack": {"timeouts": {"list": 2}, "restart": {"first": 0.2, "most": 1}},
    });
    let config_of = Config::parse(&text_of.to_string(), "test.json").unwrap();
    let rig = Rig::of(config_of, &Options::default(), Listener::named("test")).await.ready().await;
    rig.find("far__find_tool").await;
    let search = json!({"names": ["a__echo"]});
    let works = async || {
        let asked = async {
            while !rig.text("far__find_tool", search.clone()).await.contains("a__echo") {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), asked).await.expect("it works");
    };
    works().await;
    // The far session is closed while nobody uses it.
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    works().await;

    site.gateway.close().await;
    let away = rig.call("far__find_tool", search.clone()).await;
    assert_eq!(away.is_error, Some(true));
    assert!(text(&away).starts_with("server 'far' "), "{}", text(&away));
    let site = Site::open_at(open(json!({})), address).await;
    works().await;
    rig.close().await;
    site.gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_beyond_this_machine_needs_tokens() {
    let gateway = Gateway::new(engine(), config(&[], json!({})), &Options::default()).unwrap();
    let listener = async || TcpListener::bind("0.0.0.0:0").await.unwrap();
    for refused in [
        gateway.serve_http(listener().await).await,
        gateway.serve_xray(listener().await).await,
        gateway.serve_metrics(listener().await).await,
    ] {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidSetting);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_listens_beyond_this_machine_without_tokens() {
    let mut options = Options::default();
    options.http = Some("0.0.0.0:0".parse().unwrap());
    let error = toolrack::gateway::serve(config(&[], json!({})), options).await.unwrap_err();
    insta::assert_snapshot!(error, @"the gateway would listen at 0.0.0.0:0, beyond this machine, without authentication: give a file of tokens or listen at 127.0.0.1");
}

/// What is beside the tools has the same door.
#[tokio::test(flavor = "multi_thread")]
async fn figures_are_for_those_who_may_come_in() {
    let folder = tempfile::tempdir().unwrap();
    let site = Site::open(&tokens(folder.path())).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/metrics", listener.local_addr().unwrap());
    let serving = site.gateway.clone();
    tokio::spawn(async move { serving.serve_metrics(listener).await });
    let bob = ("authorization", "Bearer bob-0123456789abcdef");
    for (headers, expected) in [
        (vec![], 401),
        (vec![("authorization", "Bearer bob")], 401),
        (vec![bob, ("host", "evil.example")], 403),
        (vec![bob], 200),
    ] {
        let url = url.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let agent: ureq::Agent =
                ureq::Agent::config_builder().http_status_as_error(false).build().into();
            let mut request = agent.get(&url);
            for (name, value) in headers {
                request = request.header(name, value);
            }
            request.call().unwrap().status().as_u16()
        });
        assert_eq!(asked.await.unwrap(), expected);
    }
    site.gateway.close().await;
}

#[test]
fn a_bad_file_of_tokens_is_refused_and_not_quoted() {
    let error = |text: &str| Tokens::parse(text, "tokens.json").unwrap_err().to_string();
    insta::assert_snapshot!(error(r#"{"tokens": [{"name": "a", "token": "short"}]}"#), @"tokens.json: token 'a' is shorter than 16 characters: make a longer one");
    insta::assert_snapshot!(error(r#"{"tokens": []}"#), @"tokens.json: it holds no token: add one");
    insta::assert_snapshot!(error(r#"{"tokens": [{"name": "a", "sha256": "12"}]}"#), @"tokens.json: the sha256 of token 'a' is not 64 hexadecimal digits");
    let twice = r#"{"tokens": [{"name": "a", "token": "0123456789abcdef"}, {"name": "b", "token": "0123456789abcdef"}]}"#;
    insta::assert_snapshot!(error(twice), @"tokens.json: token 'b' is there twice: give each its own");
    assert!(
        !error(r#"{"tokens": [{"name": "a", "token": 12345678901234567}]}"#).contains("1234567")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_says_nothing_is_closed() {
    let site = Site::open_with(&Options::default(), json!({"idle": 0.5})).await;
    let id = site.post(&[], hello()).await.2.unwrap();
    let session = ("mcp-session-id", id.as_str());
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"});
    // Each question keeps it open for as long again.
    while site.post(&[session], list.clone()).await.0 != 404 {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    site.gateway.close().await;
}
