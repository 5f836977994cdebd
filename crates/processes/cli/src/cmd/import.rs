//! `pandofs trace import`

use crate::table::{Align, Table};
use crate::units;
use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pandofs_workload::{Form, Imported, StraceOptions, import};
use std::fs::File;
use std::io::BufWriter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Time after which it is shown how far it is.
const QUIET: Duration = Duration::from_secs(2);

#[derive(Args, Clone, Debug)]
pub(crate) struct Import {
    /// Form of what is read
    #[arg(long, value_enum, value_name = "FORM")]
    from: From,
    /// strace: the directory that becomes the root of the recording, as the kernel has it; what programs did elsewhere is
    /// left out
    #[arg(long, value_name = "DIR", required_if_eq("from", "strace"))]
    below: Option<PathBuf>,
    /// strace: the working directory of the first process [default: that of --below]
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// strace: the umask of the first process, in eights
    #[arg(long, value_name = "MASK", default_value = "022", value_parser = mask)]
    umask: u16,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The file to read, as text
    trace: PathBuf,
    /// The recording to make; one that is there is replaced when the new one is whole
    recording: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum From {
    /// strace -f -ttt -T, with -y or without
    Strace,
    /// nfsdump's text
    Nfsdump,
}

fn mask(text: &str) -> std::result::Result<u16, String> {
    let mask = u16::from_str_radix(text, 8).map_err(|error| error.to_string())?;
    match mask <= 0o777 {
        true => Ok(mask),
        false => Err("a mask has nine bits".to_owned()),
    }
}

impl Import {
    /// # Errors
    /// When the trace cannot be read or makes no sense, and the recording cannot be written. A recording that was there stays
    /// then.
    pub(crate) fn run(&self) -> Result<()> {
        let shown = self.trace.display();
        let mut from = File::open(&self.trace).with_context(|| format!("cannot open {shown}"))?;
        let found = from
            .metadata()
            .with_context(|| format!("cannot look at {shown}"))?;
        ensure!(
            found.is_file(),
            "{shown} is to be a file: it is gone through twice"
        );
        let mut new = New::make(&self.recording)?;
        let bar = progress(2 * found.len());
        let begun = Instant::now();
        let imported = import(
            &self.form(),
            &mut from,
            BufWriter::new(&mut new.file),
            &mut |read| {
                if begun.elapsed() >= QUIET {
                    bar.set_position(read);
                }
            },
        );
        bar.finish_and_clear();
        let imported = imported.with_context(|| shown.to_string())?;
        new.keep()?;
        self.show(&imported)
    }

    fn form(&self) -> Form {
        match self.from {
            From::Nfsdump => Form::Nfsdump,
            From::Strace => {
                let bytes = |path: &PathBuf| path.as_os_str().as_bytes().to_vec();
                Form::Strace(StraceOptions {
                    below: self.below.as_ref().map(bytes).unwrap_or_default(),
                    directory: self.cwd.as_ref().map(bytes),
                    umask: self.umask,
                })
            }
        }
    }

    fn show(&self, imported: &Imported) -> Result<()> {
        if self.json {
            let text = serde_json::to_string_pretty(imported).context("cannot write JSON")?;
            return crate::print(&format!("{text}\n"));
        }
        let mut text = format!(
            "{} of {} are in {}\n",
            units::plural(imported.operations, "operation", "operations"),
            units::plural(imported.lines, "line", "lines"),
            self.recording.display()
        );
        if imported.cut_short {
            text += "the trace was cut short: programs went on\n";
        }
        if !imported.left_out.is_empty() {
            let mut table = Table::new(&[
                ("left out", Align::Left),
                ("call", Align::Left),
                ("times", Align::Right),
            ]);
            for (why, calls) in &imported.left_out {
                for (name, count) in calls {
                    table.row(vec![why.clone(), name.clone(), count.to_string()]);
                }
            }
            text += &table.to_string();
        }
        crate::print(&text)
    }
}

/// A file that takes the place of another one when it is whole.
struct New {
    file: File,
    at: PathBuf,
    to: PathBuf,
    is_kept: bool,
}

impl New {
    fn make(to: &Path) -> Result<New> {
        let mut at = to.as_os_str().to_owned();
        at.push(format!(".{}.new", std::process::id()));
        let at = PathBuf::from(at);
        let file = File::create_new(&at);
        let file = file.with_context(|| format!("cannot make {}", at.display()))?;
        Ok(New {
            file,
            at,
            to: to.to_owned(),
            is_kept: false,
        })
    }

    fn keep(mut self) -> Result<()> {
        let shown = self.to.display();
        self.file
            .sync_all()
            .with_context(|| format!("cannot write {shown}"))?;
        std::fs::rename(&self.at, &self.to).with_context(|| format!("cannot make {shown}"))?;
        self.is_kept = true;
        Ok(())
    }
}

impl Drop for New {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = std::fs::remove_file(&self.at)
        {
            tracing::warn!("cannot remove {}: {error}", self.at.display());
        }
    }
}

/// Drawn on a terminal, and only when it takes a while.
fn progress(bytes: u64) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(bytes), ProgressDrawTarget::stderr_with_hz(4));
    let template = "{bar:40} {bytes} of {total_bytes}, {eta} to go";
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_in_eights() {
        assert_eq!(mask("022"), Ok(0o22));
        assert_eq!(mask("777"), Ok(0o777));
        for wrong in ["8", "1000", "", "x"] {
            assert!(mask(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_recording_that_fails_leaves_the_one_that_was_there() {
        let folder = tempfile::tempdir().unwrap();
        let (trace, recording) = (folder.path().join("in"), folder.path().join("out"));
        std::fs::write(&recording, "before").unwrap();
        let import = Import {
            from: From::Strace,
            below: Some("/w".into()),
            cwd: None,
            umask: 0o22,
            json: false,
            trace: trace.clone(),
            recording: recording.clone(),
        };
        std::fs::write(
            &trace,
            "1 1700000000.000001 mkdir(\"/w/a\", 0777) = 0\nnonsense\n",
        )
        .unwrap();
        let error = format!("{:#}", import.run().unwrap_err());
        assert!(error.contains("/in: line 2: no time stamp"), "{error}");
        assert_eq!(std::fs::read_to_string(&recording).unwrap(), "before");
        std::fs::write(&trace, "1 1700000000.000001 mkdir(\"/w/a\", 0777) = 0\n").unwrap();
        import.run().unwrap();
        let made = std::fs::read_to_string(&recording).unwrap();
        assert_eq!(made.lines().count(), 3, "{made}");
        assert!(made.ends_with("{\"ended\":1}\n"), "{made}");
        assert_eq!(
            std::fs::read_dir(folder.path()).unwrap().count(),
            2,
            "nothing else is left"
        );
    }
}
