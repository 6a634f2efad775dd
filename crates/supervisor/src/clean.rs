//! Makes what a child prints safe to show: on a terminal, in a log line, in JSON.

/// The text of `raw`: invalid UTF-8 replaced, escape sequences and control characters removed.
/// A carriage return inside starts the line over, as on a terminal, so that of a progress bar
/// its last state remains.
pub(crate) fn clean(raw: &[u8]) -> String {
    let text = String::from_utf8_lossy(raw);
    let mut out = String::with_capacity(text.len());
    let mut chars = text.trim_end_matches('\r').chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => skip_escape(&mut chars),
            '\u{9b}' => skip_sequence(&mut chars),
            '\r' => out.clear(),
            '\t' | '\u{2028}' | '\u{2029}' | '\u{85}' => out.push(' '),
            char if char.is_control() || turns_text_around(char) => {}
            char => out.push(char),
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// After ESC.
fn skip_escape(chars: &mut std::str::Chars<'_>) {
    match chars.next() {
        Some('[') => skip_sequence(chars),
        // Operating system command and its like: text up to BEL or ESC \.
        Some(']' | 'P' | 'X' | '^' | '_') => {
            while let Some(char) = chars.next() {
                if char == '\u{7}' || char == '\u{9c}' {
                    return;
                }
                if char == '\u{1b}' {
                    chars.next();
                    return;
                }
            }
        }
        // Intermediates, then one final character.
        Some(' '..='/') => {
            chars.find(|char| !(' '..='/').contains(char));
        }
        _ => {}
    }
}

/// After CSI: parameters and intermediates, then one final character.
fn skip_sequence(chars: &mut std::str::Chars<'_>) {
    let mut ahead = chars.clone();
    while let Some(char) = ahead.next() {
        match char {
            ' '..='?' => *chars = ahead.clone(),
            '@'..='~' => {
                *chars = ahead;
                return;
            }
            // Broken off: what comes is text again.
            _ => return,
        }
    }
}

/// Marks that make a terminal show text in another order than it is written.
fn turns_text_around(char: char) -> bool {
    matches!(char, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_and_controls_go_and_text_stays() {
        for (raw, expected) in [
            (&b"plain"[..], "plain"),
            (b"\x1b[32mready\x1b[0m", "ready"),
            (b"\x1b[38;2;1;2;3mx\x1b[K", "x"),
            (b"\x1b]0;title\x07text", "text"),
            (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
            (b"\x1b(Bx\x1b=y", "xy"),
            (b"a\x00\x08\x7fb\tc", "ab c"),
            (b"10%\r50%\r100%\r\r", "100%"),
            (b"bad \xff\xfe utf8", "bad \u{fffd}\u{fffd} utf8"),
            ("\u{202e}evil\u{2028}next".as_bytes(), "evil next"),
            (
                "\u{9b}31mred \u{2500}\u{1F600}".as_bytes(),
                "red \u{2500}\u{1F600}",
            ),
            (b"cut \x1b[3", "cut"),
            (b"cut \x1b", "cut"),
            (b"\x1b[31\xc3\xa4x", "\u{e4}x"),
        ] {
            assert_eq!(clean(raw), expected, "{raw:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_dangerous_survives(raw in prop::collection::vec(prop_oneof![
            Just(0x1b), Just(b'['), Just(b']'), Just(b'm'), Just(b'\r'), any::<u8>()], 0..64)
        ) {
            let text = clean(&raw);
            prop_assert!(!text.chars().any(|char| char.is_control() || turns_text_around(char)));
        }
    }
}
