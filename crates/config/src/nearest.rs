//! The known word a mistyped one was probably meant to be.

/// Longer words are not compared. Characters.
const LONGEST: usize = 64;

/// The candidate nearest to `word`, if one is near enough to be meant: up to a third of its characters may be wrong.
/// Of equally near ones the first.
pub(crate) fn nearest<'c>(
    word: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> Option<&'c str> {
    if word.chars().count() > LONGEST {
        return None;
    }
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let distance = distance(word, candidate);
        let near = distance <= (candidate.chars().count() / 3).max(1);
        if near && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// How many letters must be inserted, dropped, replaced or swapped with their neighbour to go from one to the other,
/// where no letter is touched twice.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=to.len()).collect();
    let mut previous_from = None;
    for (row, character) in from.chars().enumerate() {
        let mut current = vec![row + 1];
        let mut left = row + 1;
        let mut previous_to = None;
        for (column, other) in to.iter().copied().enumerate() {
            let at =
                |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX / 2);
            let replaced = at(&last, column) + usize::from(character != other);
            let mut least = replaced.min(at(&last, column + 1) + 1).min(left + 1);
            if column > 0 && previous_from == Some(other) && previous_to == Some(character) {
                least = least.min(at(&before, column - 1) + 1);
            }
            current.push(least);
            left = least;
            previous_to = Some(other);
        }
        before = std::mem::replace(&mut last, current);
        previous_from = Some(character);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("timeuot", "timeout", 1),
            ("kitten", "sitting", 3),
            ("ca", "ac", 1),
        ] {
            assert_eq!(distance(from, to), expected, "{from} to {to}");
        }
    }

    #[test]
    fn only_near_words_are_offered() {
        let known = ["command", "args", "env", "inherit_env"];
        assert_eq!(nearest("comand", known), Some("command"));
        assert_eq!(nearest("arg", known), Some("args"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"a".repeat(65), known), None);
    }
}
