//! Reads a command line of find: options, roots, expression.

use crate::find::exec::Exec;
use crate::find::expression::{Action, Compare, DAY, Expression, Permissions, Test, Which};
use crate::find::format::Format;
use crate::find::glob::Glob;
use crate::find::regexes::{self, Syntax};
use crate::find::{permissions, users};
use anyhow::{Context, Result, bail};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use pandofs_walk_fs::{FileType, Follow, Time};
use rustix::fs::Access;
use std::cmp::Ordering;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

/// What a command line asks for.
#[derive(Debug)]
pub struct Query {
    pub roots: Vec<OsString>,
    pub expression: Expression,
    pub execs: Vec<Exec>,
    pub follow: Follow,
    pub max_depth: u32,
    pub min_depth: u32,
    pub one_file_system: bool,
    /// Directories after what is in them.
    pub depth_first: bool,
    /// What is left out, with all below it: names, or paths if there is a slash in the pattern.
    pub excluded: Vec<(bool, Glob)>,
    /// What is written to besides standard output, by name.
    pub files: Vec<OsString>,
}

/// # Errors
/// When it is none of find's, or asks for what this find does not do.
pub fn parse(words: &[OsString]) -> Result<Query> {
    let mut parser = Parser {
        words,
        at: 0,
        syntax: Syntax::Emacs,
        acts: false,
        prunes: false,
        query: Query {
            roots: Vec::new(),
            expression: Expression::Constant(true),
            execs: Vec::new(),
            follow: Follow::Never,
            max_depth: u32::MAX,
            min_depth: 0,
            one_file_system: false,
            depth_first: false,
            excluded: Vec::new(),
            files: Vec::new(),
        },
        ages_from: None,
    };
    parser.roots()?;
    if parser.peek().is_some() {
        let expression = parser.list()?;
        if let Some(word) = parser.peek() {
            bail!("'{}' has no place here", word.display());
        }
        parser.query.expression = expression;
    }
    let mut query = parser.query;
    if !parser.acts {
        query.expression =
            Expression::And(vec![query.expression, Expression::Action(Action::Print)]);
    }
    if query.depth_first && parser.prunes {
        bail!(
            "-prune does nothing with -depth, which -delete implies: a directory comes after what \
               is in it"
        );
    }
    if query.roots.is_empty() {
        query.roots.push(".".into());
    }
    Ok(query)
}

struct Parser<'p> {
    words: &'p [OsString],
    at: usize,
    syntax: Syntax,
    /// Whether there is an action that replaces -print.
    acts: bool,
    prunes: bool,
    /// Ages count from here rather than from now.
    ages_from: Option<Time>,
    query: Query,
}

