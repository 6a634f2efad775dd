//! What can go wrong when a child is started.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

/// Why there is no child. All but the last two are for whoever wrote the configuration.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The name is on no directory of `PATH`.
    #[error(
        "no program `{}` on the child's PATH ({}): install it, or give its full path as the \
         command, or set PATH in the server's env",
        .program.display(),
        .path.display()
    )]
    NotOnPath {
        /// What was asked for.
        program: OsString,
        /// Where it was looked for.
        path: OsString,
    },
    /// The path names no file.
    #[error("no file `{}`: check the server's command", .path.display())]
    NotFound {
        /// The absolute path.
        path: PathBuf,
    },
    /// There is a file, but it cannot be run.
    #[error(
        "`{}` is not an executable file: check the server's command, and the file with `chmod +x`",
        .path.display()
    )]
    NotExecutable {
        /// The absolute path.
        path: PathBuf,
    },
    /// The directory to start in is missing or closed to us.
    #[error("cannot start in `{}`: it is not a directory we may enter; check the server's cwd", .path.display())]
    WorkingDirectory {
        /// As it was given.
        path: PathBuf,
    },
    /// The system refused to start the program.
    #[error("cannot start `{}`: {}", .path.display(), hint(.source))]
    Start {
        /// The absolute path of the program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The program runs, but its pipes could not be set up; it is stopped again.
    #[error("cannot use the pipes of `{}`", .path.display())]
    Pipes {
        /// The absolute path of the program.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The supervisor is shutting down, or its runtime is.
    #[error("no child is started any more: the supervisor is shutting down")]
    ShuttingDown,
}

/// What to check, for the faults that a user meets.
const ADVICE: &[(Errno, &str)] = &[
    (
        Errno::ENOENT,
        "the file exists, so the interpreter in its `#!` line, or its loader, is missing",
    ),
    (
        Errno::ENOEXEC,
        "it is no program for this machine; a script needs a `#!` line",
    ),
    (
        Errno::EACCES,
        "the system does not let us run it; check its directories and mount options",
    ),
    (Errno::E2BIG, "its arguments and environment are too large"),
    (
        Errno::EAGAIN,
        "too many processes; raise the limit (ulimit -u, or the container's)",
    ),
    (Errno::ENOMEM, "the system is out of memory"),
    (
        Errno::EMFILE,
        "too many open files; raise the limit (ulimit -n)",
    ),
    (Errno::ENFILE, "too many open files in the whole system"),
    (Errno::ETXTBSY, "the file is being written"),
];

fn hint(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::InvalidInput {
        return "an argument or variable holds a zero byte".to_owned();
    }
    let code = error.raw_os_error().map(Errno::from_raw);
    match ADVICE.iter().find(|(errno, _)| Some(*errno) == code) {
        Some((_, advice)) => format!("{error}: {advice}"),
        None => error.to_string(),
    }
}
