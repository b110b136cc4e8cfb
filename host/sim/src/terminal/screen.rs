//! Draws one moment in 80 columns and 24 rows.

use std::collections::BTreeMap;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Paragraph};

use super::view::{MachineState, Node, Severity, View};

/// Colours of families, the most frequent first.
const COLOURS: [Color; 6] = [
    Color::Cyan,
    Color::Yellow,
    Color::Green,
    Color::Magenta,
    Color::Blue,
    Color::Red,
];
/// From empty to full.
const LEVELS: [&str; 9] = ["·", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

pub fn draw(frame: &mut Frame, view: &View) {
    let rows = [
        Constraint::Length(1),
        Constraint::Length(2),
        Constraint::Min(5),
        Constraint::Length(3),
        Constraint::Length(9),
    ];
    let [title, figures, nodes, policy, events] = Layout::vertical(rows).areas(frame.area());
    frame.render_widget(Paragraph::new(heading(view)), title);
    frame.render_widget(Paragraph::new(numbers(view, figures.width)), figures);
    machines(frame, nodes, view);
    scorer(frame, policy, view);
    happened(frame, events, view);
}

fn bold(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().add_modifier(Modifier::BOLD))
}

fn dim(text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), Style::new().fg(Color::DarkGray))
}

fn heading(view: &View) -> Line<'static> {
    let about = format!("  {}, {:.0} times as fast as life", view.name, view.speed);
    Line::from(vec![
        bold(format!("Longshore  {}", view.moment(view.now))),
        Span::raw(about),
    ])
}

/// Pods and money, each with its course.
fn numbers(view: &View, width: u16) -> Vec<Line<'static>> {
    let room = usize::from(width).saturating_sub(46);
    let waits = match view.pending {
        0 => dim(format!("{:>6}", "none")),
        n => Span::styled(
            format!("{n:>6}"),
            Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        ),
    };
    let pods = vec![
        Span::raw("pods   "),
        bold(format!("{:>8}", view.running)),
        Span::raw(" run   "),
        waits,
        Span::raw(" wait            "),
        Span::styled(
            sparkline(view.pods.iter(), room),
            Style::new().fg(Color::Green),
        ),
    ];
    let cost = vec![
        Span::raw("cost   "),
        bold(format!("{:>8.3}", view.usd_per_hour)),
        Span::raw(" USD/h "),
        Span::raw(format!("{:>6.2} USD so far      ", view.usd)),
        Span::styled(
            sparkline(view.costs.iter(), room),
            Style::new().fg(Color::Cyan),
        ),
    ];
    vec![Line::from(pods), Line::from(cost)]
}

/// The last values as blocks, from zero up.
fn sparkline<'a>(values: impl ExactSizeIterator<Item = &'a f64>, room: usize) -> String {
    let skip = values.len().saturating_sub(room);
    let values: Vec<f64> = values.skip(skip).copied().collect();
    let most = values.iter().copied().fold(0.0, f64::max);
    let level = |value: f64| {
        if most > 0.0 {
            (value / most * 8.0).round() as usize
        } else {
            0
        }
    };
    values
        .iter()
        .map(|value| LEVELS[level(*value).min(8)])
        .collect()
}