impl<'p> Parser<'p> {
    fn peek(&self) -> Option<&'p OsStr> {
        self.words.get(self.at).map(OsString::as_os_str)
    }

    fn next(&mut self) -> Option<&'p OsStr> {
        let word = self.peek();
        self.at += 1;
        word
    }

    fn is_next(&self, words: &[&str]) -> bool {
        self.peek()
            .is_some_and(|next| words.iter().any(|word| next == *word))
    }

    fn roots(&mut self) -> Result<()> {
        while let Some(word) = self.peek() {
            match word.as_bytes() {
                b"-P" => self.query.follow = Follow::Never,
                b"-H" => self.query.follow = Follow::Roots,
                b"-L" => self.query.follow = Follow::Always,
                b"--exclude" => {
                    self.at += 1;
                    self.exclude("--exclude")?;
                    continue;
                }
                b"(" | b"!" | b")" | b"," => break,
                [b'-', _, ..] => break,
                _ => self.query.roots.push(word.to_owned()),
            }
            self.at += 1;
        }
        Ok(())
    }

    fn exclude(&mut self, name: &str) -> Result<()> {
        let pattern = self.argument(name)?.as_bytes();
        let of_path = pattern.contains(&b'/');
        let glob = Glob::new(pattern, false);
        self.query.excluded.push((of_path, glob));
        Ok(())
    }

    /// `a , b`
    fn list(&mut self) -> Result<Expression> {
        let mut parts = vec![self.or()?];
        while self.is_next(&[","]) {
            self.at += 1;
            parts.push(self.or()?);
        }
        Ok(one_or(parts, Expression::List))
    }

    fn or(&mut self) -> Result<Expression> {
        let mut parts = vec![self.and()?];
        while self.is_next(&["-o", "-or"]) {
            self.at += 1;
            parts.push(self.and()?);
        }
        Ok(one_or(parts, Expression::Or))
    }

    fn and(&mut self) -> Result<Expression> {
        let mut parts = vec![self.not()?];
        while self.peek().is_some() && !self.is_next(&["-o", "-or", ")", ","]) {
            if self.is_next(&["-a", "-and"]) {
                self.at += 1;
            }
            parts.push(self.not()?);
        }
        Ok(one_or(parts, Expression::And))
    }

    fn not(&mut self) -> Result<Expression> {
        if self.is_next(&["!", "-not"]) {
            self.at += 1;
            return Ok(Expression::Not(Box::new(self.not()?)));
        }
        let Some(word) = self.next() else {
            bail!("an expression is missing at the end");
        };
        if word == "(" {
            let inner = self.list()?;
            if self.next() != Some(OsStr::new(")")) {
                bail!("a ')' is missing");
            }
            return Ok(inner);
        }
        let Some(name) = word.to_str() else {
            bail!("'{}' is nothing that find knows", word.display());
        };
        self.primary(name)
    }

    /// The argument of a test or an action.
    fn argument(&mut self, of: &str) -> Result<&'p OsStr> {
        self.next()
            .with_context(|| format!("{of} needs an argument"))
    }

    fn text(&mut self, of: &str) -> Result<&'p str> {
        let argument = self.argument(of)?;
        let text = argument.to_str();
        text.with_context(|| format!("{of}: '{}' is not UTF-8", argument.display()))
    }

    fn compare(&mut self, of: &str) -> Result<Compare> {
        let text = self.text(of)?;
        compare(text).with_context(|| format!("{of}: '{text}' is no number like 7, +7 or -7"))
    }

    fn glob(&mut self, of: &str, fold: bool) -> Result<Glob> {
        Ok(Glob::new(self.argument(of)?.as_bytes(), fold))
    }

    fn primary(&mut self, name: &str) -> Result<Expression> {
        if let Some(option) = self.option(name)? {
            return Ok(option);
        }
        if let Some(action) = self.action(name)? {
            return Ok(Expression::Action(action));
        }
        Ok(Expression::Test(self.test(name)?))
    }

    /// What holds for the whole search, wherever it is written; it is true.
    fn option(&mut self, name: &str) -> Result<Option<Expression>> {
        match name {
            "-maxdepth" | "-mindepth" => {
                let text = self.text(name)?;
                let levels = text.parse();
                let levels = levels.with_context(|| format!("{name}: '{text}' is no number"))?;
                if name == "-maxdepth" {
                    self.query.max_depth = levels;
                } else {
                    self.query.min_depth = levels;
                }
            }
            "-xdev" | "-mount" => self.query.one_file_system = true,
            "-depth" | "-d" => self.query.depth_first = true,
            "-follow" => self.query.follow = Follow::Always,
            "-noleaf" | "-ignore_readdir_race" | "-noignore_readdir_race" | "-nowarn" | "-warn" => {
            }
            "-daystart" => self.ages_from = Some(tomorrow()?),
            "-regextype" => self.syntax = Syntax::named(self.text(name)?)?,
            "--exclude" => self.exclude(name)?,
            "-true" => {}
            "-false" => return Ok(Some(Expression::Constant(false))),
            _ => return Ok(None),
        }
        Ok(Some(Expression::Constant(true)))
    }

    fn action(&mut self, name: &str) -> Result<Option<Action>> {
        let action = match name {
            "-print" => Action::Print,
            "-print0" => Action::Print0,
            "-printf" => Action::Printf(Format::parse(self.argument(name)?.as_bytes())?),
            "-ls" => Action::Ls,
            "-fprint" | "-fprint0" | "-fls" => {
                let file = self.file(name)?;
                let action = match name {
                    "-fprint" => Action::Print,
                    "-fprint0" => Action::Print0,
                    _ => Action::Ls,
                };
                Action::To(file, Box::new(action))
            }
            "-fprintf" => {
                let file = self.file(name)?;
                let format = Format::parse(self.argument(name)?.as_bytes())?;
                Action::To(file, Box::new(Action::Printf(format)))
            }
            "-delete" => {
                self.query.depth_first = true;
                Action::Delete
            }
            "-exec" | "-execdir" => self.exec(name)?,
            "-prune" => {
                self.prunes = true;
                return Ok(Some(Action::Prune));
            }
            "-quit" => return Ok(Some(Action::Quit)),
            _ => return Ok(None),
        };
        self.acts = true;
        Ok(Some(action))
    }

    /// The number of a file that is written. One that is named twice is one file.
    fn file(&mut self, of: &str) -> Result<usize> {
        let name = self.argument(of)?;
        let known = self.query.files.iter().position(|file| file == name);
        Ok(known.unwrap_or_else(|| {
            self.query.files.push(name.to_owned());
            self.query.files.len() - 1
        }))
    }

    fn exec(&mut self, name: &str) -> Result<Action> {
        let mut words: Vec<OsString> = Vec::new();
        let batch = loop {
            let word = self.next();
            match word.map(OsStrExt::as_bytes) {
                Some(b";") => break false,
                Some(b"+") if words.last().is_some_and(|last| last == "{}") => break true,
                _ => {}
            }
            let word =
                word.with_context(|| format!("{name} needs a ';' or '{{}} +' at its end"))?;
            words.push(word.to_owned());
        };
        if words.is_empty() || batch && words.len() == 1 {
            bail!("{name} needs a command");
        }
        if batch && words[..words.len() - 1].iter().any(|word| word == "{}") {
            bail!("{name} with '+' takes one '{{}}', at its end");
        }
        let in_directory = name == "-execdir";
        self.query.execs.push(Exec {
            words,
            in_directory,
            // Names of different directories cannot go together; each directory's would be few.
            batch: batch && !in_directory,
        });
        Ok(Action::Exec(self.query.execs.len() - 1))
    }

    fn test(&mut self, name: &str) -> Result<Test> {
        Ok(match name {
            "-name" => Test::Name(self.glob(name, false)?),
            "-iname" => Test::Name(self.glob(name, true)?),
            "-path" | "-wholename" => Test::Path(self.glob(name, false)?),
            "-ipath" | "-iwholename" => Test::Path(self.glob(name, true)?),
            "-lname" => Test::LinkName(self.glob(name, false)?),
            "-ilname" => Test::LinkName(self.glob(name, true)?),
            "-regex" | "-iregex" => {
                let syntax = self.syntax;
                Test::Regex(regexes::compile(
                    self.text(name)?,
                    syntax,
                    name == "-iregex",
                )?)
            }
            "-type" => Test::Kind(kinds(self.text(name)?)?),
            "-size" => size(self.text(name)?)?,
            "-empty" => Test::Empty,
            "-links" => Test::Links(self.compare(name)?),
            "-inum" => Test::Inode(self.compare(name)?),
            "-uid" => Test::User(self.compare(name)?),
            "-gid" => Test::Group(self.compare(name)?),
            "-user" => {
                let user = self.text(name)?;
                let uid = users::user_number(user);
                Test::User(just(
                    uid.with_context(|| format!("there is no user '{user}'"))?,
                ))
            }
            "-group" => {
                let group = self.text(name)?;
                let gid = users::group_number(group);
                Test::Group(just(
                    gid.with_context(|| format!("there is no group '{group}'"))?,
                ))
            }
            "-nouser" => Test::NoUser,
            "-nogroup" => Test::NoGroup,
            "-perm" => permissions_test(self.text(name)?)?,
            "-readable" => Test::Access(Access::READ_OK),
            "-writable" => Test::Access(Access::WRITE_OK),
            "-executable" => Test::Access(Access::EXEC_OK),
            "-samefile" => {
                let file = self.argument(name)?;
                let it = std::fs::symlink_metadata(file);
                let it = it.with_context(|| format!("{name}: {}", file.display()))?;
                let dev = it.dev();
                let device =
                    u64::from(rustix::fs::major(dev)) << 32 | u64::from(rustix::fs::minor(dev));
                Test::SameFile((device, it.ino()))
            }
            "-atime" => self.age(name, Which::Accessed, DAY)?,
            "-ctime" => self.age(name, Which::Changed, DAY)?,
            "-mtime" => self.age(name, Which::Modified, DAY)?,
            "-amin" => self.age(name, Which::Accessed, 60)?,
            "-cmin" => self.age(name, Which::Changed, 60)?,
            "-mmin" => self.age(name, Which::Modified, 60)?,
            "-newer" => self.newer(name, Which::Modified, Which::Modified)?,
            "-anewer" => self.newer(name, Which::Accessed, Which::Modified)?,
            "-cnewer" => self.newer(name, Which::Changed, Which::Modified)?,
            _ => {
                let times = name.strip_prefix("-newer").map(str::as_bytes);
                if let Some([of, b't']) = times
                    && let Some(of) = which(*of)
                {
                    return self.newer_than_text(name, of);
                }
                if let Some([of, than]) = times
                    && let (Some(of), Some(than)) = (which(*of), which(*than))
                {
                    return self.newer(name, of, than);
                }
                bail!("'{name}' is nothing that this find knows: see --help");
            }
        })
    }

    /// `-atime` and the like. From midnight after `-daystart`, for what comes after it.
    fn age(&mut self, name: &str, which: Which, unit: i64) -> Result<Test> {
        Ok(Test::Age(which, self.compare(name)?, unit, self.ages_from))
    }

    /// `-newermt '2026-02-03 12:00'`
    fn newer_than_text(&mut self, name: &str, of: Which) -> Result<Test> {
        let text = self.text(name)?;
        let time = moment(text).with_context(|| {
            format!(
                "{name}: '{text}' is no date like 2026-02-03, '2026-02-03 12:00' or @1700000000"
            )
        })?;
        Ok(Test::Newer(of, time))
    }

    fn newer(&mut self, name: &str, of: Which, than: Which) -> Result<Test> {
        let file = self.argument(name)?;
        let it = std::fs::metadata(file);
        let it = it.with_context(|| format!("{name}: {}", file.display()))?;
        let (seconds, nanoseconds) = match than {
            Which::Accessed => (it.atime(), it.atime_nsec()),
            Which::Changed => (it.ctime(), it.ctime_nsec()),
            Which::Modified => (it.mtime(), it.mtime_nsec()),
        };
        let nanoseconds = nanoseconds as u32;
        Ok(Test::Newer(
            of,
            Time {
                seconds,
                nanoseconds,
            },
        ))
    }
}

