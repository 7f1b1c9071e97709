//! What a definition costs, estimated and counted.

use toolrack::{Catalog, EstimatedTokens, TiktokenCounter, TokenCounter as _};

#[test]
fn the_estimate_is_near_the_exact_count() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/tools.json");
    let exact = TiktokenCounter::o200k();
    let (mut estimated, mut counted) = (0, 0);
    for tool in Catalog::read(path).unwrap().snapshot().tools() {
        let text = serde_json::to_string(tool).unwrap();
        estimated += EstimatedTokens.count(&text);
        counted += exact.count(&text);
    }
    let ratio = estimated as f64 / counted as f64;
    println!("{estimated} estimated, {counted} counted, ratio {ratio:.3}");
    assert!((0.95..1.15).contains(&ratio), "{ratio}");
}
