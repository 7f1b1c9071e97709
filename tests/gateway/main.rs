//! The gateway against a server that misbehaves on demand (`examples/fake_server.rs`).

#![allow(deprecated)]

mod config;
mod downstream;
mod http;
mod modern;
mod support;
mod upstream;