/// The end of today, where we are. GNU find counts from there after `-daystart`.
fn tomorrow() -> Result<Time> {
    let end = Zoned::now().start_of_day().and_then(|day| day.tomorrow());
    let end = end.context("-daystart: today has no end")?;
    Ok(Time {
        seconds: end.timestamp().as_second(),
        nanoseconds: 0,
    })
}

/// A date, with or without a time, in the zone where we are unless it says another; or seconds since 1970.
fn moment(text: &str) -> Option<Time> {
    let time = |at: Timestamp| Time {
        seconds: at.as_second(),
        nanoseconds: at.subsec_nanosecond() as u32,
    };
    if let Some(seconds) = text.strip_prefix('@') {
        let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
        let digits = format!("{fraction:0<9}");
        return Some(Time {
            seconds: whole.parse().ok()?,
            nanoseconds: digits.get(..9)?.parse().ok()?,
        });
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(time(at));
    }
    let local: DateTime = text.parse().ok()?;
    let zoned = local.to_zoned(TimeZone::system()).ok()?;
    Some(time(zoned.timestamp()))
}

fn which(letter: u8) -> Option<Which> {
    match letter {
        b'a' => Some(Which::Accessed),
        b'c' => Some(Which::Changed),
        b'm' => Some(Which::Modified),
        _ => None,
    }
}

