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
        // Letters swapped with their neighbour count as one slip.
        let distance = strsim::osa_distance(word, candidate);
        let near = distance <= (candidate.chars().count() / 3).max(1);
        if near && best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_near_words_are_offered() {
        let known = ["command", "args", "env", "inherit_env"];
        assert_eq!(nearest("comand", known), Some("command"));
        assert_eq!(nearest("arg", known), Some("args"));
        assert_eq!(nearest("nev", known), Some("env"));
        assert_eq!(nearest("colour", known), None);
        assert_eq!(nearest(&"a".repeat(65), known), None);
    }
}
