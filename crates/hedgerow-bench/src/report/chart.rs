//! Bars as SVG: the one renderer for all charts.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::store::Result;

/// Groups of horizontal bars, so that labels are horizontal too.
pub(super) struct Chart {
    pub(super) title: String,
    pub(super) unit: String,
    pub(super) log: bool,
    /// The meanings of the colours; those of the series if empty.
    pub(super) legend: Vec<String>,
    pub(super) groups: Vec<Group>,
}

/// The bars of one label.
pub(super) struct Group {
    pub(super) label: String,
    pub(super) bars: Vec<Bar>,
}

/// The parts of a bar in order, each with the index of its colour.
pub(super) struct Bar {
    pub(super) parts: Vec<(usize, f64)>,
}

/// The colours of Okabe and Ito, distinguishable with any colour vision, and two more.
pub(super) const COLOURS: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(90, 90, 90),
    RGBColor(240, 228, 66),
    RGBColor(120, 60, 20),
];

// In pixels.
/// The width of every drawing of a page: two fit a window, one a telephone.
pub(super) const WIDTH: u32 = 480;
/// The room right of an axis for half of the last tick's text.
pub(super) const RIGHT: u32 = 40;
/// The ticks of a horizontal axis that has no step of its own.
pub(super) const TICKS_MAX: usize = 5;
const BAR: u32 = 16;
const GAP: u32 = 10;
const AXIS: u32 = 28;
const LETTER: u32 = 8;
/// The room for labels beside their bars. If one needs more, all are above their bars.
const LABELS_MAX: u32 = 150;
/// The height of a line of a label above its bars.
const LINE: u32 = 15;
/// The room left of the axis for half of the first tick's text.
const MARGIN: u32 = 40;
/// The space between the texts of two ticks.
const TICK_GAP: i32 = 8;
/// The room for the number after the longest bar.
const NUMBERS: u32 = 70;
/// plotters divides by 1.24: these are 12 pixels.
const FONT: (&str, u32) = ("sans-serif", 15);
const INK: RGBColor = RGBColor(40, 40, 40);
const GRID: RGBColor = RGBColor(225, 225, 225);

impl Bar {
    fn sum(&self) -> f64 {
        self.parts.iter().map(|(_, number)| number).sum()
    }
}

impl Chart {
    /// A drawing without a title, for a page.
    pub(super) fn to_svg(&self) -> Result<String> {
        let longest = self.groups.iter().map(|group| width(&group.label)).max();
        let labels = longest.unwrap_or(0);
        let (left, is_beside) = match labels <= LABELS_MAX {
            true => ((labels + GAP).max(MARGIN), true),
            false => (MARGIN, false),
        };
        let lines = |group: &Group| match is_beside {
            true => Vec::new(),
            false => wrapped(&group.label, WIDTH),
        };
        let groups: Vec<_> = { self.groups.iter() }
            .map(|group| (lines(group), group))
            .collect();
        let heights = { groups.iter() }
            .map(|(lines, group)| lines.len() as u32 * LINE + group.bars.len() as u32 * BAR + GAP);
        let height: u32 = heights.sum();
        let mut svg = String::new();
        {
            let root =
                SVGBackend::with_string(&mut svg, (WIDTH, height + AXIS)).into_drawing_area();
            let bars = self.groups.iter().flat_map(|group| &group.bars);
            let sides = (left as i32, (WIDTH - NUMBERS) as i32);
            let axis = Axis::new(self.log, bars.map(Bar::sum), sides);
            self.draw_axis(&root, &axis, height as i32)
                .and_then(|()| draw_groups(&root, &axis, &groups))
                .map_err(|error| error.to_string())?;
            root.present().map_err(|error| error.to_string())?;
        }
        Ok(svg)
    }

    /// Draws a line for each tick, and the texts of as many as have room, at equal steps.
    fn draw_axis<B: DrawingBackend>(
        &self,
        root: &Area<B>,
        axis: &Axis,
        height: i32,
    ) -> Drawn<B::ErrorType> {
        let text = |tick| {
            format!("{} {}", short(tick), self.unit)
                .trim_end()
                .to_owned()
        };
        let ticks = axis.ticks().into_iter().map(|it| (axis.x(it), text(it)));
        let ticks: Vec<(i32, String)> = ticks.collect();
        for (x, _) in &ticks {
            root.draw(&PathElement::new([(*x, 0), (*x, height)], GRID))?;
        }
        for (x, text) in ticks.iter().step_by(step(&ticks)) {
            let style = styled(HPos::Center, VPos::Top);
            root.draw(&Text::new(text.clone(), (*x, height + 6), style))?;
        }
        Ok(())
    }
}

/// The smallest step from tick to tick with which no texts touch.
fn step(ticks: &[(i32, String)]) -> usize {
    let half = |text: &str| width(text) as i32 / 2;
    let is_free = |step: &usize| {
        let shown: Vec<_> = ticks.iter().step_by(*step).collect();
        let mut pairs = shown.windows(2);
        pairs.all(|it| it[0].0 + half(&it[0].1) + TICK_GAP <= it[1].0 - half(&it[1].1))
    };
    (1..ticks.len()).find(is_free).unwrap_or(ticks.len().max(1))
}

type Area<B> = DrawingArea<B, plotters::coord::Shift>;
type Drawn<E> = std::result::Result<(), DrawingAreaErrorKind<E>>;

