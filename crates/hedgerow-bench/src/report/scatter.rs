//! Points over two logarithmic axes as SVG, for pairs of numbers that should be equal.

use plotters::prelude::*;

use super::chart::{COLOURS, RIGHT, TICKS_MAX, WIDTH, short};
use crate::store::Result;

/// Clouds of points, and the line of equal numbers.
pub(super) struct Scatter {
    pub(super) x: String,
    pub(super) y: String,
    /// The clouds: names and points.
    pub(super) clouds: Vec<(String, Vec<(f64, f64)>)>,
}

const SIZE: (u32, u32) = (WIDTH, 400);
/// The room around the outermost points, as a factor.
const MARGIN: f64 = 1.3;

impl Scatter {
    /// The legend of colours.
    pub(super) fn legend(&self) -> Vec<String> {
        self.clouds.iter().map(|(name, _)| name.clone()).collect()
    }

    pub(super) fn to_svg(&self) -> Result<String> {
        let mut svg = String::new();
        self.draw(&SVGBackend::with_string(&mut svg, SIZE).into_drawing_area())
            .map_err(|error| error.to_string())?;
        Ok(svg)
    }

    fn draw<B: DrawingBackend>(
        &self,
        root: &DrawingArea<B, plotters::coord::Shift>,
    ) -> std::result::Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let points = self.clouds.iter().flat_map(|(_, points)| points);
        let numbers = points.flat_map(|(x, y)| [*x, *y]).filter(|n| *n > 0.0);
        let (least, most) = numbers.fold((f64::MAX, 0.0_f64), |(least, most), number| {
            (least.min(number), most.max(number))
        });
        let range = || (least / MARGIN..(most * MARGIN).max(least)).log_scale();
        let mut chart = ChartBuilder::on(root)
            .margin(12)
            .margin_right(RIGHT)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(range(), range())?;
        chart
            .configure_mesh()
            .x_labels(TICKS_MAX)
            .x_desc(&self.x)
            .y_desc(&self.y)
            .x_label_formatter(&|x| short(*x))
            .y_label_formatter(&|y| short(*y))
            .draw()?;
        let equal = [(least, least), (most, most)];
        chart.draw_series(LineSeries::new(equal, &BLACK.mix(0.3)))?;
        for (i, (_, points)) in self.clouds.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()].filled();
            chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, colour)))?;
        }
        root.present()
    }
}
