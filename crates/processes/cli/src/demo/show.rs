//! Progress of the demo: bars that are redrawn on a terminal, plain lines elsewhere.

use crate::units;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use std::cell::{Cell, RefCell};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Between two plain lines of one step.
const LINE_INTERVAL: Duration = Duration::from_secs(2);
/// Between two redraws.
const REDRAW_HZ: u8 = 10;

/// Where steps are shown.
pub(super) struct Show {
    /// On a terminal.
    bars: Option<MultiProgress>,
}

/// One step under way.
pub(super) struct Step<'s> {
    show: &'s Show,
    title: String,
    total: Option<u64>,
    bar: Option<ProgressBar>,
    /// Further lines below the bar.
    lines: RefCell<Vec<ProgressBar>>,
    started: Instant,
    printed: Cell<Instant>,
    /// The picture in a few words, where there is no terminal.
    short: RefCell<String>,
}

impl Show {
    pub(super) fn new() -> Show {
        let bars = std::io::stderr().is_terminal().then(|| {
            MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAW_HZ))
        });
        Show { bars }
    }

    /// Begins a step of `total` things, if it is known how many.
    pub(super) fn step(&self, title: &str, total: Option<u64>) -> Step<'_> {
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(total.map_or_else(ProgressBar::new_spinner, ProgressBar::new));
            let template = match total {
                Some(_) => "{msg}\n  {wide_bar:.green} {human_pos}/{human_len}  {rate}  {eta}",
                None => "{spinner} {msg}  {human_pos}",
            };
            if let Ok(style) = ProgressStyle::with_template(template) {
                let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                    // A bar that cannot be drawn is no reason to stop.
                    let _ = write!(out, "{}/s", units::count(state.per_sec() as u64));
                };
                bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ ").with_key("rate", rate));
            }
            bar.set_message(title.to_owned());
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        let now = Instant::now();
        if bar.is_none() {
            eprintln!("== {title}");
        }
        Step {
            show: self,
            title: title.to_owned(),
            total,
            bar,
            lines: RefCell::default(),
            started: now,
            printed: Cell::new(now),
            short: RefCell::default(),
        }
    }
}

impl Step<'_> {
    /// So many things are done.
    pub(super) fn set(&self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        } else if self.printed.get().elapsed() >= LINE_INTERVAL {
            self.printed.set(Instant::now());
            let done = units::count(done);
            let of = self
                .total
                .map(|total| format!(" of {}", units::count(total)));
            eprintln!(
                "   {done}{} {}",
                of.unwrap_or_default(),
                self.short.borrow()
            );
        }
    }

    /// Shows more below the bar; where there is no terminal, `short` with the next line.
    pub(super) fn picture(&self, lines: &[String], short: String) {
        let Some(bars) = &self.show.bars else {
            *self.short.borrow_mut() = short;
            return;
        };
        let mut shown = self.lines.borrow_mut();
        while shown.len() < lines.len() {
            let line = bars.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("{msg}") {
                line.set_style(style);
            }
            shown.push(line);
        }
        for (at, line) in shown.iter().enumerate() {
            line.set_message(lines.get(at).cloned().unwrap_or_default());
            line.tick();
        }
    }

    /// Something worth keeping on the screen.
    pub(super) fn note(&self, text: &str) {
        match &self.show.bars {
            // A note that cannot be shown is no reason to stop.
            Some(bars) => drop(bars.println(format!("  {text}"))),
            None => eprintln!("   {text}"),
        }
    }

    /// Ends the step; the last picture stays.
    pub(super) fn finish(self, text: &str) {
        let took = units::duration(self.started.elapsed());
        let line = format!("✔ {}: {text} ({took})", self.title);
        let Some(bars) = &self.show.bars else {
            eprintln!("   {text} ({took})");
            return;
        };
        let picture: Vec<String> = self
            .lines
            .borrow()
            .iter()
            .map(ProgressBar::message)
            .collect();
        self.clear();
        let _ = bars.println(line);
        for line in picture.iter().filter(|line| !line.is_empty()) {
            let _ = bars.println(line);
        }
    }

    fn clear(&self) {
        for line in self.lines.borrow_mut().drain(..).chain(self.bar.clone()) {
            line.finish_and_clear();
            if let Some(bars) = &self.show.bars {
                bars.remove(&line);
            }
        }
    }
}

/// A step that fails leaves no half-drawn bar above the error.
impl Drop for Step<'_> {
    fn drop(&mut self) {
        self.clear();
    }
}
