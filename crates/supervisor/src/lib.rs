//! A process under control: started with a chosen environment, talked to line by line, and ended
//! for certain, with everything it started.
//!
//! A [`Supervisor`] starts a [`ChildSpec`] and hands back a [`Spawned`]: a [`LineWriter`] on the
//! child's stdin, a [`LineReader`] on its stdout, and a [`Child`] to watch and stop it. Its stderr
//! is drained from the first byte on into the [`ChildLog`].
//!
//! How a child ends, whoever began it:
//!
//! 1. its stdin is closed, and it has [`StopPolicy::close`] to leave;
//! 2. its process group gets SIGTERM, and has [`StopPolicy::term`];
//! 3. the group gets SIGKILL, always, also when the leader left long before;
//! 4. what left the group (setsid, double fork) is found by its environment and gets SIGKILL;
//! 5. only now is the leader reaped. Until then its zombie keeps the group's number from being
//!    given to a stranger.
//!
//! Should this process itself be killed, the [`warden`] does 3 and 4.
//!
//! # The environment of a child
//!
//! It is [`ChildSpec::env`] and one variable more, [`TAG_VARIABLE`] (`MANIFOLD_CHILD`), whose
//! value is unique to the child. Every process that carries it is taken to belong to that child.
//!
//! This crate knows lines of bytes. It must not know JSON, the protocol or the configuration.

mod child;
mod clean;
mod driver;
pub mod environment;
mod error;
mod exit;
mod ladder;
mod log;
mod orphans;
mod proc;
mod program;
mod reader;
mod registry;
mod restart;
mod spec;
mod splitter;
mod supervisor;
mod tag;
pub mod warden;
mod writer;

pub use child::{Child, Pid};
pub use error::SupervisorError;
pub use exit::Exit;
pub use log::{ChildLog, LogLine, Source};
pub use reader::LineReader;
pub use restart::{RestartPolicy, Restarts, Retry};
pub use spec::{ChildSpec, StopPolicy};
pub use splitter::Line;
pub use supervisor::{Spawned, StartPermit, Supervisor, SupervisorOptions};
pub use tag::TAG_VARIABLE;
pub use warden::WardenCommand;
pub use writer::{LineWriter, SendError};
