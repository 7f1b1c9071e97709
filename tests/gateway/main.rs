//! The gateway against a server that misbehaves on demand (`examples/fake_server.rs`).

#![allow(deprecated, clippy::unwrap_used, clippy::expect_used, clippy::panic, unreachable_pub)]

mod config;
mod downstream;
mod field_cases;
mod http;
mod modern;
#[cfg(feature = "cli")]
mod readme;
#[cfg(feature = "cli")]
mod serve;
mod support;
mod upstream;
