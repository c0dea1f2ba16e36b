//! Lines over the size of a store, as SVG.

use plotters::prelude::*;

use super::chart::COLOURS;
use crate::store::{Result, invalid};

/// Numbers over the size of a store.
#[derive(Debug, Clone)]
pub struct Line {
    /// What is counted.
    pub name: String,
    /// Sizes in entries, above 0 and ascending, and the number at each.
    pub points: Vec<(f64, f64)>,
}

// In pixels.
const SIZE: (u32, u32) = (720, 420);
const LABELS: u32 = 48;

/// Draws lines over a store that grows, entries on a logarithmic axis.
///
/// # Errors
/// When there is nothing to draw.
pub fn growth_picture(lines: &[Line]) -> Result<String> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let first = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
    let last = points().map(|point| point.0).fold(0.0, f64::max);
    let top = points().map(|point| point.1).fold(1.0, f64::max);
    if first > last {
        return Err(invalid("expected at least one point to draw".to_owned()));
    }
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        draw(&root, lines, first..last.max(first * 2.0), top * 1.05)
            .map_err(|error| error.to_string())?;
        root.present().map_err(|error| error.to_string())?;
    }
    Ok(svg)
}

fn draw<B: DrawingBackend>(
    root: &DrawingArea<B, plotters::coord::Shift>,
    lines: &[Line],
    entries: std::ops::Range<f64>,
    top: f64,
) -> std::result::Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let mut chart = ChartBuilder::on(root)
        .margin(10)
        .x_label_area_size(LABELS)
        .y_label_area_size(LABELS)
        .build_cartesian_2d(entries.log_scale(), 0.0..top)?;
    chart
        .configure_mesh()
        .x_desc("entries written")
        .x_label_formatter(&|entries| format!("{entries:.0e}"))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let path = PathElement::new(line.points.clone(), colour.stroke_width(2));
        chart
            .draw_series(std::iter::once(path))?
            .label(&line.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .draw()
}
