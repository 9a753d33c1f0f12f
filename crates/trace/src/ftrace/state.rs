//! Texts of `prev_state`.
//!
//! The kernel's letters have moved over time; [`PrevState`] has the bits of 4.14 and later.

use crate::PrevState;

/// Which letters a dialect uses where they contradict each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Letters {
    /// The kernel's own: `X` dead, `Z` zombie, `P` parked, `I` idle.
    Kernel,
    /// A table fixed in older libtraceevent, laid over the same bits: `Z` dead, `X` zombie, `x` parked, `W` idle.
    OldPlugin,
}

/// Reads `S`, `R+`, `D|W`, `0x1`, `256`...; `None` if it is none of these.
pub(super) fn parse(text: &[u8], letters: Letters) -> Option<PrevState> {
    if text.first()?.is_ascii_digit() {
        return number(text);
    }
    let (text, preempted) = match text.strip_suffix(b"+") {
        Some(rest) => (rest, PrevState::PREEMPTED.0),
        None => (text, 0),
    };
    let mut bits = 0;
    let mut waking = false;
    for part in text.split(|&b| b == b'|') {
        let &[letter] = part else { return None };
        bits |= match (letter, letters) {
            (b'R', _) => 0,
            (b'S', _) => 1,
            (b'D', _) => 2,
            (b'T', _) => 4,
            (b't', _) => 8,
            (b'X', Letters::Kernel) | (b'Z', Letters::OldPlugin) => 0x10,
            (b'Z', Letters::Kernel) | (b'X', Letters::OldPlugin) => 0x20,
            // Kernels before 4.14: `x` is TASK_DEAD.
            (b'x', Letters::Kernel) => 0x10,
            (b'P', _) | (b'x', Letters::OldPlugin) => 0x40,
            (b'I', _) | (b'W', Letters::OldPlugin) => 0x80,
            // Kernels before 4.14: `K` wakekill, `W` waking, `N` noload; they qualify a sleep.
            (b'K' | b'W' | b'N', Letters::Kernel) => {
                waking = true;
                0
            }
            (b'K' | b'N', Letters::OldPlugin) => {
                waking = true;
                0
            }
            _ => return None,
        };
    }
    if bits == 0 && waking {
        // A qualifier alone: surely not running, kind of sleep unknown.
        bits = PrevState::UNINTERRUPTIBLE.0;
    }
    Some(PrevState(bits | preempted))
}

/// Raw numbers: the low byte as it is, any higher bit means preempted. Today that is 0x100; before 4.14 it was the
/// bit above the last state, wherever that stood.
fn number(text: &[u8]) -> Option<PrevState> {
    let text = std::str::from_utf8(text).ok()?;
    let value = match text.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => text.parse().ok()?,
    };
    let preempted = if value > 0xff {
        PrevState::PREEMPTED.0
    } else {
        0
    };
    Some(PrevState(value & 0xff | preempted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms() {
        let kernel = |text: &str| parse(text.as_bytes(), Letters::Kernel).map(|s| s.0);
        for (text, bits) in [
            ("R", 0),
            ("R+", 0x100),
            ("S", 1),
            ("D", 2),
            ("D|W", 2),
            ("D|K", 2),
            ("S+", 0x101),
            ("T", 4),
            ("t", 8),
            ("X", 0x10),
            ("x", 0x10),
            ("Z", 0x20),
            ("P", 0x40),
            ("I", 0x80),
            ("W", 2),
            ("0", 0),
            ("1", 1),
            ("0x2", 2),
            ("256", 0x100),
            ("1025", 0x101),
            ("128", 0x80),
        ] {
            assert_eq!(kernel(text), Some(bits), "{text}");
        }
        for bad in ["", "+", "SD", "S|", "?", "R++", "0x", "99999999999", "1a"] {
            assert_eq!(kernel(bad), None, "{bad}");
        }
        let plugin = |text: &str| parse(text.as_bytes(), Letters::OldPlugin).map(|s| s.0);
        assert_eq!(plugin("W"), Some(0x80));
        assert_eq!(plugin("X"), Some(0x20));
        assert_eq!(plugin("Z"), Some(0x10));
        assert_eq!(plugin("x"), Some(0x40));
        assert_eq!(plugin("D|W"), Some(0x82));
    }

    #[test]
    fn display_comes_back() {
        for bits in [
            0, 1, 2, 4, 8, 0x10, 0x20, 0x40, 0x80, 0x100, 0x101, 0x102, 0x82,
        ] {
            let state = PrevState(bits);
            let text = state.to_string();
            assert_eq!(
                parse(text.as_bytes(), Letters::Kernel),
                Some(state),
                "{text}"
            );
        }
    }
}
