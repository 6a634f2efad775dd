//! Finds the program of a child, so that a wrong command gets an error that says what is wrong.
//!
//! Looked up here and not by the system: the search must use the child's `PATH`, and a plain
//! "No such file or directory" leaves open which file is meant.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::{ChildSpec, SupervisorError};

/// What the C library searches when there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The absolute path of what `spec` wants started. Reads directories: may block.
pub(crate) fn resolve(spec: &ChildSpec) -> Result<PathBuf, SupervisorError> {
    if let Some(cwd) = &spec.cwd
        && !(cwd.is_dir() && access(cwd, AccessFlags::X_OK).is_ok())
    {
        return Err(SupervisorError::WorkingDirectory { path: cwd.clone() });
    }
    let base = spec.cwd.as_deref().unwrap_or(Path::new(""));
    if spec.program.as_encoded_bytes().contains(&b'/') {
        let path = absolute(base.join(&spec.program));
        return match is_program(&path) {
            true => Ok(path),
            false if path.exists() => Err(SupervisorError::NotExecutable { path }),
            false => Err(SupervisorError::NotFound { path }),
        };
    }
    let path = search_path(spec);
    let found = std::env::split_paths(path)
        .map(|directory| absolute(base.join(directory).join(&spec.program)))
        .find(|candidate| is_program(candidate));
    found.ok_or_else(|| SupervisorError::NotOnPath {
        program: spec.program.clone(),
        path: path.to_owned(),
    })
}

fn search_path(spec: &ChildSpec) -> &OsStr {
    // The last one wins, as it does in the environment that is built from the list.
    let path = spec.env.iter().rfind(|(name, _)| name == "PATH");
    path.map_or(OsStr::new(DEFAULT_PATH), |(_, value)| value)
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    fn spec(program: &str, cwd: Option<&Path>, path: Option<&str>) -> ChildSpec {
        ChildSpec {
            label: "test".to_owned(),
            program: program.into(),
            args: Vec::new(),
            env: path
                .map(|path| ("PATH".into(), path.into()))
                .into_iter()
                .collect(),
            cwd: cwd.map(Path::to_owned),
            stop: crate::StopPolicy::default(),
            line_limit: 1024,
        }
    }

    #[test]
    fn a_command_is_found_where_the_child_would_find_it() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("prog");
        fs::write(&program, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(dir.path().join("data"), "").unwrap();
        let here = dir.path().to_str().unwrap();
        fn find(
            program: &str,
            cwd: Option<&Path>,
            path: Option<&str>,
        ) -> Result<PathBuf, SupervisorError> {
            resolve(&spec(program, cwd, path))
        }
        assert_eq!(
            find("prog", None, Some(&format!("/nowhere:{here}"))).unwrap(),
            program
        );
        assert_eq!(
            find("prog", Some(dir.path()), Some("."))
                .unwrap()
                .canonicalize()
                .unwrap(),
            program.canonicalize().unwrap()
        );
        assert_eq!(find(&format!("{here}/prog"), None, None).unwrap(), program);
        assert!(find("./prog", Some(dir.path()), None).is_ok());
        assert!(
            find("sh", None, None).is_ok(),
            "without PATH the default is searched"
        );

        let error = |program: &str, cwd: Option<&Path>, path: Option<&str>| {
            find(program, cwd, path).unwrap_err().to_string()
        };
        let missing = error("prog", None, Some("/nowhere"));
        assert!(
            missing.contains("`prog`") && missing.contains("/nowhere"),
            "{missing}"
        );
        assert!(missing.contains("install it"), "{missing}");
        let data = error("./data", Some(dir.path()), None);
        assert!(data.contains("data") && data.contains("chmod"), "{data}");
        let absent = error("./absent", Some(dir.path()), None);
        assert!(
            absent.contains("absent") && absent.contains("no file"),
            "{absent}"
        );
        let cwd = error("sh", Some(Path::new("/nowhere")), None);
        assert!(cwd.contains("/nowhere") && cwd.contains("cwd"), "{cwd}");
        assert!(matches!(
            find("./", Some(dir.path()), None),
            Err(SupervisorError::NotExecutable { .. })
        ));
    }
}
