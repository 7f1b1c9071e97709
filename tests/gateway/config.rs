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

/// As editors write it, and with what single clients have of their own.
#[test]
fn files_of_editors_are_read_as_they_are() {
    let config = parse(
        r#"{
          // Servers of this workspace.
          "inputs": [{"type": "promptString", "id": "key", "password": true}],
          "servers": {
            "local": {
              "type": "stdio", "command": "${workspaceFolder}/run", "args": ["${userHome}"], /* here */
              "gallery": true, "autoApprove": ["x"], "alwaysAllow": [], "timeout": 60, "dev": {},
              "disabledTools": ["drop*"],
            },
            "windsurf": {"serverUrl": "https://h/mcp"},
            "gemini": {"httpUrl": "https://h/mcp", "includeTools": ["a"], "excludeTools": ["b"]},
            "off": {"command": "x", "enabled": false},
          },
        }"#,
    )
    .unwrap();
    let [gemini, local, off, windsurf] = &config.servers[..] else { panic!() };
    let Target::Stdio { command, args, .. } = &local.target else { panic!() };
    let here = std::env::current_dir().unwrap();
    assert_eq!(command, &format!("{}/run", here.display()));
    assert_eq!(args, &["/home/ada"]);
    assert!(matches!(&windsurf.target, Target::Http { url, .. } if url == "https://h/mcp"));
    assert!(off.disabled && !local.disabled);
    // Names there are no patterns, as they are none in those clients.
    assert!(!local.settings.allows("local", "drop*") && local.settings.allows("local", "drop_all"));
    assert!(gemini.settings.allows("gemini", "a") && !gemini.settings.allows("gemini", "c"));
}

#[test]
fn the_folder_of_the_work_is_the_one_around_the_editors_own() {
    let folder = tempfile::tempdir().unwrap();
    let text = r#"{"servers": {"a": {"command": "${workspaceFolder}/x"}}}"#;
    for own in [".vscode", ".cursor", "."] {
        std::fs::create_dir_all(folder.path().join(own)).unwrap();
        let path = folder.path().join(own).join("mcp.json");
        std::fs::write(&path, text).unwrap();
        let config = Config::read(path).unwrap();
        let Target::Stdio { command, .. } = &config.servers[0].target else { panic!() };
        assert_eq!(*command, folder.path().join("x").display().to_string());
    }
}

#[test]
fn variables_may_stand_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(".env");
    let lines = "# keys\nA=1\nexport B = \"two words\"\n\nC='x=y'\nD=\nnothing\n";
    std::fs::write(&file, lines).unwrap();
    let config = |file: &str| {
        let text = r#"{"servers": {"a": {"command": "x", "envFile": "FILE", "env": {"A": "2"}}}}"#;
        parse(&text.replace("FILE", file))
    };
    let config_of = config(file.to_str().unwrap()).unwrap();
    let Target::Stdio { env, .. } = &config_of.servers[0].target else { panic!() };
    let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(env, [("A", "2"), ("B", "two words"), ("C", "x=y"), ("D", "")]);
    let error = config("/no/such/file").unwrap_err().to_string();
    assert_eq!(error, "cannot read /no/such/file: give a readable file");
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
    assert_eq!(settings.options.mode, Some(Mode::Bridge));
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
    let config = of(
        "[session]\ncore = ['a/read']\n[policy]\nnamespaces = ['a']\n[gateway]\nmode = 'auto'\n\
         http = '8080'\nstate = 'kept.json'\ndeny = ['*/drop']\n[gateway.timeouts]\ncall = 2\n\
         [gateway.mcp_servers.a]\ncommand = 'x'\nargs = ['y']\n",
    )
    .unwrap();
    let (server, settings) = (&config.servers[0], &config.settings);
    assert!(!server.settings.allows("a", "drop"));
    assert_eq!(server.settings.timeouts.call.as_secs(), 2);
    assert_eq!((settings.options.mode, settings.session.core.len()), (None, 1));
    assert_eq!(settings.options.http, "127.0.0.1:8080".parse().ok());
    assert!(!format!("{:?}", settings.session.context).contains("namespaces: None"));
    let error = |text: &str| of(text).unwrap_err().to_string();
    insta::assert_snapshot!(error("[gateway]\ndenied = []"), @"toolrack.toml, line 2: unknown key 'gateway.denied': did you mean 'deny'?");
    insta::assert_snapshot!(error("[gateway.servers.a]\ndenied = []"), @"toolrack.toml: gateway.servers.a has an unknown key 'denied': known are allow, deny, risk, timeouts, restart");
    insta::assert_snapshot!(error("[gateway]\nhttp = 'here'"), @"toolrack.toml: gateway.http is not an address like 127.0.0.1:8080: correct it");
    insta::assert_snapshot!(error("[gateway]\nconfig = 'a.json'\n[gateway.mcp_servers]"), @"toolrack.toml: gateway has both 'config' and 'mcp_servers': keep one");
    insta::assert_snapshot!(error("[gateway]\nconfig = 'nowhere.json'"), @"cannot read nowhere.json: give a readable file");
}

