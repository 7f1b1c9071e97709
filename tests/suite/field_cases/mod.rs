//! Small inputs that broke real systems, one test a case.
//!
//! Each case comes from a public thread, which its test names; the tool texts are written for the
//! test. A case runs on the path that a runtime calls: reader, engine, session.

mod a_ranking;
mod b_identity;
mod c_run;
mod d_catalog;
