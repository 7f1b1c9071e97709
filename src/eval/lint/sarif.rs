//! Findings for code hosts: SARIF 2.1.0.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::{Finding, Level, LintReport, Rule};

impl LintReport {
    /// The findings as SARIF 2.1.0, which code hosts show beside the lines.
    ///
    /// See <https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html>.
    pub fn to_sarif(&self) -> Value {
        let rules: Vec<Value> = Rule::ALL
            .iter()
            .map(|rule| {
                json!({
                    "id": rule.to_string(),
                    "shortDescription": {"text": rule.about()},
                    "help": {"text": rule.fix()},
                    "defaultConfiguration": {"level": rule.level().to_string()},
                })
            })
            .collect();
        let results: Vec<Value> = self.findings.iter().map(result).collect();
        json!({
            "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
            "version": "2.1.0",
            "runs": [{
                "tool": {"driver": {
                    "name": "toolrack",
                    "version": env!("CARGO_PKG_VERSION"),
                    "rules": rules,
                }},
                "results": results,
            }],
        })
    }
}

fn result(finding: &Finding) -> Value {
    let level = match finding.level {
        Level::Error => "error",
        Level::Warning => "warning",
        Level::Note => "note",
    };
    let mut location = json!({"logicalLocations": [{"fullyQualifiedName": finding.tool}]});
    // Standard input is no artifact that a code host could open.
    if let Some(file) = finding.file.as_ref().filter(|file| Path::new(file).exists()) {
        let mut physical = json!({"artifactLocation": {"uri": uri(file)}});
        if let Some(line) = finding.line {
            physical["region"] = json!({"startLine": line});
        }
        location["physicalLocation"] = physical;
    }
    json!({
        "ruleId": finding.rule.to_string(),
        "level": level,
        "message": {"text": format!("{}: {}. To mend it, {}.", finding.tool, finding.message, finding.fix)},
        "locations": [location],
    })
}

/// The path as a URI (RFC 3986): relative as it is, absolute with its scheme.
fn uri(path: &str) -> String {
    let path = path.replace('\\', "/");
    let is_absolute = Path::new(&path).is_absolute();
    let mut out = String::new();
    if is_absolute {
        out.push_str(if path.starts_with('/') { "file://" } else { "file:///" });
    }
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::uri;

    #[test]
    fn paths_become_uris() {
        assert_eq!(uri("tools/a.json"), "tools/a.json");
        assert_eq!(uri("my tools#1/ä.json"), "my%20tools%231/%C3%A4.json");
        #[cfg(unix)]
        assert_eq!(uri("/data/a b.json"), "file:///data/a%20b.json");
    }
}
