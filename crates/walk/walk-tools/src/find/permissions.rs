//! Permissions as `-perm` has them.

/// Reads an octal number, or clauses as chmod has them: `u+rw,g=r,o-x`, applied to no permissions
/// at all.
pub(crate) fn parse(text: &str) -> Option<u32> {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return u32::from_str_radix(text, 8)
            .ok()
            .filter(|bits| *bits <= 0o7777);
    }
    let mut bits = 0;
    for clause in text.split(',') {
        let start = clause.find(['+', '-', '='])?;
        let (who, mut rest) = clause.split_at(start);
        let mut mask = 0;
        for letter in who.chars() {
            mask |= match letter {
                'u' => 0o4700,
                'g' => 0o2070,
                'o' => 0o1007,
                'a' => 0o7777,
                _ => return None,
            };
        }
        if who.is_empty() {
            mask = 0o7777;
        }
        while let Some(operator) = rest.chars().next() {
            rest = &rest[1..];
            let end = rest.find(['+', '-', '=']).unwrap_or(rest.len());
            let mut permissions = 0;
            for letter in rest[..end].chars() {
                permissions |= match letter {
                    'r' => 0o444,
                    'w' => 0o222,
                    'x' => 0o111,
                    's' => 0o6000,
                    't' => 0o1000,
                    'X' => {
                        if bits & 0o111 == 0 {
                            0
                        } else {
                            0o111
                        }
                    }
                    _ => return None,
                };
            }
            // `t` is not in the mask of user and group, but is given by itself.
            let given = permissions & (mask | if who.is_empty() { 0o1000 } else { 0 });
            match operator {
                '+' => bits |= given,
                '-' => bits &= !given,
                _ => bits = bits & !(mask & 0o777) | given,
            }
            rest = &rest[end..];
        }
    }
    Some(bits)
}

/// `drwxr-xr-x`
pub(crate) fn letters(mode: u32) -> String {
    let kind = match mode & 0o170_000 {
        0o040_000 => 'd',
        0o120_000 => 'l',
        0o100_000 => '-',
        0o020_000 => 'c',
        0o060_000 => 'b',
        0o010_000 => 'p',
        0o140_000 => 's',
        _ => '?',
    };
    let mut text = String::from(kind);
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 == 0 { '-' } else { 'r' });
        text.push(if bits & 2 == 0 { '-' } else { 'w' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_clauses_are_read() {
        for (text, bits) in [
            ("644", Some(0o644)),
            ("0", Some(0)),
            ("7777", Some(0o7777)),
            ("u+rw,g=r,o=r", Some(0o644)),
            ("a=rwx,o-w", Some(0o775)),
            ("u=rwxs", Some(0o4700)),
            ("u+s", Some(0o4000)),
            ("+t", Some(0o1000)),
            ("u+r-r+w", Some(0o200)),
            ("88", None),
            ("17777", None),
            ("u", None),
            ("z+r", None),
            ("u+z", None),
            ("", None),
        ] {
            assert_eq!(parse(text), bits, "{text}");
        }
    }

    #[test]
    fn modes_are_written_as_ls_does() {
        for (mode, text) in [
            (0o100_644, "-rw-r--r--"),
            (0o041_777, "drwxrwxrwt"),
            (0o104_655, "-rwSr-xr-x"),
            (0o102_755, "-rwxr-sr-x"),
            (0o120_777, "lrwxrwxrwx"),
        ] {
            assert_eq!(letters(mode), text);
        }
    }
}