fn styled(h_pos: HPos, v_pos: VPos) -> TextStyle<'static> {
    FONT.into_font().color(&INK).pos(Pos::new(h_pos, v_pos))
}

/// Draws the bars from top to bottom, each group with its label above, in lines, or else beside.
fn draw_groups<B: DrawingBackend>(
    root: &Area<B>,
    axis: &Axis,
    groups: &[(Vec<String>, &Group)],
) -> Drawn<B::ErrorType> {
    let mut top = (GAP / 2) as i32;
    for (lines, group) in groups {
        for line in lines {
            let style = styled(HPos::Left, VPos::Top);
            root.draw(&Text::new(line.clone(), (0, top), style))?;
            top += LINE as i32;
        }
        if lines.is_empty() {
            let middle = top + (group.bars.len() as u32 * BAR / 2) as i32;
            let style = styled(HPos::Right, VPos::Center);
            root.draw(&Text::new(
                group.label.clone(),
                (axis.left - 8, middle),
                style,
            ))?;
        }
        for bar in &group.bars {
            draw_bar(root, axis, bar, top)?;
            top += BAR as i32;
        }
        top += GAP as i32;
    }
    Ok(())
}

/// Draws the parts of a bar one after another, and their sum behind them.
fn draw_bar<B: DrawingBackend>(
    root: &Area<B>,
    axis: &Axis,
    bar: &Bar,
    top: i32,
) -> Drawn<B::ErrorType> {
    let mut sum = 0.0;
    for (colour, number) in bar.parts.iter().filter(|(_, number)| *number > 0.0) {
        let (left, right) = (axis.x(sum), axis.x(sum + number));
        sum += number;
        let colour = COLOURS[colour % COLOURS.len()].filled();
        let corners = [(left, top + 1), (right.max(left + 1), top + BAR as i32 - 1)];
        root.draw(&Rectangle::new(corners, colour))?;
    }
    let at = (axis.x(sum) + 5, top + BAR as i32 / 2);
    root.draw(&Text::new(short(sum), at, styled(HPos::Left, VPos::Center)))
}

/// The pixels that a text takes at most, whichever font the reader has.
pub(super) fn width(text: &str) -> u32 {
    text.chars().map(letter).sum()
}

fn letter(c: char) -> u32 {
    match c.is_ascii() && !"mwMW@%".contains(c) {
        true => LETTER,
        false => 12,
    }
}

/// The scale from numbers to pixels.
struct Axis {
    log: bool,
    min: f64,
    max: f64,
    left: i32,
    right: i32,
}

impl Axis {
    fn new(log: bool, numbers: impl Iterator<Item = f64>, (left, right): (i32, i32)) -> Axis {
        let (mut min, mut max) = (f64::INFINITY, 0.0_f64);
        for number in numbers.filter(|number| *number > 0.0) {
            (min, max) = (min.min(number), max.max(number));
        }
        if max == 0.0 {
            (min, max) = (1.0, 1.0);
        }
        // A bar has a length, so a logarithmic axis begins below the smallest number.
        let min = if log {
            10_f64.powf((min / 2.0).log10().floor())
        } else {
            0.0
        };
        Axis {
            log,
            min,
            max,
            left,
            right,
        }
    }

    fn x(&self, number: f64) -> i32 {
        let part = if self.log {
            (number.max(self.min) / self.min).log10() / (self.max / self.min).log10()
        } else {
            number / self.max
        };
        self.left + (part * f64::from(self.right - self.left)).round() as i32
    }

    /// Powers of ten, or about four round numbers.
    fn ticks(&self) -> Vec<f64> {
        if self.log {
            let powers = self.min.log10().round() as i32..=self.max.log10().floor() as i32;
            return powers.map(|power| 10_f64.powi(power)).collect();
        }
        let power = 10_f64.powf((self.max / 4.0).log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps
            .into_iter()
            .find(|step| self.max / step <= 5.0)
            .unwrap_or(self.max);
        (0..=(self.max / step) as u32)
            .map(|i| f64::from(i) * step)
            .collect()
    }
}

/// Formats a number with three digits: `1.23 M`, `45.6 k`, `789`, `0.012`.
pub(super) fn short(number: f64) -> String {
    let (number, unit) = match number {
        n if n >= 999_500_000.0 => (n / 1e9, " G"),
        n if n >= 999_500.0 => (n / 1e6, " M"),
        n if n >= 9_995.0 => (n / 1e3, " k"),
        n => (n, ""),
    };
    let decimals = match number {
        n if n == n.round() || n >= 99.95 => 0,
        n if n >= 9.995 => 1,
        n if n >= 0.1 => 2,
        _ => 3,
    };
    format!("{number:.decimals$}{unit}")
}

/// The lines of a text, none wider than `pixels`. A word that is wider continues in the next line.
fn wrapped(text: &str, pixels: u32) -> Vec<String> {
    let (mut lines, mut line) = (Vec::new(), String::new());
    for word in text.split_inclusive([' ', ',', ';', '/']) {
        if width(&line) + width(word.trim_end()) > pixels {
            lines.push(std::mem::take(&mut line));
        }
        for c in word.chars() {
            if width(&line) + letter(c) > pixels {
                lines.push(std::mem::take(&mut line));
            }
            line.push(c);
        }
    }
    lines.push(line);
    lines.retain(|line| !line.trim().is_empty());
    lines
}
