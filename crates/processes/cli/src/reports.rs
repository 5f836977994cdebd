//! Figures on standard output, and in a directory.

use anyhow::{Context, Result};
use pandofs_model::report::{Context as Source, Figure, json_lines, svg, text};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Where figures go.
pub(crate) struct Report {
    source: Source,
    json: bool,
    directory: Option<Directory>,
    holding: usize,
    failing: usize,
}

struct Directory {
    path: PathBuf,
    text: File,
    lines: File,
}

impl Report {
    /// # Errors
    /// When the directory cannot be made or written to.
    pub(crate) fn new(out: Option<&Path>, json: bool, commit: &str, seed: u64) -> Result<Report> {
        let directory = out.map(Directory::make).transpose()?;
        Ok(Report {
            source: Source {
                commit: commit.to_owned(),
                machine: machine(),
                seed,
            },
            json,
            directory,
            holding: 0,
            failing: 0,
        })
    }

    /// Shows the figure, and keeps it.
    ///
    /// # Errors
    /// When the figure cannot be drawn or written.
    pub(crate) fn add(&mut self, figure: &Figure) -> Result<()> {
        self.keep(figure)?;
        for claim in &figure.claims {
            if claim.holds {
                self.holding += 1;
            } else {
                self.failing += 1;
            }
        }
        if self.json {
            let lines = json_lines(figure, &self.source).context("cannot write JSON")?;
            crate::print(&lines)
        } else {
            crate::print(&format!("{}\n", text(figure)))
        }
    }

    /// Keeps the figure in the directory, if there is one.
    ///
    /// # Errors
    /// When the figure cannot be drawn or written.
    pub(crate) fn keep(&mut self, figure: &Figure) -> Result<()> {
        let shown = text(figure);
        let lines = json_lines(figure, &self.source).context("cannot write JSON")?;
        if let Some(directory) = &mut self.directory {
            writeln!(directory.text, "{shown}")?;
            directory.lines.write_all(lines.as_bytes())?;
            let path = directory.path.join(format!("{}.svg", figure.id));
            std::fs::write(&path, svg(figure)?)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Says how many claims hold.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn finish(self) -> Result<()> {
        if self.json {
            return Ok(());
        }
        crate::print(&format!(
            "{} claims hold, {} do not\n",
            self.holding, self.failing
        ))
    }
}

impl Directory {
    fn make(path: &Path) -> Result<Directory> {
        let create = |name: &str| {
            let file = path.join(name);
            File::create(&file).with_context(|| format!("cannot write {}", file.display()))
        };
        std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(Directory {
            path: path.to_owned(),
            text: create("report.txt")?,
            lines: create("report.jsonl")?,
        })
    }
}

/// Description of the machine that this runs on.
pub(crate) fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.and_then(|rest| rest.split_once(':'));
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    format!(
        "{processors} x {}",
        model.map_or("unknown processor", |(_, name)| name.trim())
    )
}
