//! Lines over a logarithmic axis as SVG, for numbers that change with a size.

use plotters::prelude::*;

use super::chart::{COLOURS, RIGHT, TICKS_MAX, WIDTH, short};
use crate::store::Result;

/// Lines in one picture.
#[derive(Debug, Clone)]
pub struct Curve {
    /// The title above the picture.
    pub title: String,
    /// The label of the horizontal, logarithmic axis.
    pub x: String,
    /// The label of the vertical axis, which begins at 0.
    pub y: String,
    /// The lines: names and points, from left to right.
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

/// The size of a picture that stands alone.
const SIZE: (u32, u32) = (720, 420);
const SIZE_ON_PAGE: (u32, u32) = (WIDTH, 320);

impl Curve {
    /// Draws the picture; `x_label` formats the numbers below it.
    ///
    /// # Errors
    /// An error of the drawing library; no points.
    pub fn to_svg(&self, x_label: impl Fn(f64) -> String) -> Result<String> {
        self.to_svg_of(SIZE, true, &x_label)
    }

    /// Draws the picture for a page, which has the title and the names of the lines beside it.
    pub(super) fn to_svg_on_page(&self, x_label: impl Fn(f64) -> String) -> Result<String> {
        self.to_svg_of(SIZE_ON_PAGE, false, &x_label)
    }

    fn to_svg_of(
        &self,
        size: (u32, u32),
        is_alone: bool,
        x_label: &dyn Fn(f64) -> String,
    ) -> Result<String> {
        let mut svg = String::new();
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        let drawn = self.draw(&root, is_alone, x_label);
        drop(root);
        drawn.map_err(|error| error.to_string())?;
        Ok(svg)
    }

    fn draw<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, plotters::coord::Shift>,
        is_alone: bool,
        x_label: &dyn Fn(f64) -> String,
    ) -> std::result::Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let left = points().map(|it| it.0).fold(f64::INFINITY, f64::min);
        let right = points().map(|it| it.0).fold(0.0, f64::max);
        let top = points().map(|it| it.1).fold(0.0, f64::max);
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(root);
        if is_alone {
            chart.caption(&self.title, ("sans-serif", 18));
        }
        let mut chart = chart
            .margin(12)
            .margin_right(RIGHT)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d((left..right * 1.0001).log_scale(), 0.0..top * 1.05)?;
        chart
            .configure_mesh()
            .x_labels(if is_alone { 10 } else { TICKS_MAX })
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&|x| x_label(*x))
            .y_label_formatter(&|y| short(*y))
            .draw()?;
        for (i, (name, points)) in self.lines.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
            chart
                .draw_series(line)?
                .label(name)
                .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour));
        }
        if is_alone && self.lines.len() > 1 {
            chart
                .configure_series_labels()
                .background_style(WHITE.mix(0.8))
                .draw()?;
        }
        root.present()
    }
}