fn of(text: &str) -> toolrack::Result<Config> {
    Config::of(&toolrack::Config::parse(text, "toolrack.toml")?, "toolrack.toml")
}

#[test]
fn toml_and_json_may_share_the_work_but_not_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let read = || {
        let settings = toolrack::Config::read(folder.path().join("toolrack.toml"))?;
        Config::of(&settings, "toolrack.toml")
    };
    write("toolrack.toml", "[gateway]\nconfig = 'mcp.json'\nstate = 'kept.json'\n");
    write("mcp.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    let config = read().unwrap();
    assert_eq!(config.servers[0].name, "a");
    assert_eq!(config.settings.options.state, Some(folder.path().join("kept.json")));
    write("mcp.json", r#"{"mcpServers": {}, "toolrack": {"limit": 3}}"#);
    let error = read().unwrap_err().to_string();
    assert!(error.ends_with("beside the table 'gateway' of toolrack.toml: keep one"), "{error}");
}

/// What the gateway reads is what `toolrack config` tells of.
#[test]
fn every_key_of_the_toml_table_is_documented() {
    let wrong = r#"{"mcpServers": {}, "toolrack": {"zzzzzzzzzzzz": 1}}"#;
    let known = error(wrong);
    let known = known.split("known are ").nth(1).unwrap().split(", ");
    let json_only = ["core", "limit", "budget", "find", "whole"];
    let template = toolrack::Config::template();
    let section = template.split("\n[gateway]\n").nth(1).unwrap();
    for key in known.filter(|key| !json_only.contains(key)) {
        let told = [format!("# {key} = "), format!("# {key}."), format!("[gateway.{key}]")];
        assert!(told.iter().any(|told| section.contains(told)), "{key}");
    }
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
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"command": "x", "env": {"K": "${input:key}"}}}}"#), @"mcp.json: mcpServers.a.env.K asks for the input 'key', which only its editor can ask for: set an environment variable and write ${env:NAME}");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"type": "sse", "url": "http://h"}}}"#), @"mcp.json: mcpServers.a has type 'sse', which MCP has given up: use the server's streamable HTTP address and type 'http'");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"type": "http", "command": "x"}}}"#), @"mcp.json: mcpServers.a has type 'http' but no 'url': add it");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a": {"type": "tcp", "command": "x"}}}"#), @"mcp.json: mcpServers.a has the unknown type 'tcp': use 'stdio' or 'http'");
    insta::assert_snapshot!(error(r#"{"mcpServers": {"a/b": {"command": "x"}}}"#), @"mcp.json: mcpServers.a/b needs a name without '/': rename it");
    let own = |own: &str| error(&format!(r#"{{"mcpServers": {{}}, "toolrack": {own}}}"#));
    insta::assert_snapshot!(own(r#"{"timeout": {}}"#), @"mcp.json: toolrack has an unknown key 'timeout': did you mean 'timeouts'?");
    insta::assert_snapshot!(own(r#"{"timeouts": {"reading": 1}}"#), @"mcp.json: toolrack.timeouts has an unknown key 'reading': known are connect, list, call");
    insta::assert_snapshot!(own(r#"{"mode": "both"}"#), @"mcp.json: toolrack.mode is not 'list', 'bridge' or 'auto': correct it");
    insta::assert_snapshot!(own(r#"{"limit": 0}"#), @"mcp.json: toolrack.limit is not a whole number of at least 1: correct it");
    insta::assert_snapshot!(own(r#"{"deny": ["[a"]}"#), @"mcp.json: toolrack holds '[a', which is no pattern: use *, ? and [..]");
    insta::assert_snapshot!(own(r#"{"risk": {"*": "bad"}}"#), @"mcp.json: toolrack.risk.* is not 'read', 'write' or 'destructive': correct it");
    insta::assert_snapshot!(own(r#"{"servers": {"b": {}}}"#), @"mcp.json has no server 'b', for which there are settings: name one that is there");
}
