//! The command line.

use std::{ffi::OsStr, io::Write, net::SocketAddr, path::PathBuf, process::ExitCode};

use anyhow::Context;
use clap::{Parser, Subcommand, ValueEnum};
use manifold_config::{Config, parse_address};
use manifold_example_server::Eras;

use crate::{check, serve, surroundings::Process, wiring};

/// Bad usage, or a configuration that can't be used.
const USAGE: u8 = 2;

#[derive(Debug, Parser)]
#[command(
    name = "manifold",
    version,
    about = "One MCP endpoint in front of many MCP servers."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the gateway.
    Serve {
        #[command(flatten)]
        config: ConfigFile,
        /// Listen for clients here instead of `listen.address`.
        #[arg(long, value_name = "ADDR")]
        listen: Option<String>,
        /// Listen for operators here instead of `admin.address`.
        #[arg(long, value_name = "ADDR")]
        admin: Option<String>,
    },
    /// Print every problem of a configuration with its place.
    Check {
        #[command(flatten)]
        config: ConfigFile,
        /// Also start every server, print what it speaks and lists, and stop it.
        #[arg(long)]
        connect: bool,
    },
    /// Run a tiny MCP server, to try the gateway with.
    ExampleServer {
        /// Serve Streamable HTTP on this address instead of stdio; the endpoint is /mcp.
        #[arg(long, value_name = "ADDR")]
        http: Option<String>,
        /// The protocol eras it speaks.
        #[arg(long, value_enum, default_value_t = Era::Both)]
        era: Era,
    },
    /// Reserved: not built yet.
    #[command(hide = true)]
    Import(Reserved),
    /// Reserved: not built yet.
    #[command(hide = true)]
    Tools(Reserved),
    /// Reserved: not built yet.
    #[command(hide = true)]
    Call(Reserved),
    /// Reserved: not built yet.
    #[command(hide = true)]
    Stdio(Reserved),
    /// Reserved: not built yet.
    #[command(hide = true)]
    Lock(Reserved),
    /// Reserved: not built yet.
    #[command(hide = true)]
    Login(Reserved),
}

#[derive(Debug, clap::Args)]
struct ConfigFile {
    /// The configuration; by default $MANIFOLD_CONFIG, then ./manifold.toml.
    #[arg(
        long = "config",
        value_name = "FILE",
        env = "MANIFOLD_CONFIG",
        default_value = "manifold.toml"
    )]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct Reserved {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    _rest: Vec<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Era {
    Legacy,
    Modern,
    Both,
}

/// Does what the command line says.
pub(crate) fn run() -> ExitCode {
    // Before anything else: the warden must stay small and start no thread.
    if std::env::args_os().nth(1).as_deref() == Some(OsStr::new(wiring::WARDEN)) {
        return manifold_supervisor::warden::run();
    }
    match Cli::parse().command {
        Command::Serve {
            config,
            listen,
            admin,
        } => match load(&config).and_then(|config| overridden(config, listen, admin)) {
            Ok(config) => serve::run(config),
            Err(code) => code,
        },
        Command::Check { config, connect } => match load(&config) {
            Ok(config) if connect => check::connect(config),
            Ok(_) => ExitCode::SUCCESS,
            Err(code) => code,
        },
        Command::ExampleServer { http, era } => example_server(http.as_deref(), era),
        Command::Import(_) => reserved("import"),
        Command::Tools(_) => reserved("tools"),
        Command::Call(_) => reserved("call"),
        Command::Stdio(_) => reserved("stdio"),
        Command::Lock(_) => reserved("lock"),
        Command::Login(_) => reserved("login"),
    }
}

fn reserved(command: &str) -> ExitCode {
    say(&format!(
        "manifold {command} is reserved: it is not built yet"
    ));
    ExitCode::from(USAGE)
}

fn load(config: &ConfigFile) -> Result<Config, ExitCode> {
    let name = config.file.display().to_string();
    let text = std::fs::read_to_string(&config.file).map_err(|error| {
        say(&format!(
            "error: can't read the configuration {name}: {error}; name another with --config FILE"
        ));
        ExitCode::from(USAGE)
    })?;
    Config::parse(&text, &name, &Process).map_err(|faults| {
        say(faults.to_string().trim_end());
        ExitCode::from(USAGE)
    })
}

fn overridden(
    mut config: Config,
    listen: Option<String>,
    admin: Option<String>,
) -> Result<Config, ExitCode> {
    let usage = |flag: &str, refusal: &manifold_config::Refusal| {
        say(&format!("error: {flag} {refusal}"));
        ExitCode::from(USAGE)
    };
    if let Some(text) = listen {
        config.listen = parse_address(&text)
            .and_then(|address| config.listen.at(address))
            .map_err(|refusal| usage("--listen", &refusal))?;
    }
    if let Some(text) = admin {
        config.admin.address =
            parse_address(&text).map_err(|refusal| usage("--admin", &refusal))?;
    }
    Ok(config)
}

fn example_server(http: Option<&str>, era: Era) -> ExitCode {
    let eras = match era {
        Era::Legacy => Eras::Legacy,
        Era::Modern => Eras::Modern,
        Era::Both => Eras::Both,
    };
    let address = match http.map(parse_address).transpose() {
        Ok(address) => address,
        Err(refusal) => {
            say(&format!("error: --http {refusal}"));
            return ExitCode::from(USAGE);
        }
    };
    match run_example(address, eras) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run_example(address: Option<SocketAddr>, eras: Eras) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("can't start the runtime")?;
    let served = runtime.block_on(async {
        match address {
            None => manifold_example_server::serve_stdio(eras).await,
            Some(address) => {
                let stop = async {
                    match crate::drain::Signals::new() {
                        Ok(mut signals) => signals.next().await,
                        Err(_) => std::future::pending().await,
                    }
                };
                manifold_example_server::serve_http(address, eras, stop).await
            }
        }
    });
    // Reading stdin blocks a thread that nothing can wake.
    runtime.shutdown_background();
    Ok(served?)
}

/// Writes to stderr, for people.
pub(crate) fn say(text: &str) {
    // Nobody is left to tell when stderr is gone.
    drop(writeln!(std::io::stderr(), "{text}"));
}
