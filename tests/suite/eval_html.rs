//! The HTML report in a browser.

use std::path::PathBuf;
use std::process::Command;

use toolrack::StaticEmbedder;
use toolrack::eval::{Dataset, EngineSettings, EvalOptions, System, evaluate};

use crate::eval_shared::registry61;

fn page() -> String {
    let registry = Dataset::read(registry61()).unwrap();
    let odd = Dataset::parse(
        "odd <set> & \"more\"",
        r#"[{"name": "a|b<script>", "description": "Send a letter."}, {"name": "c", "description": "Read."}]"#,
        r#"{"id": "1<", "query": "read <b>it</b>", "tools": ["a|b<script>"]}
{"id": "2", "query": "cook soup on the moon", "tools": []}"#,
    )
    .unwrap();
    let hybrid = EngineSettings::with_embedder(StaticEmbedder::bundled());
    let systems = [System::engine("<hybrid>", hybrid), System::jaccard(), System::bm25()];
    let options = EvalOptions::default();
    let report = evaluate(&[registry, odd], &systems, &options, &mut |_| {}).unwrap();
    report.to_html("Retrieval on <two> datasets")
}

/// A browser on the path; `None`, with a note, when there is none. With
/// `TOOLRACK_REQUIRE_CHROMIUM=1` that is a failure.
fn browser() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|file| file.is_file());
    if found.is_none() {
        let required = std::env::var("TOOLRACK_REQUIRE_CHROMIUM").is_ok_and(|value| value == "1");
        assert!(!required, "no browser is on the path");
        eprintln!("SKIPPED the_page_opens_in_a_browser: no Chromium is on the path");
    }
    found
}

#[test]
fn the_page_needs_nothing_but_itself_and_can_be_read_by_keyboard() {
    let page = page();
    for outside in ["<script", "http://", "https://", "<link", "@import", "url(", "<img"] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("Retrieval on &lt;two&gt; datasets"));
    assert!(page.contains("&lt;hybrid&gt;") && !page.contains("<hybrid>"));
    assert!(page.contains("prefers-color-scheme:dark"));
    // Every line of every chart takes the focus and says its numbers.
    let lines = page.matches("<g class=\"series s").count();
    let reachable = page.matches("tabindex=0 role=img aria-label=").count();
    assert!(lines >= 12 && reachable >= lines, "{lines} {reachable}");
    assert!(page.contains("<a class=skip href=#main>"));
    // On a narrow page charts keep a size at which they can be read, and scroll.
    assert!(page.contains("@media(max-width:40rem){figure{overflow-x:auto}figure>svg{min-width:"));
    // Of the set with a request that nothing fits the sweep tells what is refused.
    assert_eq!(page.matches("aria-label=\"no-match recall: ").count(), 1);
    let first = page.find("<figcaption>").unwrap();
    assert!(page[first..].starts_with("<figcaption>Recall against tokens sent"));
}

#[test]
fn the_page_opens_in_a_browser() {
    let Some(browser) = browser() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("page.html");
    std::fs::write(&file, page()).unwrap();
    let profile = format!("--user-data-dir={}", folder.path().join("profile").display());
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", &profile])
        .arg(format!("file://{}", file.display()))
        .output()
        .unwrap();
    let dom = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // What was not closed or quoted right would swallow what follows it.
    assert!(dom.contains("<h2 id=\"d1\">odd &lt;set&gt; &amp; \"more\"</h2>"), "{dom}");
    assert_eq!(dom.matches("<main").count(), 1);
    assert!(dom.matches("<svg viewBox=\"0 0 720").count() >= 7);
    assert_eq!(dom.matches("</main>").count(), 1);
    assert!(dom.trim_end().ends_with("</html>"), "{dom}");
}
