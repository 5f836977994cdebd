//! Parser of headers of members: of POSIX (pax), GNU and old archives.

use crate::tar::acl;
use crate::tar::compress::Known;
use crate::tar::fields::{decimal, number, pairs, read_time, signed, text};
use crate::tar::header::{BLOCK, Kind, Member};
use anyhow::{Result, bail, ensure};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, Read, Seek, SeekFrom};

/// Bytes of an extended header, or of a long name, above which an archive is damaged.
const MOST_EXTENDED_BYTES: u64 = 64 << 20;
/// No file can be longer, and no place in one further behind. Filled up to a block it is still a
/// number of 64 bits.
const MOST_BYTES: u64 = i64::MAX as u64;

/// Headers before a member's data in the archive.
#[derive(Debug)]
pub(crate) struct Found {
    pub member: Member,
    /// Bytes of data that follow, without filling up. For a sparse file its pieces one after the
    /// other.
    pub stored: u64,
}

/// Reads an archive from its beginning, counting.
#[derive(Debug)]
pub(crate) struct Parser<R> {
    pub input: R,
    /// Position of the next byte.
    pub at: u64,
    global: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl<R: Read> Parser<R> {
    pub(crate) fn new(input: R) -> Parser<R> {
        Parser {
            input,
            at: 0,
            global: BTreeMap::new(),
        }
    }

    /// The next member; its data have to be read, or passed over, before the one after it.
    ///
    /// # Errors
    /// When the archive cannot be read, or is none.
    pub(crate) fn next(&mut self) -> Result<Option<Found>> {
        let mut records = self.global.clone();
        let (mut long_name, mut long_target) = (None, None);
        let begun = self.at;
        loop {
            let Some(header) = self.header()? else {
                let is_between = self.at <= begun + BLOCK as u64;
                ensure!(is_between, "the archive ends after an extended header");
                return Ok(None);
            };
            let size = number(&header[124..136])?;
            match header[156] {
                b'x' => {
                    let bytes = self.extended(size)?;
                    read_records(&bytes, &mut records)?;
                }
                b'g' => {
                    let bytes = self.extended(size)?;
                    read_records(&bytes, &mut self.global)?;
                    records.extend(self.global.clone());
                }
                b'L' => long_name = Some(text(&self.extended(size)?).to_vec()),
                b'K' => long_target = Some(text(&self.extended(size)?).to_vec()),
                // A volume's label.
                b'V' => {
                    self.extended(size)?;
                }
                _ => {
                    let member = self.member(&header, records, long_name, long_target)?;
                    return Ok(Some(member));
                }
            }
        }
    }

    fn header(&mut self) -> Result<Option<[u8; BLOCK]>> {
        let mut header = [0; BLOCK];
        // An archive without its end is taken to its last member, as GNU tar does, but not in the
        // middle of one.
        let begins = self.at == 0;
        let got = read_all(&mut self.input, &mut header)?;
        self.at += got as u64;
        // Not even the block of zeros of one that has no members.
        ensure!(!begins || got > 0, "this is no tar archive: it is empty");
        let is_end = header.iter().all(|byte| *byte == 0) && (got == BLOCK || !begins);
        if got == 0 || is_end {
            return Ok(None);
        }
        if begins && let Some(known) = Known::of_beginning(&header) {
            bail!(
                "it is compressed with {}: {} takes care of that",
                known.name,
                known.option
            );
        }
        ensure!(!begins || got == BLOCK, "this is no tar archive");
        ensure!(got == BLOCK, "the archive ends in the middle of a header");
        let sum = header.iter().enumerate().map(|(at, byte)| {
            let is_sum = (148..156).contains(&at);
            u64::from(if is_sum { b' ' } else { *byte })
        });
        // Before anything else is taken for a number: what is no archive has none.
        let is_whole = number(&header[148..156]).is_ok_and(|number| number == sum.sum::<u64>());
        ensure!(is_whole || !begins, "this is no tar archive");
        ensure!(
            is_whole,
            "the archive is damaged at byte {}",
            self.at - BLOCK as u64
        );
        Ok(Some(header))
    }

    fn extended(&mut self, size: u64) -> Result<Vec<u8>> {
        ensure!(
            size <= MOST_EXTENDED_BYTES,
            "an extended header of {size} bytes"
        );
        let mut bytes = vec![0; (size as usize).next_multiple_of(BLOCK)];
        self.read(&mut bytes)?;
        bytes.truncate(size as usize);
        Ok(bytes)
    }

    /// Reads data.
    ///
    /// # Errors
    /// When there are not enough.
    pub(crate) fn read(&mut self, bytes: &mut [u8]) -> Result<()> {
        let got = read_all(&mut self.input, bytes)?;
        self.at += got as u64;
        ensure!(
            got == bytes.len(),
            "the archive ends in the middle of a member"
        );
        Ok(())
    }

    /// Skips data: of an archive that can be read anywhere, whose place this parser alone moves,
    /// without reading them.
    ///
    /// # Errors
    /// When there are not enough.
    pub(crate) fn pass_over(&mut self, bytes: u64, archive: Option<&File>) -> Result<()>
    where
        R: BufRead,
    {
        if let Some(mut archive) = archive {
            let buffered = self.input.fill_buf()?.len() as u64;
            let taken = buffered.min(bytes);
            self.input.consume(taken as usize);
            if bytes > taken {
                self.is_there(bytes, archive)?;
                archive.seek(SeekFrom::Current(i64::try_from(bytes - taken)?))?;
            }
            self.at += bytes;
            return Ok(());
        }
        let mut left = bytes;
        let mut buffer = [0; 64 << 10];
        while left > 0 {
            let most = left.min(buffer.len() as u64) as usize;
            self.read(&mut buffer[..most])?;
            left -= most as u64;
        }
        Ok(())
    }

    /// Sees to it that an archive that is a file has as many bytes from here on: what a header says
    /// of them may not be so.
    ///
    /// # Errors
    /// When it has fewer.
    pub(crate) fn is_there(&self, bytes: u64, archive: &File) -> Result<()> {
        let length = archive.metadata()?.len();
        let end = self.at.checked_add(bytes);
        ensure!(
            end.is_some_and(|end| end <= length),
            "the archive ends in the middle of a member"
        );
        Ok(())
    }

    fn member(
        &mut self,
        header: &[u8; BLOCK],
        mut records: BTreeMap<Vec<u8>, Vec<u8>>,
        long_name: Option<Vec<u8>>,
        long_target: Option<Vec<u8>>,
    ) -> Result<Found> {
        let mut kind = match header[156] {
            b'0' | b'\0' | b'7' | b'S' => Kind::File,
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' => Kind::CharacterDevice,
            b'4' => Kind::BlockDevice,
            b'5' => Kind::Directory,
            b'6' => Kind::Fifo,
            other => bail!("a member of type '{}' is not known", other as char),
        };
        let mut path = text(&header[..100]).to_vec();
        // POSIX has more of the name there; GNU has something else.
        let prefix = text(&header[345..500]);
        if header[257..263] == *b"ustar\0" && !prefix.is_empty() {
            path = [prefix, b"/", &path[..]].concat();
        }
        let mut take = |key: &str| records.remove(key.as_bytes());
        let path = take("path").or(long_name).unwrap_or(path);
        // Archives from before POSIX know directories by that alone.
        if kind == Kind::File && path.ends_with(b"/") {
            kind = Kind::Directory;
        }
        let target = take("linkpath").or(long_target);
        let mut stored = decimal(take("size"))?.map_or_else(|| number(&header[124..136]), Ok)?;
        ensure!(stored <= MOST_BYTES, "a member of {stored} bytes");
        let id = |record: Option<Vec<u8>>, field| -> Result<u32> {
            let id = decimal(record)?.map_or_else(|| number(field), Ok)?;
            Ok(u32::try_from(id)?)
        };
        let uid = id(take("uid"), &header[108..116])?;
        let gid = id(take("gid"), &header[116..124])?;
        let name = |record: Option<Vec<u8>>, field: &[u8]| {
            let name = record.unwrap_or_else(|| text(field).to_vec());
            String::from_utf8_lossy(&name).into_owned()
        };
        let user = name(take("uname"), &header[265..297]);
        let group = name(take("gname"), &header[297..329]);
        let (seconds, nanoseconds) = match take("mtime") {
            Some(time) => read_time(&time)?,
            None => (signed(&header[136..148])?, 0),
        };
        let sparse_name = take("GNU.sparse.name");
        let real_size = take("GNU.sparse.realsize").or_else(|| take("GNU.sparse.size"));
        let version = (take("GNU.sparse.major"), take("GNU.sparse.minor"));
        let map = take("GNU.sparse.map");
        let mut size = if kind == Kind::File { stored } else { 0 };
        let mut sparse = None;
        if let (Some(major), Some(minor)) = &version {
            ensure!(
                major == b"1" && minor == b"0",
                "a sparse file of an unknown version"
            );
            let (segments, bytes) = self.sparse_map(stored)?;
            stored -= bytes;
            sparse = Some(segments);
        } else if let Some(map) = map {
            sparse = Some(pairs(map.split(|byte| *byte == b','))?);
        } else if header[156] == b'S' {
            size = number(&header[483..495])?;
            sparse = Some(self.old_sparse_map(header)?);
        }
        if let Some(segments) = &sparse {
            // Without a map the data are all that there is, whatever else is said.
            size = decimal(real_size)?.unwrap_or(size);
            ensure!(size <= MOST_BYTES, "a sparse file of {size} bytes");
            let sum = segments.iter().try_fold(0_u64, |sum, (start, length)| {
                start.checked_add(*length).filter(|end| *end <= size)?;
                sum.checked_add(*length)
            });
            ensure!(
                sum == Some(stored),
                "the map of a sparse file contradicts its size"
            );
        }
        if !matches!(kind, Kind::File | Kind::HardLink) {
            stored = 0;
        }
        let with_prefix = |prefix| {
            let named = records.iter().filter_map(move |(key, value)| {
                let name = key.strip_prefix(prefix)?;
                Some((name.to_vec(), value.clone()))
            });
            named.collect()
        };
        let extended = with_prefix(&b"SCHILY.xattr."[..]);
        let acls = with_prefix(acl::RECORD);
        Ok(Found {
            stored,
            member: Member {
                kind,
                path: sparse_name.unwrap_or(path),
                target: target.unwrap_or_else(|| text(&header[157..257]).to_vec()),
                mode: number(&header[100..108])? as u32 & 0o7777,
                uid,
                gid,
                user,
                group,
                seconds,
                nanoseconds,
                device: (
                    number(&header[329..337])? as u32,
                    number(&header[337..345])? as u32,
                ),
                size,
                sparse,
                extended,
                acls,
            },
        })
    }

    /// The map before the data of a sparse file, and its length.
    fn sparse_map(&mut self, stored: u64) -> Result<(Vec<(u64, u64)>, u64)> {
        let mut bytes = Vec::new();
        let mut lines = 0_u64;
        // A map may have millions of lines: none is looked at twice.
        let mut wanted = None;
        loop {
            let mut block = [0; BLOCK];
            ensure!(
                bytes.len() as u64 + BLOCK as u64 <= stored,
                "a sparse file without its map"
            );
            self.read(&mut block)?;
            bytes.extend_from_slice(&block);
            lines += block.iter().filter(|byte| **byte == b'\n').count() as u64;
            if wanted.is_none() && lines > 0 {
                let first = bytes.split(|byte| *byte == b'\n').next();
                let count = decimal(first.map(<[u8]>::to_vec))?.unwrap_or(0);
                ensure!(count <= stored, "a sparse file with {count} pieces");
                wanted = Some(count * 2);
            }
            if let Some(wanted) = wanted
                && lines > wanted
            {
                let numbers = bytes.split(|byte| *byte == b'\n').skip(1);
                let segments = pairs(numbers.take(wanted as usize))?;
                return Ok((segments, bytes.len() as u64));
            }
            // The number of pieces has fewer digits than that.
            ensure!(lines > 0, "a sparse file without its map");
        }
    }

    fn old_sparse_map(&mut self, header: &[u8; BLOCK]) -> Result<Vec<(u64, u64)>> {
        let mut segments = Vec::new();
        let mut add = |entries: &[u8]| -> Result<()> {
            for entry in entries.as_chunks::<24>().0 {
                if entry[0] != 0 {
                    segments.push((number(&entry[..12])?, number(&entry[12..])?));
                }
            }
            Ok(())
        };
        add(&header[386..482])?;
        let mut more = header[482] != 0;
        while more {
            let mut block = [0; BLOCK];
            self.read(&mut block)?;
            add(&block[..504])?;
            more = block[504] != 0;
        }
        Ok(segments)
    }
}

fn read_all(input: &mut impl Read, bytes: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < bytes.len() {
        match input.read(&mut bytes[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(got)
}

/// `LENGTH KEY=VALUE\n`, again and again. A value of nothing takes the key away.
fn read_records(bytes: &[u8], records: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let space = rest.iter().position(|byte| *byte == b' ').unwrap_or(0);
        let length: usize = std::str::from_utf8(&rest[..space])?.parse()?;
        let record = rest
            .get(space + 1..length)
            .and_then(|it| it.strip_suffix(b"\n"));
        let Some((key, value)) = record.and_then(|record| {
            let equals = record.iter().position(|byte| *byte == b'=')?;
            Some((&record[..equals], &record[equals + 1..]))
        }) else {
            bail!("an extended header is damaged");
        };
        if value.is_empty() && !key.starts_with(b"SCHILY.xattr.") {
            records.remove(key);
        } else {
            records.insert(key.to_vec(), value.to_vec());
        }
        rest = &rest[length..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member() -> Member {
        Member {
            kind: Kind::File,
            path: b"dir/\xff\n".repeat(30),
            target: Vec::new(),
            mode: 0o4755,
            uid: 3_000_000_000,
            gid: 7,
            user: "someone with a name longer than the field".into(),
            group: "group".into(),
            seconds: -5,
            nanoseconds: 250_000_000,
            device: (0, 0),
            size: 1 << 40,
            sparse: Some(vec![(512, 10), (1 << 39, 3), (1 << 40, 0)]),
            extended: vec![(b"user.a=b".to_vec(), b"\n\0".to_vec())],
            acls: vec![(
                b"access".to_vec(),
                b"user::rwx,group::r-x,other::---".to_vec(),
            )],
        }
    }

    #[test]
    fn members_are_read_as_they_were_written() {
        let mut given = member();
        // A key ends at the first '='.
        given.extended = vec![(b"user.a".to_vec(), b"\n\0=".to_vec())];
        let plain = Member {
            sparse: None,
            size: 3,
            path: b"short".to_vec(),
            ..given.clone()
        };
        for member in [given, plain] {
            let (bytes, stored) = member.headers();
            let mut parser = Parser::new(&bytes[..]);
            let found = parser.next().unwrap().unwrap();
            assert_eq!(found.member, member);
            assert_eq!(found.stored, stored);
            assert_eq!(parser.at, bytes.len() as u64, "the data come next");
        }
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let (bytes, _) = member().headers();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            let _ = Parser::new(&damaged[..]).next();
            let cut = Parser::new(&bytes[..at]).next();
            assert!(cut.is_err(), "cut at {at}");
        }
    }

    /// A header of nothing but what is given, with its sum, and an extended header of records
    /// before it.
    fn archive(name: &[u8], kind: u8, records: &str) -> Vec<u8> {
        let mut all = Vec::new();
        let blocks: [(&[u8], u8, &[u8]); 2] = [(b"x", b'x', records.as_bytes()), (name, kind, b"")];
        for (name, kind, data) in blocks {
            if kind == b'x' && data.is_empty() {
                continue;
            }
            let mut header = [0; BLOCK];
            header[..name.len()].copy_from_slice(name);
            header[124..136].copy_from_slice(format!("{:011o}\0", data.len()).as_bytes());
            header[156] = kind;
            header[148..156].fill(b' ');
            let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
            header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
            all.extend_from_slice(&header);
            all.extend_from_slice(data);
            all.resize(all.len().next_multiple_of(BLOCK), 0);
        }
        all
    }

    #[test]
    fn no_member_is_longer_than_a_file_can_be() {
        let read = |records: &str| Parser::new(&archive(b"a", b'0', records)[..]).next();
        for size in ["18446744073709550080", "9223372036854775808"] {
            let length = size.len() + "00 size=\n".len();
            let said = read(&format!("{length} size={size}\n"));
            let said = said.unwrap_err().to_string();
            assert_eq!(said, format!("a member of {size} bytes"));
        }
        let most = read("28 size=9223372036854775807\n").unwrap().unwrap();
        assert_eq!(most.stored, i64::MAX as u64);
        let real = "22 GNU.sparse.major=1\n22 GNU.sparse.minor=0\n\
                    43 GNU.sparse.realsize=9223372036854775808\n";
        assert!(read(real).is_err());
        // Of a file that is not sparse it says nothing.
        let found = read("34 GNU.sparse.realsize=1234567890\n")
            .unwrap()
            .unwrap();
        assert_eq!((found.stored, found.member.size), (0, 0));
    }

    #[test]
    fn what_is_not_there_is_not_gone_over() {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, &[0; 3 * BLOCK]).unwrap();
        for bytes in [2 * BLOCK as u64 + 1, 1 << 62, u64::MAX - 511] {
            file.rewind().unwrap();
            let mut parser = Parser::new(std::io::BufReader::new(&file));
            parser.read(&mut [0; BLOCK]).unwrap();
            let over = parser.pass_over(bytes, Some(&file));
            let said = over.unwrap_err().to_string();
            assert_eq!(said, "the archive ends in the middle of a member");
        }
    }

    #[test]
    fn a_file_whose_name_ends_with_a_slash_is_a_directory() {
        for (name, kind, is) in [
            (&b"d/"[..], b'\0', Kind::Directory),
            (b"d/", b'0', Kind::Directory),
            (b"d", b'\0', Kind::File),
            (b"d/", b'1', Kind::HardLink),
        ] {
            let found = Parser::new(&archive(name, kind, "")[..]).next();
            assert_eq!(found.unwrap().unwrap().member.kind, is);
        }
    }

    #[test]
    fn a_map_of_many_pieces_is_read_once() {
        // With a look at all of it for each block it would take many minutes.
        let mut given = member();
        given.extended.clear();
        let pieces = 1_000_000;
        given.sparse = Some((0..pieces).map(|at| (at * 8_192, 4_096)).collect());
        let (bytes, stored) = given.headers();
        let mut parser = Parser::new(&bytes[..]);
        let found = parser.next().unwrap().unwrap();
        assert_eq!(found.stored, stored);
        assert_eq!(found.member, given);
        assert_eq!(parser.at, bytes.len() as u64);
    }
}
