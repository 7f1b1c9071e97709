//! Rendering a visible list for a provider, and reading its calls.
//!
//! Every adapter has the same two functions: `tools` renders a list (a [`Turn`](crate::Turn) or a
//! [`Visible`]) and `calls` reads the calls out of what the model answered. The bytes of a tool
//! depend on nothing but its definition, and a list only ever grows at its end within an epoch. A
//! definition that came in the adapter's own shape goes out as it came, unknown fields included.
//!
//! The bug that users hit most: the list has to be rendered anew after
//! [`find_tool`](crate::Session::find_tool). A runtime that renders once a turn tells the model that
//! a tool is loaded and then does not send it.

mod list;
pub mod openai;

pub use list::ToolList;

use crate::session::Visible;