fn one_or(mut parts: Vec<Expression>, many: fn(Vec<Expression>) -> Expression) -> Expression {
    match (parts.len(), parts.pop()) {
        (1, Some(part)) => part,
        (_, last) => {
            parts.extend(last);
            many(parts)
        }
    }
}

fn just(number: u32) -> Compare {
    Compare {
        sign: Ordering::Equal,
        number: u64::from(number),
    }
}

fn compare(text: &str) -> Option<Compare> {
    let (sign, digits) = match text.as_bytes().first()? {
        b'+' => (Ordering::Greater, &text[1..]),
        b'-' => (Ordering::Less, &text[1..]),
        _ => (Ordering::Equal, text),
    };
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plain)?;
    Some(Compare { sign, number })
}

fn size(text: &str) -> Result<Test> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "b" | "" => 512,
        "c" => 1,
        "w" => 2,
        "k" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        "T" => 1 << 40,
        "P" => 1 << 50,
        _ => bail!("-size: '{text}' has no unit of c, w, b, k, M, G, T and P"),
    };
    let compare = compare(digits);
    Ok(Test::Size(
        compare.with_context(|| format!("-size: '{text}' is no size like 10k, +10M or -1G"))?,
        unit,
    ))
}

fn kinds(text: &str) -> Result<Vec<FileType>> {
    text.split(',')
        .map(|letter| {
            Ok(match letter {
                "f" => FileType::RegularFile,
                "d" => FileType::Directory,
                "l" => FileType::Symlink,
                "p" => FileType::Fifo,
                "s" => FileType::Socket,
                "c" => FileType::CharacterDevice,
                "b" => FileType::BlockDevice,
                _ => bail!("-type: '{letter}' is none of f, d, l, p, s, c and b"),
            })
        })
        .collect()
}

