//! Manifold: one MCP endpoint in front of many MCP servers.
//!
//! The binary: command line, wiring, the admin listener, drain. Everything else is in the libraries.

mod admin;
mod check;
mod cli;
mod drain;
mod observe;
mod serve;
mod startup;
mod status;
mod surroundings;
mod wiring;

use std::process::ExitCode;

#[cfg(feature = "mimalloc")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::run()
}
