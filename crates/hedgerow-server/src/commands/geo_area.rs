//! Places on the earth as scores, and areas as ranges of scores. A score has 26 bits of longitude
//! and 26 of latitude, interleaved. So near places have near scores, but for the edges of cells.

use super::arguments::float;
use crate::resp::Reply;
use crate::store::{Answer, Stop};

const BITS: u32 = 26;
const LONGITUDE_MAX: f64 = 180.0;
/// The latitude of the corners of a Mercator map.
const LATITUDE_MAX: f64 = 85.051_128_78;
const EARTH_RADIUS: f64 = 6_372_797.560_856;
/// The cells of a side of the rectangle that is looked at.
const CELLS_MAX: u64 = 4;

/// Degrees of longitude and latitude.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    longitude: f64,
    latitude: f64,
}

/// Spreads 32 bits to the even places.
fn spread(bits: u64) -> u64 {
    (0..32).fold(0, |sum, at| sum | (bits >> at & 1) << (at * 2))
}

fn gather(bits: u64) -> u64 {
    (0..32).fold(0, |sum, at| sum | (bits >> (at * 2) & 1) << at)
}

/// The number of the cell in column `x` and row `y`.
fn interleave(x: u64, y: u64) -> u64 {
    spread(y) | spread(x) << 1
}

/// The number of the cell of a coordinate between `-max` and `max`.
fn cell(coordinate: f64, max: f64, bits: u32) -> u64 {
    let cells = f64::from(1_u32 << bits);
    let cell = ((coordinate + max) / (2.0 * max) * cells) as u64;
    cell.min((1 << bits) - 1)
}

impl Place {
    fn new(longitude: f64, latitude: f64) -> Answer<Place> {
        if longitude.abs() > LONGITUDE_MAX || latitude.abs() > LATITUDE_MAX {
            return Err(Stop::reply(format!(
                "ERR invalid longitude,latitude pair {longitude:.6},{latitude:.6}"
            )));
        }
        Ok(Place {
            longitude,
            latitude,
        })
    }

    pub(super) fn parse(longitude: &[u8], latitude: &[u8]) -> Answer<Place> {
        Place::new(float(longitude)?, float(latitude)?)
    }

    pub(super) fn score(self) -> f64 {
        let longitude = cell(self.longitude, LONGITUDE_MAX, BITS);
        let latitude = cell(self.latitude, LATITUDE_MAX, BITS);
        interleave(longitude, latitude) as f64
    }

    /// The middle of the cell of a score.
    pub(super) fn of_score(score: f64) -> Place {
        let bits = score as u64;
        let middle = |cell: u64, max: f64| {
            let cells = f64::from(1_u32 << BITS);
            let edge = |cell: u64| -max + cell as f64 / cells * 2.0 * max;
            (edge(cell) + edge(cell + 1)) / 2.0
        };
        Place {
            longitude: middle(gather(bits >> 1), LONGITUDE_MAX)
                .clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: middle(gather(bits), LATITUDE_MAX).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// The metres of the shortest way, rounded as in Redis: scores that are distances are the same.
    pub(super) fn distance(self, other: Place) -> f64 {
        let half_sine = |a: f64, b: f64| ((b.to_radians() - a.to_radians()) / 2.0).sin();
        let u = half_sine(self.latitude, other.latitude);
        let v = half_sine(self.longitude, other.longitude);
        let cosines = self.latitude.to_radians().cos() * other.latitude.to_radians().cos();
        2.0 * EARTH_RADIUS * (u * u + cosines * v * v).sqrt().min(1.0).asin()
    }

    /// The place as a text of eleven letters, whose latitudes go up to the poles.
    pub(super) fn geohash(self) -> Vec<u8> {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let longitude = cell(self.longitude, LONGITUDE_MAX, BITS);
        let latitude = cell(self.latitude, 90.0, BITS);
        let bits = interleave(longitude, latitude);
        let letter = |at: u32| match at {
            // 52 bits are ten letters and a bit.
            10 => LETTERS[0],
            _ => LETTERS[(bits >> (47 - at * 5)) as usize & 31],
        };
        (0..11).map(letter).collect()
    }

    pub(super) fn reply(self) -> Reply {
        Reply::Array(vec![
            Reply::Double(self.longitude),
            Reply::Double(self.latitude),
        ])
    }
}

/// The shape of an area, in metres.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Radius(f64),
    /// Width and height.
    Box(f64, f64),
}

/// A shape around a place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Area {
    pub(super) centre: Place,
    pub(super) shape: Shape,
}