/// A block for each machine: how full by its height, its family by its colour, spot underlined.
fn machines(frame: &mut Frame, area: Rect, view: &View) {
    let mut families: BTreeMap<&str, usize> = BTreeMap::new();
    view.nodes
        .iter()
        .for_each(|node| *families.entry(&node.family).or_default() += 1);
    let mut order: Vec<(&str, usize)> = families.into_iter().collect();
    order.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let colour = |family: &str| {
        let place = order
            .iter()
            .position(|(other, _)| *other == family)
            .unwrap_or(0);
        COLOURS[place % COLOURS.len()]
    };
    let spot = view.nodes.iter().filter(|node| node.spot).count();
    let title = format!(
        " {} nodes, {spot} of them spot (underlined) ",
        view.nodes.len()
    );
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    let mut lines = vec![Line::from(
        order
            .iter()
            .flat_map(|(family, count)| {
                [
                    Span::styled("█ ", Style::new().fg(colour(family))),
                    Span::raw(format!("{family} {count}  ")),
                ]
            })
            .collect::<Vec<_>>(),
    )];
    let in_row = usize::from(inner.width / 2).max(1);
    let rows = usize::from(inner.height).saturating_sub(1);
    let all = view.nodes.len();
    let shown = if all <= rows * in_row {
        all
    } else {
        rows.saturating_sub(1) * in_row
    };
    for row in view.nodes[..shown].chunks(in_row) {
        lines.push(Line::from(
            row.iter()
                .flat_map(|node| [machine(node, colour(&node.family)), Span::raw(" ")])
                .collect::<Vec<_>>(),
        ));
    }
    if shown < all {
        lines.push(Line::from(dim(format!("and {} more", all - shown))));
    }
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

fn machine(node: &Node, colour: Color) -> Span<'static> {
    let mut style = Style::new().fg(colour);
    if node.spot {
        style = style.add_modifier(Modifier::UNDERLINED);
    }
    match node.state {
        MachineState::Coming => Span::styled("○", style),
        MachineState::Going => Span::styled("×", style.fg(Color::Red)),
        MachineState::Ready => Span::styled(
            LEVELS[((node.fill * 8.0).round() as usize).clamp(1, 8)],
            style,
        ),
    }
}

fn scorer(frame: &mut Frame, area: Rect, view: &View) {
    let title = format!(" scored by {} ", view.policy);
    let file = view.policy_file.display().to_string();
    let line = Line::from(vec![Span::raw("edit "), bold(file), Span::raw(" and save")]);
    frame.render_widget(
        Paragraph::new(line).block(Block::bordered().title(title)),
        area,
    );
}

