//! The command `toolrack`, as a user starts it.

use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};

use rmcp::RoleClient;
use rmcp::service::{RunningService, serve_client};
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::process::{Child, Command};

use crate::support::{Listener, call, fake, text};

const PROGRAM: &str = env!("CARGO_BIN_EXE_toolrack");

/// A file `mcp.json` in `folder` with one fake server, which is given `args` and `env`.
fn write(folder: &Path, args: &[&str], env: Value) {
    let server = json!({"command": fake(), "args": args, "env": env});
    let config = json!({"mcpServers": {"a": server}});
    std::fs::write(folder.join("mcp.json"), config.to_string()).unwrap();
}

async fn ran(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(PROGRAM);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.output().await.unwrap()
}

/// `toolrack serve` with a client on its standard streams.
struct Served {
    process: Child,
    client: RunningService<RoleClient, Listener>,
    told: Arc<Mutex<String>>,
    reading: tokio::task::JoinHandle<()>,
}

impl Served {
    async fn start(folder: &Path, config: &str, arguments: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Command::new(PROGRAM);
        command.args(["serve", "--config", config]).args(arguments).envs(env.iter().copied());
        command.current_dir(folder).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut stderr = process.stderr.take().unwrap();
        let told = Arc::new(Mutex::new(String::new()));
        let reading = tokio::spawn({
            let told = Arc::clone(&told);
            async move {
                let mut bytes = vec![0; 4096];
                while let Ok(read @ 1..) = stderr.read(&mut bytes).await {
                    told.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..read]));
                }
            }
        });
        let transport = AsyncRwTransport::new_client(output, input);
        let client = serve_client(Listener::named("test"), transport).await.unwrap();
        Self { process, client, told, reading }
    }

    /// Waits until the server's tools are there.
    async fn ready(&self) {
        while text(&call(&self.client, "find_tool", json!({"names": ["a/echo"]})).await.unwrap())
            .contains("no tool")
        {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// Tells the process to end; what it said on standard error.
    async fn end(self) -> String {
        self.end_by("-TERM").await
    }

    async fn end_by(mut self, signal: &str) -> String {
        let pid = self.process.id().unwrap().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().await.unwrap().success());
        let status = self.process.wait().await.unwrap();
        self.reading.await.unwrap();
        let told = self.told.lock().unwrap().clone();
        assert_eq!(status.code(), Some(0), "{told}");
        told
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_serves_tells_what_happens_and_ends_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let mark = folder.path().file_name().unwrap().to_str().unwrap();
    write(folder.path(), &["--tools", "34", "--prefix", mark], json!({}));
    let served = Served::start(folder.path(), "mcp.json", &["--mode", "bridge"], &[]).await;
    let names: Vec<String> = served
        .client
        .list_all_tools()
        .await
        .unwrap()
        .into_iter()
        .map(|tool| tool.name.to_string())
        .collect();
    assert_eq!(names, ["find_tool", "describe_tool", "call_tool"]);
    served.ready().await;
    call(&served.client, "find_tool", json!({"names": ["a/pid"]})).await.unwrap();
    let pid = call(&served.client, "call_tool", json!({"name": "a__pid"})).await.unwrap();
    let pid: u32 = text(&pid).parse().unwrap();
    assert!(crate::support::runs(pid));
    let told = served.end().await;
    assert!(!crate::support::runs(pid));
    let version = env!("CARGO_PKG_VERSION");
    assert!(
        told.starts_with(&format!("toolrack {version} serves 1 server of mcp.json\n")),
        "{told}"
    );
    assert!(told.contains("a: connected, "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn however_it_ends_no_server_is_left() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &["--tools", "34"], json!({}));
    for how in ["-TERM", "-INT", "-HUP", "closed input"] {
        let served = Served::start(folder.path(), "mcp.json", &["--mode", "bridge"], &[]).await;
        served.ready().await;
        call(&served.client, "find_tool", json!({"names": ["a/pid"]})).await.unwrap();
        let pid = call(&served.client, "call_tool", json!({"name": "a__pid"})).await.unwrap();
        let pid: u32 = text(&pid).parse().unwrap();
        assert!(crate::support::runs(pid), "{how}");
        if how == "closed input" {
            let Served { mut process, client, .. } = served;
            // The client closes what the gateway reads, and says nothing more.
            client.cancel().await.unwrap();
            let ended = tokio::time::timeout(std::time::Duration::from_secs(20), process.wait());
            assert!(ended.await.expect("it ends").unwrap().success());
        } else {
            served.end_by(how).await;
        }
        assert!(!crate::support::runs(pid), "{how}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_said_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let error = async |arguments: &[&str]| {
        let ran = ran(folder.path(), &[&["serve"], arguments].concat()).await;
        assert_eq!((ran.status.code(), ran.stdout.len()), (Some(2), 0));
        String::from_utf8(ran.stderr).unwrap()
    };
    write("broken.json", "{\"mcpServers\": {");
    write("empty.json", "{\"mcpServers\": {}}");
    write("good.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    write("wrong.toml", "[gateway]\nconfig = \"good.json\"\nmood = \"list\"\n");
    write("none.toml", "[gateway]\nmode = \"list\"\n");
    insta::assert_snapshot!(error(&[]).await, @"error: no servers are given: name the file of your MCP client, as in toolrack serve --config mcp.json");
    insta::assert_snapshot!(error(&["--config", "nowhere.json"]).await, @r"
    error: cannot read nowhere.json: give a readable file
      because: No such file or directory (os error 2)
    ");
    insta::assert_snapshot!(error(&["--config", "broken.json"]).await, @r#"error: broken.json is not a JSON object: EOF while parsing an object at line 1 column 16; write {"mcpServers": {}}"#);
    insta::assert_snapshot!(error(&["--config", "empty.json"]).await, @"error: empty.json names no server: add one under 'mcpServers'");
    insta::assert_snapshot!(error(&["--config", "none.toml"]).await, @"error: none.toml names no server: set gateway.config to the file of your MCP client");
    insta::assert_snapshot!(error(&["--config", "wrong.toml"]).await, @"error: wrong.toml, line 3: unknown key 'gateway.mood': did you mean 'mode'?");
    let beyond = error(&["--config", "good.json", "--http", "0.0.0.0:0"]).await;
    assert!(
        beyond.ends_with("without authentication: give a file of tokens or listen at 127.0.0.1\n"),
        "{beyond}"
    );
    let address = error(&["--config", "good.json", "--http", "here"]).await;
    assert!(address.contains("write an address like 127.0.0.1:8080, or a port"), "{address}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clients_configuration_is_a_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let config = json!({"mcpServers": {
        "a": {"command": fake(), "args": ["--tools", "3", "--prefix", "alpha"]},
        "b": {"command": "/no/such/program"},
    }});
    std::fs::write(folder.path().join("mcp.json"), config.to_string()).unwrap();
    std::fs::write(folder.path().join("more.json"), r#"[{"name": "send"}]"#).unwrap();
    let listed = ran(folder.path(), &["list", "mcp.json", "more.json"]).await;
    let (out, err) =
        (String::from_utf8_lossy(&listed.stdout), String::from_utf8_lossy(&listed.stderr));
    assert!(out.contains("a/alpha_2") && out.contains("more/send"), "{out}{err}");
    assert!(err.contains("left out: server 'b': ") && err.contains("/no/such/program"), "{err}");
    let checked = ran(folder.path(), &["config", "--check", "mcp.json"]).await;
    insta::assert_snapshot!(String::from_utf8_lossy(&checked.stdout), @"mcp.json is valid (servers: a, b).");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_toml_holds_engine_session_and_servers() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "[engine]\nembedder = 'none'\n[session]\ncore = ['a/echo']\npass_through = 0\n[gateway]\n\
         mode = 'list'\n[gateway.mcp_servers.a]\ncommand = '{}'\nargs = ['--tools', '30']\n",
        fake().display()
    );
    std::fs::write(folder.path().join("mcp.toml"), text).unwrap();
    let served = Served::start(folder.path(), "mcp.toml", &[], &[]).await;
    served.ready().await;
    let tools = served.client.list_all_tools().await.unwrap();
    assert_eq!(tools[0].name, "a__echo");
    served.end().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_is_in_a_log() {
    const SECRET: &str = "s3cr3t-of-the-configuration";
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[], json!({"SECRET": SECRET}));
    let served = Served::start(folder.path(), "mcp.json", &[], &[("TOOLRACK_LOG", "trace")]).await;
    served.ready().await;
    let told =
        call(&served.client, "call_tool", json!({"name": "a__echo", "arguments": {"tell": true}}));
    assert_eq!(text(&told.await.unwrap()), "told");
    let log = served.end().await;
    assert!(log.contains("my secret is ***"), "{log}");
    assert!(log.contains("it prints what is no JSON"), "{log}");
    assert!(!log.contains(SECRET), "{log}");
}

/// A server that quotes in its refusal what it was sent, as some do.
fn telltale() -> String {
    use std::io::{BufRead as _, BufReader, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            while reader.read_line(&mut head).unwrap() > 2 {}
            let body =
                json!({"jsonrpc": "2.0", "id": 0, "error": {"code": -32000, "message": head}});
            let body = body.to_string();
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\
                 connection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn no_secret_of_http_is_in_a_log() {
    let secrets = ["s3cr3t-of-the-header", "s3cr3t-of-the-address", "s3cr3t-of-the-client"];
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, value: Value| {
        std::fs::write(folder.path().join(name), value.to_string()).unwrap();
    };
    let url = format!("{}/mcp?key={}", telltale(), secrets[1]);
    let headers = json!({"Authorization": format!("Bearer {}", secrets[0])});
    file("mcp.json", json!({"mcpServers": {"far": {"url": url, "headers": headers}}}));
    file("tokens.json", json!({"tokens": [{"name": "ada", "token": secrets[2]}]}));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(PROGRAM);
    command.args(["serve", "--config", "mcp.json", "--tokens", "tokens.json", "--http"]);
    command.arg(port.to_string()).env("TOOLRACK_LOG", "trace").current_dir(folder.path());
    command.stdin(Stdio::null()).stdout(Stdio::null()).kill_on_drop(true);
    let log = folder.path().join("log");
    command.stderr(std::fs::File::create(&log).unwrap());
    let mut process = command.spawn().unwrap();
    let secret = secrets[2].to_owned();
    let status = tokio::task::spawn_blocking(move || {
        let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-06-18", "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"}}});
        for _ in 0..400 {
            std::thread::sleep(std::time::Duration::from_millis(50));
            let asked = ureq::post(format!("http://127.0.0.1:{port}/mcp"))
                .header("authorization", format!("Bearer {secret}"))
                .header("accept", "application/json, text/event-stream")
                .send_json(&hello);
            if let Ok(answer) = asked {
                return answer.status().as_u16();
            }
        }
        0
    });
    assert_eq!(status.await.unwrap(), 200);
    let written = || std::fs::read_to_string(&log).unwrap();
    while !written().contains("trying again") {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    process.kill().await.unwrap();
    let log = written();
    assert!(log.contains("it refused the handshake: POST "), "{log}");
    for secret in secrets {
        assert!(!log.contains(secret), "{secret} is in\n{log}");
    }
}

/// A collector of spans: answers every request and keeps what it was sent.
#[cfg(feature = "otel")]
fn collector() -> (String, Arc<Mutex<Vec<u8>>>) {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&kept);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            while reader.read_line(&mut head).unwrap() > 2 {
                let line = head.lines().last().unwrap_or_default().to_lowercase();
                if let Some(value) = line.strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
            }
            assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            keep.lock().unwrap().extend(body);
            let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    (address, kept)
}

#[cfg(feature = "otel")]
#[tokio::test(flavor = "multi_thread")]
async fn spans_go_to_a_collector() {
    let (address, kept) = collector();
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &["--tools", "34"], json!({}));
    let served =
        Served::start(folder.path(), "mcp.json", &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &address)])
            .await;
    served.ready().await;
    let wish = json!({"intent": "whisper-of-the-user to be echoed"});
    call(&served.client, "find_tool", wish).await.unwrap();
    let echo = json!({"name": "a__echo", "arguments": {"text": "whisper-of-the-user"}});
    call(&served.client, "call_tool", echo).await.unwrap();
    served.end().await;
    let kept = kept.lock().unwrap().clone();
    let holds = |text: &str| kept.windows(text.len()).any(|part| part == text.as_bytes());
    for name in ["toolrack", "tools/call", "find_tool", "select", "call", "outcome"] {
        assert!(holds(name), "{name}: {}", String::from_utf8_lossy(&kept));
    }
    assert!(!holds("whisper-of-the-user"));
}