impl Area {
    /// The distance to a place if it is in the area.
    pub(super) fn distance(&self, place: Place) -> Option<f64> {
        let distance = self.centre.distance(place);
        let is_in = match self.shape {
            Shape::Radius(radius) => distance <= radius,
            Shape::Box(width, height) => {
                let beside = Place {
                    longitude: self.centre.longitude,
                    latitude: place.latitude,
                };
                self.centre.distance(beside) <= height / 2.0
                    && beside.distance(place) <= width / 2.0
            }
        };
        is_in.then_some(distance)
    }

    /// Ranges of scores that have all places of the area, in order. The ends are excluded.
    pub(super) fn scores(&self) -> Vec<(f64, f64)> {
        let (width, height) = match self.shape {
            Shape::Radius(radius) => (radius, radius),
            Shape::Box(width, height) => (width / 2.0, height / 2.0),
        };
        let degrees = |metres: f64| (metres / EARTH_RADIUS).to_degrees();
        let up = degrees(height) * 1.01 + 1e-6;
        let (south, north) = (self.centre.latitude - up, self.centre.latitude + up);
        // The parallel that is nearest to a pole is the shortest.
        let cosine = south.abs().max(north.abs()).min(90.0).to_radians().cos();
        let side = match cosine > 1e-6 {
            true => degrees(width) / cosine * 1.01 + 1e-6,
            false => 360.0,
        };
        // The other side of a pole is at other longitudes.
        let is_round = side >= LONGITUDE_MAX || south < -90.0 || north > 90.0;
        let (west, east) = match is_round {
            true => (-LONGITUDE_MAX, LONGITUDE_MAX),
            false => (self.centre.longitude - side, self.centre.longitude + side),
        };
        let mut ranges = Vec::new();
        for turn in [-360.0, 0.0, 360.0] {
            let (west, east) = ((west + turn).max(-180.0), (east + turn).min(180.0));
            if west <= east {
                cells(
                    (west, east),
                    (south.max(-LATITUDE_MAX), north.min(LATITUDE_MAX)),
                    &mut ranges,
                );
            }
        }
        ranges.sort_unstable();
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in ranges {
            match joined.last_mut() {
                Some(last) if last.1 >= from => last.1 = last.1.max(to),
                _ => joined.push((from, to)),
            }
        }
        let score = |(from, to): (u64, u64)| (from as f64, to as f64);
        joined.into_iter().map(score).collect()
    }
}

/// The ranges of scores of the cells that a rectangle meets, of the smallest size that needs few.
fn cells(longitudes: (f64, f64), latitudes: (f64, f64), ranges: &mut Vec<(u64, u64)>) {
    let side = |(from, to): (f64, f64), max, bits| (cell(from, max, bits), cell(to, max, bits));
    let both = |bits| {
        (
            side(longitudes, LONGITUDE_MAX, bits),
            side(latitudes, LATITUDE_MAX, bits),
        )
    };
    let is_few = |bits: &u32| {
        let (x, y) = both(*bits);
        x.1 - x.0 < CELLS_MAX && y.1.saturating_sub(y.0) < CELLS_MAX
    };
    let bits = (0..=BITS).rev().find(is_few).unwrap_or(0);
    let (x, y) = both(bits);
    let shift = (BITS - bits) * 2;
    for x in x.0..=x.1 {
        for y in y.0..=y.1 {
            let first = interleave(x, y);
            ranges.push((first << shift, (first + 1) << shift));
        }
    }
}