fn happened(frame: &mut Frame, area: Rect, view: &View) {
    let restarts = match view.restarts {
        0 => String::new(),
        1 => ", daemon restarted once".into(),
        n => format!(", daemon restarted {n} times"),
    };
    let keys = dim(" k kill the daemon  s take half of spot  b break a machine  q quit ");
    let block = Block::bordered()
        .title(format!(" what happens{restarts} "))
        .title_bottom(keys);
    let room = usize::from(block.inner(area).height);
    let skip = view.events.len().saturating_sub(room);
    let line = |event: &super::view::Event| {
        let style = match event.tone {
            Severity::Quiet => Style::new().fg(Color::Gray),
            Severity::Bad => Style::new().fg(Color::Red),
            Severity::News => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        };
        Line::from(vec![
            dim(format!("{} ", view.moment(event.at))),
            Span::styled(event.words.clone(), style),
        ])
    };
    let lines: Vec<Line> = view.events.iter().skip(skip).map(line).collect();
    frame.render_widget(Paragraph::new(lines).block(block), area);
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use expect_test::expect;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::view::Event;
    use super::*;

    fn node(family: &str, spot: bool, fill: f64, state: MachineState) -> Node {
        Node {
            family: family.into(),
            spot,
            fill,
            state,
        }
    }

    fn moment() -> View {
        let (minute, file) = (
            Duration::from_secs(60),
            Path::new("/tmp/longshore/policy.wasm"),
        );
        let mut view = View::new("black-friday".into(), 40.0, 40 * minute, file);
        (view.now, view.running, view.pending, view.restarts) = (12 * minute, 1_204, 37, 1);
        (view.usd_per_hour, view.usd) = (12.345, 1.9);
        view.pods.extend([0.0, 300.0, 900.0, 1_204.0]);
        view.costs.extend([0.0, 4.0, 12.0, 12.345]);
        view.nodes.extend((0..44).map(|at| {
            node(
                "c7g",
                at % 2 == 0,
                f64::from(at) / 44.0,
                MachineState::Ready,
            )
        }));
        view.nodes
            .push(node("m7i", false, 1.2, MachineState::Ready));
        view.nodes
            .push(node("m7i", false, 0.0, MachineState::Coming));
        view.nodes.push(node("r7g", true, 0.4, MachineState::Going));
        for (at, tone) in [Severity::Quiet, Severity::Bad, Severity::News]
            .into_iter()
            .cycle()
            .take(9)
            .enumerate()
        {
            view.events.push_back(Event {
                at: minute * at as u32,
                tone,
                words: format!("event {at}"),
            });
        }
        view
    }

    /// The characters of a screen, and how many of them are underlined.
    fn drawn(view: &View, width: u16, height: u16) -> (String, usize) {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, view)).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y: u16| {
            (0..width)
                .map(|x| buffer[(x, y)].symbol())
                .collect::<String>()
                .trim_end()
                .to_owned()
                + "\n"
        };
        let underlined = buffer
            .content()
            .iter()
            .filter(|cell| cell.modifier.contains(Modifier::UNDERLINED))
            .count();
        ((0..height).map(row).collect(), underlined)
    }

    #[test]
    fn a_moment_fits_into_80_columns_and_24_rows() {
        let (screen, underlined) = drawn(&moment(), 80, 24);
        expect![[r#"
            Longshore  Thu 00:12  black-friday, 40 times as fast as life
            pods       1204 run       37 wait            ·▂▆█
            cost     12.345 USD/h   1.90 USD so far      ·▃██
            ┌ 47 nodes, 23 of them spot (underlined) ──────────────────────────────────────┐
            │█ c7g 44  █ m7i 2  █ r7g 1                                                    │
            │▁ ▁ ▁ ▁ ▁ ▁ ▁ ▁ ▁ ▂ ▂ ▂ ▂ ▂ ▃ ▃ ▃ ▃ ▃ ▃ ▄ ▄ ▄ ▄ ▄ ▅ ▅ ▅ ▅ ▅ ▅ ▆ ▆ ▆ ▆ ▆ ▇ ▇ ▇ │
            │▇ ▇ ▇ █ █ █ ○ ×                                                               │
            │                                                                              │
            │                                                                              │
            │                                                                              │
            │                                                                              │
            └──────────────────────────────────────────────────────────────────────────────┘
            ┌ scored by price ─────────────────────────────────────────────────────────────┐
            │edit /tmp/longshore/policy.wasm and save                                      │
            └──────────────────────────────────────────────────────────────────────────────┘
            ┌ what happens, daemon restarted once ─────────────────────────────────────────┐
            │Thu 00:02 event 2                                                             │
            │Thu 00:03 event 3                                                             │
            │Thu 00:04 event 4                                                             │
            │Thu 00:05 event 5                                                             │
            │Thu 00:06 event 6                                                             │
            │Thu 00:07 event 7                                                             │
            │Thu 00:08 event 8                                                             │
            └ k kill the daemon  s take half of spot  b break a machine  q quit ───────────┘
        "#]]
        .assert_eq(&screen);
        assert_eq!(underlined, 23, "spot");
    }

    #[test]
    fn nodes_that_have_no_room_are_counted() {
        let mut view = moment();
        view.nodes = vec![node("c7g", false, 1.0, MachineState::Ready); 39 * 6];
        assert!(!drawn(&view, 80, 24).0.contains("more"));
        view.nodes
            .push(node("c7g", false, 1.0, MachineState::Ready));
        let (screen, _) = drawn(&view, 80, 24);
        assert_eq!(
            (
                screen.matches('█').count(),
                screen.matches("and 40 more").count()
            ),
            (3 + 1 + 39 * 5, 1),
            "{screen}"
        );
    }

    #[test]
    fn a_terminal_may_have_any_size() {
        for (width, height) in [(1, 1), (7, 3), (20, 10), (300, 2), (2, 300)] {
            drawn(&moment(), width, height);
        }
    }
}
