//! Parser of a command line of find: options, roots, expression.

use crate::find::exec::Exec;
use crate::find::expression::{Action, Compare, Expression};
use crate::find::format::Format;
use crate::find::glob::Glob;
use crate::find::regexes::Syntax;
use crate::find::values::{compare, tomorrow};
use crate::roots;
use anyhow::{Context, Result, bail};
use pandofs_walk_fs::{Follow, Time};
use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// Query of a command line.
#[derive(Debug)]
pub(crate) struct Query {
    pub roots: Vec<OsString>,
    pub expression: Expression,
    pub execs: Vec<Exec>,
    pub follow: Follow,
    pub max_depth: u32,
    pub min_depth: u32,
    pub one_file_system: bool,
    /// Directories after what is in them.
    pub depth_first: bool,
    /// Excluded entries, with all below them: names, or paths if there is a slash in the pattern.
    pub excluded: Vec<(bool, Glob)>,
    /// Names of the output files besides standard output.
    pub files: Vec<OsString>,
    /// When files were made is asked for.
    pub needs_birth: bool,
    /// There is a -quit.
    pub quits: bool,
    /// There is a -delete.
    pub deletes: bool,
    /// A file named the roots, maybe none.
    pub roots_are_listed: bool,
}

impl Query {
    /// Returns whether it does more than to list what it finds.
    pub(crate) fn acts(&self) -> bool {
        self.deletes || !self.execs.is_empty() || !self.files.is_empty()
    }
}

/// # Errors
/// When it is none of find's, or asks for what this find does not do.
pub(crate) fn parse(words: &[OsString]) -> Result<Query> {
    let mut parser = Parser {
        words,
        at: 0,
        syntax: Syntax::Emacs,
        acts: false,
        prunes: false,
        says_depth: false,
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
            needs_birth: false,
            quits: false,
            deletes: false,
            roots_are_listed: false,
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
    if query.depth_first && parser.prunes && !parser.says_depth {
        bail!(
            "-prune does nothing with -depth, which -delete implies: a directory comes after what \
               is in it; say -depth as well if that is meant"
        );
    }
    if query.roots.is_empty() && !query.roots_are_listed {
        query.roots.push(".".into());
    }
    Ok(query)
}

pub(super) struct Parser<'p> {
    words: &'p [OsString],
    at: usize,
    pub(super) syntax: Syntax,
    /// Whether there is an action that replaces -print.
    acts: bool,
    prunes: bool,
    /// -depth is written out.
    says_depth: bool,
    /// Ages count from here rather than from now.
    pub(super) ages_from: Option<Time>,
    pub(super) query: Query,
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
                // How GNU find orders tests, and what it says of itself: nothing that is found
                // depends on it.
                [b'-', b'O', level @ ..] => {
                    if level.is_empty() || !level.iter().all(u8::is_ascii_digit) {
                        bail!("-O needs a number right behind it");
                    }
                }
                b"-D" => {
                    self.at += 1;
                    self.argument("-D")?;
                    continue;
                }
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
            bail!("'{}' is not known to find", word.display());
        };
        self.primary(name)
    }

    /// The argument of a test or an action.
    pub(super) fn argument(&mut self, of: &str) -> Result<&'p OsStr> {
        self.next()
            .with_context(|| format!("{of} needs an argument"))
    }

    pub(super) fn text(&mut self, of: &str) -> Result<&'p str> {
        let argument = self.argument(of)?;
        let text = argument.to_str();
        text.with_context(|| format!("{of}: '{}' is not UTF-8", argument.display()))
    }

    pub(super) fn compare(&mut self, of: &str) -> Result<Compare> {
        let text = self.text(of)?;
        compare(text).with_context(|| format!("{of}: '{text}' is no number like 7, +7 or -7"))
    }

    pub(super) fn glob(&mut self, of: &str, fold: bool) -> Result<Glob> {
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

    /// Parses an option, which holds for the whole search wherever it is written, and is true.
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
            "-depth" | "-d" => {
                self.query.depth_first = true;
                self.says_depth = true;
            }
            "-follow" => self.query.follow = Follow::Always,
            "-noleaf" | "-ignore_readdir_race" | "-noignore_readdir_race" | "-nowarn" | "-warn" => {
            }
            "-daystart" => self.ages_from = Some(tomorrow()?),
            "-files0-from" => self.roots_from()?,
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
            "-printf" => Action::Printf(self.format(name)?),
            "-ls" => Action::Ls,
            "-fprint" | "-fprint0" | "-fls" => {
                let file = self.file(name)?;
                into(
                    file,
                    match name {
                        "-fprint" => Action::Print,
                        "-fprint0" => Action::Print0,
                        _ => Action::Ls,
                    },
                )
            }
            "-fprintf" => {
                let file = self.file(name)?;
                into(file, Action::Printf(self.format(name)?))
            }
            "-delete" => {
                self.query.deletes = true;
                self.query.depth_first = true;
                Action::Delete
            }
            "-exec" | "-execdir" | "-ok" | "-okdir" => self.exec(name)?,
            "-prune" => {
                self.prunes = true;
                return Ok(Some(Action::Prune));
            }
            "-quit" => {
                self.query.quits = true;
                return Ok(Some(Action::Quit));
            }
            _ => return Ok(None),
        };
        self.acts = true;
        Ok(Some(action))
    }

    fn format(&mut self, of: &str) -> Result<Format> {
        let format = Format::parse(self.argument(of)?.as_bytes())?;
        self.query.needs_birth |= format.needs_birth();
        Ok(format)
    }

    /// The number of a file that is written; none for standard output. One that is named twice is
    /// one file.
    fn file(&mut self, of: &str) -> Result<Option<usize>> {
        let name = self.argument(of)?;
        if name == "/dev/stdout" {
            return Ok(None);
        }
        let known = self.query.files.iter().position(|file| file == name);
        Ok(Some(known.unwrap_or_else(|| {
            self.query.files.push(name.to_owned());
            self.query.files.len() - 1
        })))
    }

    /// `-files0-from FILE`: roots, each with a NUL after it.
    fn roots_from(&mut self) -> Result<()> {
        let name = "-files0-from";
        let file = self.argument(name)?;
        if !self.query.roots.is_empty() {
            bail!("{name}: roots are on the command line already");
        }
        self.query.roots = roots::from_file(name, file)?;
        self.query.roots_are_listed = true;
        Ok(())
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
        let in_directory = name.ends_with("dir");
        if in_directory && !env::var_os("PATH").is_none_or(|path| finds_nothing_here(&path)) {
            bail!(
                "{name} runs commands in the directories that are searched, and PATH has an entry that would find them there: \
                 leave out what does not begin with '/'"
            );
        }
        let asks = name.starts_with("-ok");
        if asks && batch {
            bail!("{name} asks of each entry, so it takes no '+'");
        }
        self.query.execs.push(Exec {
            words,
            in_directory,
            asks,
            batch,
        });
        Ok(Action::Exec(self.query.execs.len() - 1))
    }
}

