//! Names that look like the one somebody meant.

/// How many are offered.
const COUNT: usize = 3;
/// Names longer than this are not compared: the cost is quadratic.
const LONGEST: usize = 128;

/// The names nearest to `wanted`, best first: those that end in it (a forgotten prefix), then those a few
/// edits away.
#[must_use]
pub(crate) fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    if wanted.is_empty() || wanted.len() > LONGEST {
        return Vec::new();
    }
    let mut scored: Vec<(usize, &str)> = names
        .filter(|name| name.len() <= LONGEST)
        .filter_map(|name| {
            if name.ends_with(wanted) {
                return Some((0, name));
            }
            let distance = strsim::osa_distance(wanted, name);
            (distance <= 1 + wanted.len() / 4).then_some((distance, name))
        })
        .collect();
    scored.sort_unstable();
    scored
        .into_iter()
        .take(COUNT)
        .map(|(_, name)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forgotten_prefix_and_a_slip_are_found() {
        let names = ["files__read_file", "files__write_file", "time__now"];
        let near = |wanted| nearest(wanted, names.into_iter());
        assert_eq!(near("read_file"), ["files__read_file"]);
        assert_eq!(
            near("files__raed_file"),
            ["files__read_file", "files__write_file"]
        );
        assert!(near("nothing_like_it").is_empty());
        assert!(near("").is_empty());
        assert!(near(&"x".repeat(10_000)).is_empty());
    }
}