fn permissions_test(text: &str) -> Result<Test> {
    let bits =
        |text| permissions::parse(text).with_context(|| format!("-perm: '{text}' is no mode"));
    Ok(Test::Permissions(
        if let Some(all) = text.strip_prefix('-') {
            Permissions::AllOf(bits(all)?)
        } else if let Some(any) = text.strip_prefix('/') {
            Permissions::AnyOf(bits(any)?)
        } else {
            Permissions::Exactly(bits(text)?)
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<Query> {
        parse(
            &words
                .split_whitespace()
                .map(OsString::from)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn roots_come_first_and_print_last() {
        let query = read("-L a b -name x").unwrap();
        assert_eq!(query.roots, ["a", "b"]);
        assert_eq!(query.follow, Follow::Always);
        assert!(matches!(
            &query.expression,
            Expression::And(parts) if matches!(
                parts[..],
                [Expression::Test(Test::Name(_)), Expression::Action(Action::Print)]
            )
        ));
        assert_eq!(read("").unwrap().roots, ["."]);
        let query = read("--exclude x a --exclude y/z -name b --exclude w").unwrap();
        assert_eq!(query.roots, ["a"]);
        let of_path: Vec<bool> = query.excluded.iter().map(|(of_path, _)| *of_path).collect();
        assert_eq!(of_path, [false, true, false]);
        assert!(matches!(
            read("-delete").unwrap().expression,
            Expression::Action(Action::Delete)
        ));
    }

    #[test]
    fn and_binds_tighter_than_or_and_both_tighter_than_the_comma() {
        let query = read(". -false -o -true -true , ! ( -false -o -true ) -print").unwrap();
        let Expression::List(parts) = &query.expression else {
            panic!("{:?}", query.expression);
        };
        assert!(matches!(
            &parts[0],
            Expression::Or(or) if matches!(
                &or[..],
                [Expression::Constant(false), Expression::And(and)] if and.len() == 2
            )
        ));
        assert!(matches!(
            &parts[1],
            Expression::And(and) if matches!(
                &and[..],
                [Expression::Not(not), Expression::Action(_)] if matches!(**not, Expression::Or(_))
            )
        ));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (words, why) in [
            ("-name", "argument"),
            ("-nonsense", "-nonsense"),
            (". -size 10q", "10q"),
            (". -size k", "size"),
            (". ( -true", "')'"),
            (". )", "')' is nothing"),
            (". -true )", "no place"),
            (". -true -o", "missing"),
            (". -type x", "'x'"),
            (". -perm z", "mode"),
            (". -exec ls", "';'"),
            (". -exec ;", "command"),
            (". -user no-such-user-here", "no user"),
            (". -newer /no/such/file", "/no/such/file"),
            (". -name x -prune -delete", "-prune"),
            (". -mtime +-3", "number"),
        ] {
            let error = format!("{:#}", read(words).unwrap_err());
            assert!(error.contains(why), "{words}: {error}");
        }
    }
}
