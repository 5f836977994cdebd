//! Arguments that name what is packed or unpacked.

use anyhow::Context;
use clap::builder::ValueParser;
use clap::error::Error;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

const DIRECTORY: &str = "directory";
const PATHS: &str = "paths";

/// Letters of an old-style bundle that take the next words with them.
const TAKING: &[u8] = b"fCXTI";

/// Paths and the directories that they are in: `-C` holds for the paths after it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TarArgs(Vec<TarArg>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum TarArg {
    Directory(OsString),
    Path(OsString),
}

/// Paths that are in one directory, to go to from where one is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub directories: Vec<OsString>,
    pub paths: Vec<OsString>,
}

impl TarArgs {
    /// The paths, by directory: at least one place.
    pub(crate) fn places(&self) -> Vec<Place> {
        let mut places = vec![Place::default()];
        let mut last = 0;
        for word in &self.0 {
            match word {
                TarArg::Path(path) => places[last].paths.push(path.clone()),
                TarArg::Directory(directory) => {
                    if !places[last].paths.is_empty() {
                        places.push(Place::default());
                        last += 1;
                    }
                    places[last].directories.push(directory.clone());
                }
            }
        }
        places
    }
}

impl Args for TarArgs {
    fn augment_args(command: Command) -> Command {
        command
            .arg(
                Arg::new(DIRECTORY)
                    .short('C')
                    .long(DIRECTORY)
                    .value_name("DIR")
                    .action(ArgAction::Append)
                    .value_parser(ValueParser::os_string())
                    .value_hint(ValueHint::DirPath)
                    .help("Go to this directory first; when packing, before the paths after it"),
            )
            .arg(
                Arg::new(PATHS)
                    .value_name("PATH")
                    .action(ArgAction::Append)
                    .num_args(0..)
                    .value_parser(ValueParser::os_string())
                    .value_hint(ValueHint::AnyPath)
                    .help("What to pack, or which members to unpack or list, with all that is in them"),
            )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for TarArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<TarArgs, Error> {
        let mut words = TarArgs::default();
        words.update_from_arg_matches(matches)?;
        Ok(words)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        let of = |id, word: fn(OsString) -> TarArg| {
            let values = matches.get_many::<OsString>(id).into_iter().flatten();
            let places = matches.indices_of(id).into_iter().flatten();
            places.zip(values.cloned().map(word)).collect::<Vec<_>>()
        };
        let mut all = of(DIRECTORY, TarArg::Directory);
        all.extend(of(PATHS, TarArg::Path));
        all.sort_by_key(|(place, _)| *place);
        self.0 = all.into_iter().map(|(_, word)| word).collect();
        Ok(())
    }
}

/// A command line in which `tar cvf ARCHIVE PATH`, as people have typed it for fifty years, is
/// `tar -c -v -f=ARCHIVE PATH`.
pub(crate) fn plain(line: Vec<OsString>) -> Vec<OsString> {
    let is_tar = line.get(1).is_some_and(|word| word == "tar");
    let Some(bundle) = line.get(2).filter(|_| is_tar) else {
        return line;
    };
    if bundle.is_empty() || bundle.as_bytes()[0] == b'-' || !bundle.is_ascii() {
        return line;
    }
    let mut plain = line[..2].to_vec();
    let mut rest = line[3..].iter();
    for letter in bundle.as_bytes() {
        let mut word = vec![b'-', *letter];
        if TAKING.contains(letter)
            && let Some(value) = rest.next()
        {
            word.push(b'=');
            word.extend_from_slice(value.as_bytes());
        }
        plain.push(OsString::from_vec(word));
    }
    plain.extend(rest.cloned());
    plain
}

/// Names in a file, or in standard input for `-`.
///
/// # Errors
/// When it cannot be read.
pub(crate) fn names_in(file: &OsStr, with_nul: bool) -> anyhow::Result<Vec<OsString>> {
    let list = if file == "-" {
        let mut list = Vec::new();
        std::io::stdin().lock().read_to_end(&mut list)?;
        list
    } else {
        std::fs::read(file).with_context(|| format!("-T: {}", file.display()))?
    };
    Ok(names(&list, with_nul))
}

/// Names in a list, a line each or with a NUL after each; in lines a backslash is followed by `n`,
/// `t`, another backslash or three octal digits, as `tar -t` prints them.
fn names(list: &[u8], with_nul: bool) -> Vec<OsString> {
    let end = if with_nul { 0 } else { b'\n' };
    let names = list.split(|byte| *byte == end);
    let names = names.filter(|name| !name.is_empty());
    names
        .map(|name| {
            if with_nul {
                OsStr::from_bytes(name).to_owned()
            } else {
                OsString::from_vec(unquoted(name))
            }
        })
        .collect()
}

fn unquoted(name: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            bytes.push(first);
            continue;
        }
        let octal = after.get(..3).and_then(|digits| {
            let is_octal = digits.iter().all(|digit| (b'0'..=b'7').contains(digit));
            let text = std::str::from_utf8(digits).ok().filter(|_| is_octal)?;
            u8::from_str_radix(text, 8).ok()
        });
        let simple = after.first().and_then(|letter| simple(*letter));
        match (octal, simple) {
            (Some(byte), _) => {
                bytes.push(byte);
                rest = &after[3..];
            }
            (None, Some(byte)) => {
                bytes.push(byte);
                rest = &after[1..];
            }
            (None, None) => bytes.push(b'\\'),
        }
    }
    bytes
}

