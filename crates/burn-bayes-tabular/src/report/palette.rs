//! Colours that people with any colour vision tell apart, on light and on dark paper.
//!
//! Charts are drawn in the light colours. The page's style sheet exchanges them by attribute
//! selectors, which prevail over attributes, so one drawing serves both.
//!
//! Reference: M. Okabe and K. Ito, "Color universal design" (2008), for the hues.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// Axes and points of data.
pub(crate) const INK: RGBColor = RGBColor(0x1F, 0x29, 0x33);
/// Labels, and lines to compare with.
pub(crate) const MUTED: RGBColor = RGBColor(0x5B, 0x67, 0x75);
/// Lines of the grid.
pub(crate) const GRID: RGBColor = RGBColor(0xE1, 0xE6, 0xEC);
/// The first and most important thing drawn.
pub(crate) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xB2);
/// What is wrong, or the second thing drawn.
pub(crate) const VERMILION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
const GREEN: RGBColor = RGBColor(0x00, 0x9E, 0x73);
const PURPLE: RGBColor = RGBColor(0xCC, 0x79, 0xA7);
const AMBER: RGBColor = RGBColor(0xE6, 0x9F, 0x00);

/// Colours of curves that lie in one chart.
pub(crate) const SERIES: [RGBColor; 5] = [BLUE, VERMILION, GREEN, PURPLE, AMBER];

const ON_DARK: [(RGBColor, RGBColor); 8] = [
    (INK, RGBColor(0xE8, 0xED, 0xF2)),
    (MUTED, RGBColor(0xA3, 0xAF, 0xBC)),
    (GRID, RGBColor(0x2B, 0x35, 0x40)),
    (BLUE, RGBColor(0x5C, 0xB3, 0xEE)),
    (VERMILION, RGBColor(0xFF, 0x8A, 0x4C)),
    (GREEN, RGBColor(0x3D, 0xCB, 0xA1)),
    (PURPLE, RGBColor(0xE8, 0xA6, 0xCB)),
    (AMBER, RGBColor(0xF2, 0xC1, 0x4E)),
];

/// Rules of a style sheet that exchange every colour for its partner on dark paper.
pub(crate) fn dark_rules() -> String {
    let mut rules = String::new();
    for (light, dark) in ON_DARK {
        let (light, dark) = (hexadecimal(light), hexadecimal(dark));
        // Writing to a string cannot fail.
        let _ = writeln!(
            rules,
            "svg [fill=\"{light}\"] {{ fill: {dark} }} svg [stroke=\"{light}\"] {{ stroke: {dark} }}"
        );
    }
    rules
}

/// As the drawing library writes colours, whose case a selector minds.
fn hexadecimal(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_has_a_partner_on_dark_paper() {
        for colour in [INK, MUTED, GRID].into_iter().chain(SERIES) {
            assert_eq!(
                ON_DARK.iter().filter(|(light, _)| *light == colour).count(),
                1
            );
        }
    }
}
