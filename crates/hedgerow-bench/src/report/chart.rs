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
const WIDTH: u32 = 720;
const BAR: u32 = 16;
const GAP: u32 = 10;
const AXIS: u32 = 28;
const LETTER: u32 = 8;
const LABELS_MAX: u32 = 300;
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
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        let height = bars as u32 * BAR + self.groups.len() as u32 * GAP;
        let longest = self.groups.iter().map(|group| width(&group.label)).max();
        let labels = longest.unwrap_or(0).min(LABELS_MAX) + GAP;
        let mut svg = String::new();
        {
            let root =
                SVGBackend::with_string(&mut svg, (WIDTH, height + AXIS)).into_drawing_area();
            let sums = self
                .groups
                .iter()
                .flat_map(|group| &group.bars)
                .map(Bar::sum);
            let axis = Axis::new(self.log, sums, (labels as i32, (WIDTH - NUMBERS) as i32));
            self.draw(&root, &axis, height as i32)
                .map_err(|error| error.to_string())?;
            root.present().map_err(|error| error.to_string())?;
        }
        Ok(svg)
    }

    fn draw<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, plotters::coord::Shift>,
        axis: &Axis,
        height: i32,
    ) -> std::result::Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let styled = |h_pos, v_pos| FONT.into_font().color(&INK).pos(Pos::new(h_pos, v_pos));
        for tick in axis.ticks() {
            let x = axis.x(tick);
            root.draw(&PathElement::new([(x, 0), (x, height)], GRID))?;
            let text = format!("{} {}", short(tick), self.unit);
            let style = styled(HPos::Center, VPos::Top);
            root.draw(&Text::new(
                text.trim_end().to_owned(),
                (x, height + 6),
                style,
            ))?;
        }
        let mut top = (GAP / 2) as i32;
        for group in &self.groups {
            let middle = top + (group.bars.len() as u32 * BAR / 2) as i32;
            let label = shortened(&group.label, (LABELS_MAX / LETTER) as usize);
            let at = (axis.left - 8, middle);
            root.draw(&Text::new(label, at, styled(HPos::Right, VPos::Center)))?;
            for bar in &group.bars {
                let mut sum = 0.0;
                for (colour, number) in bar.parts.iter().filter(|(_, number)| *number > 0.0) {
                    let (left, right) = (axis.x(sum), axis.x(sum + number));
                    sum += number;
                    let colour = COLOURS[colour % COLOURS.len()].filled();
                    let corners = [(left, top + 1), (right.max(left + 1), top + BAR as i32 - 1)];
                    root.draw(&Rectangle::new(corners, colour))?;
                }
                let at = (axis.x(sum) + 5, top + BAR as i32 / 2);
                root.draw(&Text::new(short(sum), at, styled(HPos::Left, VPos::Center)))?;
                top += BAR as i32;
            }
            top += GAP as i32;
        }
        Ok(())
    }
}

/// The pixels that a text takes at most, whichever font the reader has.
fn width(text: &str) -> u32 {
    let letter = |c| if "mwMW@%".contains(c) { 12 } else { LETTER };
    text.chars().map(letter).sum()
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

fn shortened(text: &str, chars_max: usize) -> String {
    if text.chars().count() <= chars_max {
        return text.to_owned();
    }
    text.chars().take(chars_max - 1).chain(['…']).collect()
}