/// Returns the meaning of a letter behind a backslash.
fn simple(letter: u8) -> Option<u8> {
    let known = ESCAPES.iter().find(|(_, it)| *it == letter);
    known.map(|(byte, _)| *byte)
}

/// Bytes and the letters that stand for them behind a backslash.
const ESCAPES: [(u8, u8); 8] = [
    (7, b'a'),
    (8, b'b'),
    (b'\t', b't'),
    (b'\n', b'n'),
    (11, b'v'),
    (12, b'f'),
    (b'\r', b'r'),
    (b'\\', b'\\'),
];

/// Appends a name in one line as GNU tar prints it, which [`names_in`] reads: with octal numbers
/// for what is invisible.
pub(crate) fn quote(name: &[u8], out: &mut Vec<u8>) {
    use std::io::Write;
    for chunk in name.utf8_chunks() {
        for letter in chunk.valid().chars() {
            let mut buffer = [0; 4];
            let bytes = letter.encode_utf8(&mut buffer).as_bytes();
            match ESCAPES.iter().find(|(byte, _)| [*byte] == *bytes) {
                Some((_, escape)) => out.extend_from_slice(&[b'\\', *escape]),
                None if letter.is_control() => octal(bytes, out),
                None => out.extend_from_slice(bytes),
            }
        }
        octal(chunk.invalid(), out);
    }
    fn octal(bytes: &[u8], out: &mut Vec<u8>) {
        for byte in bytes {
            // A vector takes everything.
            let _ = write!(out, "\\{byte:03o}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn bundles_without_a_dash_are_options() {
        for (given, expected) in [
            ("p tar cvf x.tar a b", "p tar -c -v -f=x.tar a b"),
            (
                "p tar xf - --strip-components=1",
                "p tar -x -f=- --strip-components=1",
            ),
            ("p tar xCf dir x.tar a", "p tar -x -C=dir -f=x.tar a"),
            ("p tar tf", "p tar -t -f"),
            ("p tar -cf x.tar a", "p tar -cf x.tar a"),
            ("p tar --help", "p tar --help"),
            ("p find cf", "p find cf"),
            ("p tar", "p tar"),
        ] {
            assert_eq!(plain(words(given)), words(expected), "{given}");
        }
    }

    #[test]
    fn directories_hold_for_the_paths_after_them() {
        let read = |text: &str| {
            let command = TarArgs::augment_args(Command::new("tar"));
            let matches = command.try_get_matches_from(words(text)).unwrap();
            TarArgs::from_arg_matches(&matches).unwrap().places()
        };
        let place = |directories: &[&str], paths: &[&str]| Place {
            directories: directories.iter().map(OsString::from).collect(),
            paths: paths.iter().map(OsString::from).collect(),
        };
        assert_eq!(read("tar"), [place(&[], &[])]);
        assert_eq!(
            read("tar a -C d b"),
            [place(&[], &["a"]), place(&["d"], &["b"])]
        );
        let both = [place(&["d", "e"], &["b", "c"]), place(&["../f"], &["g"])];
        assert_eq!(read("tar -C d --directory=e b c -C ../f g"), both);
    }

    #[test]
    fn names_are_read_as_they_are_printed() {
        for (name, text) in [
            (&b"plain gr\xc3\xbcn"[..], "plain gr\u{fc}n"),
            (b"a\n\\\x01\xff\t", "a\\n\\\\\\001\\377\\t"),
        ] {
            let mut quoted = Vec::new();
            quote(name, &mut quoted);
            assert_eq!(quoted, text.as_bytes());
            assert_eq!(names(&quoted, false), [OsStr::from_bytes(name)]);
        }
        assert_eq!(names(b"a\n\nb\\q\n", false), ["a", "b\\q"]);
        assert_eq!(names(b"a\nb\0c\\n\0", true), ["a\nb", "c\\n"]);
    }
}
