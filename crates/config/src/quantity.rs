//! Durations such as `"250ms"` and sizes such as `"16MiB"`: a whole number with a unit, nothing else.

use std::time::Duration;

use crate::fault::Refusal;

/// The longest duration accepted, so that adding one to a clock cannot overflow.
const LONGEST_DAYS: u64 = 3650;

/// Reads a duration: a whole number and one of ms, s, m, h, d. `"0s"` is one.
pub(crate) fn duration(text: &str) -> Result<Duration, Refusal> {
    let (number, unit) = split(text);
    let milliseconds: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return Err(not_a_duration()),
    };
    let number = number.ok_or_else(not_a_duration)?;
    number
        .parse::<u64>()
        .ok()
        .and_then(|number| number.checked_mul(milliseconds))
        .filter(|total| *total <= LONGEST_DAYS * 86_400_000)
        .map(Duration::from_millis)
        .ok_or_else(|| Refusal::new(format!("must not be longer than {LONGEST_DAYS}d")))
}

/// Reads a size in bytes: a whole number above zero and one of B, KiB, MiB, GiB.
pub(crate) fn size(text: &str) -> Result<usize, Refusal> {
    let (number, unit) = split(text);
    let bytes: usize = match unit {
        "B" => 1,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return Err(not_a_size()),
    };
    let number = number.ok_or_else(not_a_size)?;
    let total = number
        .parse::<usize>()
        .ok()
        .and_then(|number| number.checked_mul(bytes))
        .filter(|total| isize::try_from(*total).is_ok())
        .ok_or_else(|| Refusal::new("is more than this machine can address"))?;
    if total == 0 {
        return Err(Refusal::new("must be more than zero"));
    }
    Ok(total)
}

/// The refusal of what is no duration, also of a bare number.
pub(crate) fn not_a_duration() -> Refusal {
    Refusal::new("must be a duration: a whole number with ms, s, m, h or d")
        .remedy("write it in quotes and with its unit, for example \"30s\"")
}

/// The refusal of what is no size, also of a bare number.
pub(crate) fn not_a_size() -> Refusal {
    Refusal::new("must be a size: a whole number with B, KiB, MiB or GiB")
        .remedy("write it in quotes and with its unit, for example \"16MiB\"")
}

/// A duration as a person would write it, in the largest unit that keeps it whole.
pub(crate) fn shown(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    for (unit, name) in [
        (86_400_000, "d"),
        (3_600_000, "h"),
        (60_000, "m"),
        (1000, "s"),
    ] {
        if milliseconds >= unit && milliseconds.is_multiple_of(unit) {
            return format!("{}{name}", milliseconds / unit);
        }
    }
    format!("{milliseconds}ms")
}

/// The digits at the beginning, if there are any, and the rest.
fn split(text: &str) -> (Option<&str>, &str) {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end).unwrap_or((text, ""));
    (Some(number).filter(|number| !number.is_empty()), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, milliseconds) in [
            ("0s", 0),
            ("250ms", 250),
            ("30s", 30_000),
            ("15m", 900_000),
            ("2h", 7_200_000),
            ("7d", 604_800_000),
            ("3650d", 315_360_000_000),
        ] {
            assert_eq!(
                duration(text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
        for text in [
            "", "30", "s", "1.5s", "-1s", "+1s", "1 s", " 1s", "1s ", "1S", "1min", "1h30m", "٣s",
        ] {
            assert_eq!(duration(text), Err(not_a_duration()), "{text:?}");
        }
        for text in ["3651d", "99999999999999999999s", "18446744073709551615d"] {
            assert_eq!(
                duration(text).unwrap_err().message,
                "must not be longer than 3650d",
                "{text}"
            );
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("512B", 512),
            ("64KiB", 65_536),
            ("16MiB", 16_777_216),
            ("1GiB", 1_073_741_824),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "16", "MiB", "16MB", "16mib", "1.5MiB", "-1B", "1 MiB"] {
            assert_eq!(size(text), Err(not_a_size()), "{text:?}");
        }
        for text in ["0B", "0GiB"] {
            assert_eq!(
                size(text).unwrap_err().message,
                "must be more than zero",
                "{text}"
            );
        }
        for text in ["99999999999999999999B", "18446744073709551615GiB"] {
            assert_eq!(
                size(text).unwrap_err().message,
                "is more than this machine can address",
                "{text}"
            );
        }
    }

    #[test]
    fn shows_durations_in_the_largest_whole_unit() {
        for text in ["0ms", "250ms", "2s", "90s", "25m", "2h", "7d"] {
            assert_eq!(shown(duration(text).unwrap()), text);
        }
    }
}
