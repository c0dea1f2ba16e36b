//! Lines over a logarithmic axis as SVG, for numbers that change with a size.

use plotters::prelude::*;

use super::chart::{COLOURS, short};
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

const SIZE: (u32, u32) = (720, 420);

impl Curve {
    /// Draws the picture; `x_label` formats the numbers below it.
    ///
    /// # Errors
    /// An error of the drawing library; no points.
    pub fn to_svg(&self, x_label: impl Fn(f64) -> String) -> Result<String> {
        let mut svg = String::new();
        self.draw(
            &SVGBackend::with_string(&mut svg, SIZE).into_drawing_area(),
            &x_label,
        )
        .map_err(|error| error.to_string())?;
        Ok(svg)
    }

    fn draw<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, plotters::coord::Shift>,
        x_label: &dyn Fn(f64) -> String,
    ) -> std::result::Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let points = || self.lines.iter().flat_map(|(_, points)| points);
        let left = points().map(|it| it.0).fold(f64::INFINITY, f64::min);
        let right = points().map(|it| it.0).fold(0.0, f64::max);
        let top = points().map(|it| it.1).fold(0.0, f64::max);
        root.fill(&WHITE)?;
        let mut chart = ChartBuilder::on(root)
            .caption(&self.title, ("sans-serif", 18))
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d((left..right * 1.0001).log_scale(), 0.0..top * 1.05)?;
        chart
            .configure_mesh()
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
        if self.lines.len() > 1 {
            chart
                .configure_series_labels()
                .background_style(WHITE.mix(0.8))
                .draw()?;
        }
        root.present()
    }
}
