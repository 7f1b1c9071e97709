//! What a configuration says, and what errors say of it.

use toolrack::Risk;
use toolrack::gateway::{Config, Mode, Target};

fn parse(text: &str) -> toolrack::Result<Config> {
    let lookup = |name: &str| (name == "HOME").then(|| "/home/ada".to_owned());
    Config::parse_with(text, "mcp.json", &lookup)
}

fn error(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn servers_of_all_kinds_are_read() {
    let config = parse(
        r#"{
          "mcpServers": {
            "files": {"command": "${HOME}/bin/files", "args": ["--root", "${ROOT:-/data}"],
                      "env": {"TOKEN": "${env:HOME}", "N": 3}, "cwd": "/tmp", "alwaysAllow": ["x"]},
            "search": {"type": "streamable-http", "url": "https://example.com/mcp",
                       "headers": {"Authorization": "Bearer ${HOME}"}},
            "off": {"command": "x", "disabled": true, "toolrack": "of another program"}
          },
          "inputs": []
        }"#,
    )
    .unwrap();
    let names: Vec<&str> = config.servers.iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["files", "off", "search"]);
    let Target::Stdio { command, args, env, cwd } = &config.servers[0].target else { panic!() };
    assert_eq!((command.as_str(), args[1].as_str()), ("/home/ada/bin/files", "/data"));
    assert_eq!((env["TOKEN"].as_str(), env["N"].as_str()), ("/home/ada", "3"));
    assert_eq!(cwd.as_deref(), Some(std::path::Path::new("/tmp")));
    assert!(config.servers[1].disabled);
    let Target::Http { headers, .. } = &config.servers[2].target else { panic!() };
    assert_eq!(headers["Authorization"], "Bearer /home/ada");
    // What may be secret is in no debug output.
    assert!(!format!("{config:?}").contains("/home/ada\""));
    assert!(!format!("{config:?}").contains("Bearer"));
}

#[test]
fn the_key_of_vs_code_is_understood() {
    assert_eq!(parse(r#"{"servers": {"a": {"command": "x"}}}"#).unwrap().servers.len(), 1);
}

#[test]
fn our_own_section_is_read() {
    let config = parse(
        r#"{
          "mcpServers": {"git": {"command": "x"}, "mail": {"command": "y"}},
          "toolrack": {
            "mode": "bridge", "core": ["git/status"], "limit": 7, "find": 3, "idle": 60,
            "deny": ["*/drop_*"], "risk": {"mail/*": "write"}, "timeouts": {"call": 1.5},
            "servers": {"git": {"allow": ["status", "log*"], "risk": {"log*": "destructive"}}}
          }
        }"#,
    )
    .unwrap();
    let settings = &config.settings;
    assert_eq!(settings.mode, Some(Mode::Bridge));
    assert_eq!((settings.session.working_set.limit, settings.session.find_limit), (7, 3));
    let (git, mail) = (&config.servers[0].settings, &config.servers[1].settings);
    assert_eq!(git.timeouts.call.as_secs_f64(), 1.5);
    assert!(git.allows("git", "log_all") && !git.allows("git", "push"));
    assert!(mail.allows("mail", "send") && !mail.allows("mail", "drop_box"));
    assert_eq!(git.risk("git", "log"), Some(Risk::Destructive));
    assert_eq!((git.risk("git", "status"), mail.risk("mail", "x")), (None, Some(Risk::Write)));
}

#[test]
fn the_table_of_the_toml_configuration_is_read_alike() {
    let table = "deny = ['*/drop']\n[timeouts]\ncall = 2\n".parse::<toml::Table>().unwrap();
    let settings = toolrack::gateway::Settings::from_toml(&table, "toolrack.toml").unwrap();
    assert!(!settings.general.allows("a", "drop"));
    let wrong = "denied = []".parse::<toml::Table>().unwrap();
    let error = toolrack::gateway::Settings::from_toml(&wrong, "toolrack.toml").unwrap_err();
    insta::assert_snapshot!(error, @"toolrack.toml: gateway has an unknown key 'denied': did you mean 'deny'?");
}

#[test]
fn an_empty_allow_list_allows_nothing() {
    let config =
        parse(r#"{"mcpServers": {"a": {"command": "x"}}, "toolrack": {"allow": []}}"#).unwrap();
    assert!(!config.servers[0].settings.allows("a", "b"));
}

#[test]
fn errors_name_file_server_and_field() {
    insta::assert_snapshot!(error("[]"), @"mcp.json is not a JSON object: invalid type: sequence, expected a map at line 1 column 0; write {\"mcpServers\": {}}");
    insta::assert_snapshot!(error("{}"), @"mcp.json has no 'mcpServers': add the object that your MCP client uses");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {}}}"#), @"mcp.json: mcpServers.a has neither 'command' nor 'url': add one");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"command": "x", "url": "http://h"}}}"#), @"mcp.json: mcpServers.a has both 'command' and 'url': keep one");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"command": "x", "args": "y"}}}"#), @"mcp.json: mcpServers.a.args is not a list of strings: correct it");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"command": "x", "env": {"K": []}}}}"#), @"mcp.json: mcpServers.a.env.K is not a string: correct it");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"command": "${NOPE}"}}}"#), @"mcp.json: mcpServers.a.command needs the environment variable 'NOPE', which is not set: set it or write ${NOPE:-fallback}");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"type": "sse", "url": "http://h"}}}"#), @"mcp.json: mcpServers.a has type 'sse', which MCP has given up: use the server's streamable HTTP address and type 'http'");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"type": "http", "command": "x"}}}"#), @"mcp.json: mcpServers.a has type 'http' but no 'url': add it");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"type": "tcp", "command": "x"}}}"#), @"mcp.json: mcpServers.a has the unknown type 'tcp': use 'stdio' or 'http'");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a/b": {"command": "x"}}}"#), @"mcp.json: mcpServers.a/b needs a name without '/': rename it");
    let own = |own: &str| error(&format!(r#"{{"mcpServers": {{}}, "toolrack": {own}}}"#));
    insta::assert_snapshot!(own(r#"{"timeout": {}}"#), @"mcp.json: toolrack has an unknown key 'timeout': did you mean 'timeouts'?");
    insta::assert_snapshot!(own(r#"{"timeouts": {"reading": 1}}"#), @"mcp.json: toolrack.timeouts has an unknown key 'reading': known are connect, list, call");
    insta::assert_snapshot!(own(r#"{"mode": "both"}"#), @"mcp.json: toolrack.mode is not 'list' or 'bridge': correct it");
    insta::assert_snapshot!(own(r#"{"limit": 0}"#), @"mcp.json: toolrack.limit is not a whole number of at least 1: correct it");
    insta::assert_snapshot!(own(r#"{"deny": ["[a"]}"#), @"mcp.json: toolrack holds '[a', which is no pattern: use *, ? and [..]");
    insta::assert_snapshot!(own(r#"{"risk": {"*": "bad"}}"#), @"mcp.json: toolrack.risk.* is not 'read', 'write' or 'destructive': correct it");
    insta::assert_snapshot!(own(r#"{"servers": {"b": {}}}"#), @"mcp.json: toolrack.servers names 'b', which is no server: name one of 'mcpServers'");
}
