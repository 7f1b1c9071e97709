//! Clients of the protocol of 2026-07-28: no handshake, no sessions over HTTP, questions between
//! requests.

use rmcp::RoleClient;
use rmcp::model::{
    CallToolRequestParams, JsonObject, ProtocolVersion, ServerNotification, SubscriptionFilter,
};
use rmcp::service::{ClientLifecycleMode, RunningService, serve_client_with_lifecycle};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use toolrack::gateway::{Gateway, Options};

use crate::support::{Listener, config, engine, text};

const SERVERS: &[(&str, &[&str])] = &[
    ("a", &["--tools", "14", "--prefix", "alpha"]),
    ("b", &["--tools", "20", "--prefix", "beta"]),
];

type Client = RunningService<RoleClient, Listener>;

fn discover() -> ClientLifecycleMode {
    ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
}

fn gateway() -> Gateway {
    Gateway::new(engine(), config(SERVERS, json!({})), &Options::default()).unwrap()
}

async fn ready(gateway: &Gateway) {
    while gateway.status().iter().any(|status| status.indexed == 0) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn over_streams(gateway: &Gateway) -> Client {
    let (near, far) = tokio::io::duplex(64 * 1024);
    let serving = gateway.clone();
    tokio::spawn(async move {
        let (input, output) = tokio::io::split(far);
        serving.serve_streams(input, output).await
    });
    let (input, output) = tokio::io::split(near);
    let transport = AsyncRwTransport::new_client(input, output);
    serve_client_with_lifecycle(Listener::named("modern"), transport, discover()).await.unwrap()
}

async fn over_http(gateway: &Gateway) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let serving = gateway.clone();
    tokio::spawn(async move { serving.serve_http(listener).await });
    let config = StreamableHttpClientTransportConfig::with_uri(url);
    let transport = StreamableHttpClientTransport::from_config(config);
    serve_client_with_lifecycle(Listener::named("modern"), transport, discover()).await.unwrap()
}

/// Calls a tool, answering what is asked in between.
async fn call(client: &Client, name: &str, arguments: Value) -> String {
    let arguments: JsonObject = serde_json::from_value(arguments).unwrap();
    let params = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments);
    text(&client.call_tool(params).await.unwrap())
}

async fn names(client: &Client) -> Vec<String> {
    let tools = client.list_tools(None).await.unwrap().tools;
    tools.iter().map(|tool| tool.name.to_string()).collect()
}

const QUESTIONS: [(&str, &str); 3] = [
    ("roots/list", "file:///here"),
    ("elicitation/create", "Ada"),
    ("sampling/createMessage", "a-model"),
];

#[tokio::test(flavor = "multi_thread")]
async fn streams_keep_a_working_set_and_announce_to_who_listens() {
    let gateway = gateway();
    let client = over_streams(&gateway).await;
    assert_eq!(names(&client).await[..2], ["find_tool", "call_tool"]);
    ready(&gateway).await;
    let filter = SubscriptionFilter::builder().tools_list_changed().build();
    let mut changes = client.listen(filter).await.unwrap();
    call(&client, "find_tool", json!({"names": ["b__beta_9", "a__ask"]})).await;
    let change = changes.next().await.unwrap().unwrap();
    assert!(matches!(change, ServerNotification::ToolListChangedNotification(_)));
    assert!(names(&client).await.contains(&"b__beta_9".to_owned()));
    assert!(call(&client, "b__beta_9", json!({"text": "x"})).await.starts_with("beta_9"));
    for (method, answer) in QUESTIONS {
        let said = call(&client, "a__ask", json!({"text": method})).await;
        assert!(said.contains(answer), "{method}: {said}");
    }
    gateway.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http_without_sessions_is_bridged() {
    let gateway = gateway();
    let client = over_http(&gateway).await;
    ready(&gateway).await;
    assert_eq!(names(&client).await, ["find_tool", "describe_tool", "call_tool"]);
    let found = call(&client, "find_tool", json!({"intent": "the tool beta_7"})).await;
    assert!(found.contains("b__beta_7") && found.contains("inputSchema"), "{found}");
    let arguments = json!({"name": "b__beta_7", "arguments": {"text": "x"}});
    assert!(call(&client, "call_tool", arguments).await.starts_with("beta_7"));
    for (method, answer) in QUESTIONS {
        let arguments = json!({"name": "a__ask", "arguments": {"text": method}});
        let said = call(&client, "call_tool", arguments).await;
        assert!(said.contains(answer), "{method}: {said}");
    }
    gateway.close().await;
}