fn into(file: Option<usize>, action: Action) -> Action {
    match file {
        Some(file) => Action::To(file, Box::new(action)),
        None => action,
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

/// Returns whether commands that are looked for in these places are never those of whatever
/// directory one is in.
fn finds_nothing_here(path: &OsStr) -> bool {
    env::split_paths(path).all(|place| place.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::find::expression::Test;

    fn read(words: &str) -> Result<Query> {
        parse(
            &words
                .split_whitespace()
                .map(OsString::from)
                .collect::<Vec<_>>(),
        )
    }

    #[test]
    fn commands_are_not_looked_for_in_the_directory_one_is_in() {
        let finds_nothing = |path| finds_nothing_here(OsStr::new(path));
        assert!(finds_nothing("/usr/bin:/bin"));
        for path in [".:/bin", "/bin:", ":/bin", "/usr/bin::/bin", "bin", ""] {
            assert!(!finds_nothing(path), "{path}");
        }
    }

    #[test]
    fn only_what_would_be_looked_at_anyway_is_looked_at_first() {
        let looks = |words| read(words).unwrap().expression.looks_first();
        assert!(
            looks(". -size +1") && looks(". ! -mtime 1 -name x") && looks(". ( -uid 1 -o -print )")
        );
        assert!(!looks(".") && !looks(". -name x -size +1") && !looks(". -type f -size +1"));
        assert!(!looks(". ( -name x -o -size +1 )"));
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
            (". )", "')' is not known"),
            (". -true )", "no place"),
            (". -true -o", "missing"),
            (". -type x", "'x'"),
            (". -perm z", "mode"),
            (". -exec ls", "';'"),
            (". -exec ;", "command"),
            (". -user no-such-user-here", "no user"),
            (". -newer /no/such/file", "/no/such/file"),
            (". -name x -prune -delete", "-prune"),
            ("-Ox .", "-O"),
            ("-D", "-D"),
            (". -mtime +-3", "number"),
        ] {
            let error = format!("{:#}", read(words).unwrap_err());
            assert!(error.contains(why), "{words}: {error}");
        }
    }
}
