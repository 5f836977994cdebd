//! The screen: a view that is drawn again and again until somebody presses q.

use super::text::sections;
use super::view::{Order, View};
use crate::signals::{self, Signal};
use anyhow::{Context, Result};
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::Paragraph;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

/// How long a key or a new view may wait until it is seen.
const LOOK: Duration = Duration::from_millis(50);
const HELP: &str = "q quit   s sort servers   p pause";

/// State of the screen.
#[derive(Default)]
struct State {
    view: Option<View>,
    order: Order,
    paused: bool,
}

/// Wish that a key stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Quit,
    Sort,
    Pause,
    Nothing,
}

impl Wish {
    fn of(key: KeyEvent) -> Wish {
        match key.code {
            _ if key.kind == KeyEventKind::Release => Wish::Nothing,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => Wish::Quit,
            KeyCode::Char('q') | KeyCode::Esc => Wish::Quit,
            KeyCode::Char('s') => Wish::Sort,
            KeyCode::Char('p' | ' ') => Wish::Pause,
            _ => Wish::Nothing,
        }
    }
}

/// The terminal as it was, however this ends; after a panic too.
struct Restored;

impl Drop for Restored {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows views as they come, until a key or a signal ends it.
///
/// # Errors
/// When the terminal cannot be used.
pub(crate) fn show(views: &Receiver<View>) -> Result<()> {
    let (sender, stops) = mpsc::channel::<Signal>();
    signals::forward(sender)?;
    let mut terminal = ratatui::try_init().context("cannot use the terminal")?;
    let _restored = Restored;
    let mut state = State::default();
    loop {
        while let Ok(view) = views.try_recv() {
            if !state.paused || state.view.is_none() {
                state.view = Some(view);
            }
        }
        if let Some(view) = &mut state.view {
            view.sort(state.order);
        }
        terminal
            .draw(|frame| draw(frame, &state))
            .context("cannot draw on the terminal")?;
        while let Ok(signal) = stops.try_recv() {
            if matches!(signal, Signal::Stop(_)) {
                return Ok(());
            }
        }
        if !event::poll(LOOK).context("cannot read the terminal")? {
            continue;
        }
        let Event::Key(key) = event::read().context("cannot read the terminal")? else {
            continue;
        };
        match Wish::of(key) {
            Wish::Quit => return Ok(()),
            Wish::Sort => state.order = state.order.next(),
            Wish::Pause => state.paused = !state.paused,
            Wish::Nothing => {}
        }
    }
}

fn draw(frame: &mut Frame<'_>, state: &State) {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    let rows = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
    ]);
    let [head, body, foot] = rows.areas(frame.area());
    let name = state.view.as_ref().map_or("", |view| &view.name);
    let paused = if state.paused { "   PAUSED" } else { "" };
    let title = format!(
        "pandofs top   {name}   servers by {}{paused}",
        state.order.name()
    );
    frame.render_widget(Paragraph::new(title).style(bold), head);
    frame.render_widget(
        Paragraph::new(HELP).style(Style::new().add_modifier(Modifier::DIM)),
        foot,
    );
    let Some(view) = &state.view else {
        frame.render_widget(Paragraph::new("asking the servers …"), body);
        return;
    };
    let mut lines = Vec::new();
    let parts = sections(view);
    // Each has room for a few rows; what the first do not need the others have.
    let mut room = usize::from(body.height);
    for (number, section) in parts.iter().enumerate() {
        let share = room / (parts.len() - number);
        let table = match section.is_empty {
            true => vec!["none".to_owned()],
            false => section.table.lines(),
        };
        let shown = table.len().min(share.saturating_sub(2));
        lines.push(Line::styled(section.heading.clone(), bold));
        lines.extend(table.into_iter().take(shown).map(Line::from));
        lines.push(Line::default());
        room = room.saturating_sub(shown + 2);
    }
    frame.render_widget(Paragraph::new(Text::from(lines)), body);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::view::tests::view;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    fn drawn(state: &State, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(120, height)).unwrap();
        terminal.draw(|frame| draw(frame, state)).unwrap();
        let buffer = terminal.backend().buffer().clone();
        let cells = buffer.content().chunks(120);
        cells
            .map(|row| row.iter().map(|cell| cell.symbol()).collect::<String>())
            .collect()
    }

    #[test]
    fn all_four_lists_and_the_keys_are_on_a_screen_of_the_usual_size() {
        let state = State {
            view: Some(view()),
            ..State::default()
        };
        let rows = drawn(&state, 40);
        let all = rows.join("\n");
        for wanted in [
            "grove",
            "Servers",
            "Hottest directories",
            "Slowest operations",
            "Who waits",
            "2 away",
            "q quit",
        ] {
            assert!(all.contains(wanted), "{wanted} in\n{all}");
        }
        assert!(rows[39].contains("q quit"));
    }

    #[test]
    fn a_small_screen_shows_what_it_can_and_none_is_too_small() {
        let state = State {
            view: Some(view()),
            paused: true,
            ..State::default()
        };
        assert!(drawn(&state, 10).join("\n").contains("PAUSED"));
        for height in 1..6 {
            assert_eq!(drawn(&state, height).len(), usize::from(height));
        }
        assert!(drawn(&State::default(), 5).join("\n").contains("asking"));
    }

    #[test]
    fn keys_do_what_the_last_line_says() {
        let key = |code| Wish::of(KeyEvent::new(code, KeyModifiers::NONE));
        assert_eq!(key(KeyCode::Char('q')), Wish::Quit);
        assert_eq!(key(KeyCode::Char('s')), Wish::Sort);
        assert_eq!(key(KeyCode::Char('p')), Wish::Pause);
        assert_eq!(key(KeyCode::Char('c')), Wish::Nothing);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(Wish::of(interrupt), Wish::Quit);
    }
}
