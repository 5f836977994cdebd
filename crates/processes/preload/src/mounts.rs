//! Mounts of PandoFS, from `/proc/self/mountinfo`.

/// Prefix of the source of a mount; its cluster map follows, or the directory of a cluster made by `up`.
const SOURCE_PREFIX: &[u8] = b"pandofs:";

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub point: Vec<u8>,
    /// The path that its source names.
    pub source: Vec<u8>,
}

/// The mounts of PandoFS that this process sees, in the order in which they were made.
pub(crate) fn pandofs() -> Vec<Mount> {
    let text = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    text.split(|&byte| byte == b'\n')
        .filter_map(parse)
        .collect()
}

/// One line: `36 35 98:0 /root /mount/point options optional... - type source superoptions`.
fn parse(line: &[u8]) -> Option<Mount> {
    let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let separator = fields.iter().position(|&field| field == b"-")?;
    let kind = fields.get(separator + 1)?;
    let source = unescape(fields.get(separator + 2)?);
    let is_fuse = kind.starts_with(b"fuse");
    Some(Mount {
        point: unescape(fields.get(4)?),
        source: source
            .strip_prefix(SOURCE_PREFIX)
            .filter(|_| is_fuse)?
            .to_vec(),
    })
}

/// The kernel writes space, tab, line end and backslash as `\ooo`.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, behind)) = rest.split_first() {
        let digits = behind
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) if byte == b'\\' => {
                plain.push(value);
                rest = &behind[3..];
            }
            _ => {
                plain.push(byte);
                rest = behind;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_told_by_their_sources() {
        let line = b"60 1 0:50 / /mnt/a\\040b rw - fuse.pandofs pandofs:/var/d\\134x rw,user_id=0";
        let mount = Mount {
            point: b"/mnt/a b".to_vec(),
            source: b"/var/d\\x".to_vec(),
        };
        assert_eq!(parse(line), Some(mount));
        assert_eq!(parse(b"60 1 8:1 / /mnt rw - ext4 pandofs:/x rw"), None);
        assert_eq!(parse(b"60 1 0:50 / /mnt rw - fuse.sshfs host:/x rw"), None);
        assert_eq!(parse(b""), None);
    }
}
