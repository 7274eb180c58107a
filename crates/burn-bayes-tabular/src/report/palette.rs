//! Colours for light and dark themes that are distinguishable with any colour vision.
//!
//! Charts are drawn in the light colours. For a dark theme, the style sheet of the page overrides them with
//! attribute selectors, so one drawing serves both themes.
//!
//! Reference: M. Okabe and K. Ito, "Color universal design" (2008), for the hues.

use std::fmt::Write as _;

use plotters::style::RGBColor;

/// Axis labels and data points.
pub(crate) const INK: RGBColor = RGBColor(0x1F, 0x29, 0x33);
/// Tick labels and reference lines.
pub(crate) const MUTED: RGBColor = RGBColor(0x5B, 0x67, 0x75);
/// The background of a chart.
pub(crate) const PAPER: RGBColor = RGBColor(0xFF, 0xFF, 0xFF);
/// Grid lines.
pub(crate) const GRID: RGBColor = RGBColor(0xE1, 0xE6, 0xEC);
/// The first series.
pub(crate) const BLUE: RGBColor = RGBColor(0x00, 0x72, 0xB2);
/// Errors, or the second series.
pub(crate) const VERMILION: RGBColor = RGBColor(0xD5, 0x5E, 0x00);
const GREEN: RGBColor = RGBColor(0x00, 0x9E, 0x73);
const PURPLE: RGBColor = RGBColor(0xCC, 0x79, 0xA7);
const AMBER: RGBColor = RGBColor(0xE6, 0x9F, 0x00);

/// Colours of the series of one chart.
pub(crate) const SERIES: [RGBColor; 5] = [BLUE, VERMILION, GREEN, PURPLE, AMBER];

const ON_DARK: [(RGBColor, RGBColor); 9] = [
    (PAPER, RGBColor(0x17, 0x1F, 0x28)),
    (INK, RGBColor(0xE8, 0xED, 0xF2)),
    (MUTED, RGBColor(0xA3, 0xAF, 0xBC)),
    (GRID, RGBColor(0x2B, 0x35, 0x40)),
    (BLUE, RGBColor(0x5C, 0xB3, 0xEE)),
    (VERMILION, RGBColor(0xFF, 0x8A, 0x4C)),
    (GREEN, RGBColor(0x3D, 0xCB, 0xA1)),
    (PURPLE, RGBColor(0xE8, 0xA6, 0xCB)),
    (AMBER, RGBColor(0xF2, 0xC1, 0x4E)),
];

/// Style rules that replace every colour by its counterpart of the dark theme.
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

/// In the form that the drawing library writes; attribute selectors are case-sensitive.
fn hexadecimal(RGBColor(red, green, blue): RGBColor) -> String {
    format!("#{red:02X}{green:02X}{blue:02X}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_has_a_partner_on_dark_paper() {
        for colour in [INK, MUTED, PAPER, GRID].into_iter().chain(SERIES) {
            assert_eq!(
                ON_DARK.iter().filter(|(light, _)| *light == colour).count(),
                1
            );
        }
    }
}
