//! The environment and the files that a configuration may refer to.

use std::io::{self, Read};

use manifold_config::Surroundings;

/// A secret is short; a file that is not is a mistake.
const LARGEST_FILE: u64 = 1024 * 1024;

/// The real ones, of this process.
#[derive(Debug)]
pub(crate) struct Process;

impl Surroundings for Process {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn file(&self, path: &str) -> io::Result<String> {
        let mut text = String::new();
        let read = std::fs::File::open(path)?
            .take(LARGEST_FILE + 1)
            .read_to_string(&mut text)?;
        if read as u64 > LARGEST_FILE {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(text)
    }
}
