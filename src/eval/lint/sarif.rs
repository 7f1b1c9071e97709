//! Findings for code hosts: SARIF 2.1.0.

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
    if let Some(file) = &finding.file {
        let mut physical = json!({"artifactLocation": {"uri": file.replace('\\', "/")}});
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
