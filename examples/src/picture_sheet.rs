//! A sheet of pictures as SVG, small enough for a page.

use std::fmt::Write;

use crate::batches::ClassRow;
use crate::pictures::Pictures;

/// Levels of grey.
const LEVELS: usize = 8;
/// Between pictures, in pixels of these.
const GAP: usize = 2;
const LABEL: usize = 44;

/// The first `count` pictures of every set, a set per line, after its name.
pub fn picture_sheet(sets: &[(&str, Vec<ClassRow>)], count: usize) -> String {
    let step = Pictures::SIDE + GAP;
    let (width, height) = (LABEL + count * step, sets.len() * step + GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{}\" shape-rendering=\"crispEdges\">\n",
        4 * width
    );
    let mut paths = vec![String::new(); LEVELS];
    for (line, (name, rows)) in sets.iter().enumerate() {
        let top = GAP + line * step;
        let middle = top + Pictures::SIDE / 2 + 2;
        let _ = writeln!(
            svg,
            "<text x=\"1\" y=\"{middle}\" font-family=\"sans-serif\" font-size=\"6\">{name}</text>"
        );
        for (place, row) in rows.iter().take(count).enumerate() {
            let left = LABEL + place * step;
            for (y, pixels) in row.features.chunks(Pictures::SIDE).enumerate() {
                let levels: Vec<usize> = pixels.iter().map(|&pixel| level(pixel)).collect();
                let mut x = 0;
                for run in levels.chunk_by(PartialEq::eq) {
                    let (from, row) = (left + x, top + y);
                    let _ = write!(paths[run[0]], "M{from} {row}.5h{}", run.len());
                    x += run.len();
                }
            }
        }
    }
    for (level, path) in paths.iter().enumerate() {
        let grey = 255 * level / (LEVELS - 1);
        let _ = writeln!(
            svg,
            "<path stroke=\"rgb({grey},{grey},{grey})\" d=\"{path}\"/>"
        );
    }
    svg + "</svg>\n"
}

/// Black at −1 and below, white at 2 and above.
fn level(pixel: f32) -> usize {
    let share = ((pixel + 1.0) / 3.0).clamp(0.0, 1.0);
    ((share * LEVELS as f32) as usize).min(LEVELS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pixel_is_in_one_path() {
        let pixels = (0..Pictures::PIXELS).map(|pixel| (pixel % 7) as f32 / 2.0 - 1.5);
        let row = ClassRow {
            features: pixels.collect(),
            class: 0,
        };
        let svg = picture_sheet(&[("a", vec![row.clone(), row.clone(), row])], 2);
        let lengths = svg.split('h').filter_map(|part| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<usize>().ok()
        });
        assert_eq!(lengths.sum::<usize>(), 2 * Pictures::PIXELS);
    }
}
