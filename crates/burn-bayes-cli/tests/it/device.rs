//! The program on the device in `BURN_BAYES_TEST_DEVICE` and on the CPU: runs that are equal except for rounding.

use crate::workplace::{GAP, MOONS, Workplace};

/// The device under test.
fn device() -> String {
    let name = std::env::var("BURN_BAYES_TEST_DEVICE").unwrap_or_else(|_| "flex".into());
    let is_built = match name.as_str() {
        "flex" => cfg!(feature = "flex"),
        "wgpu" => cfg!(feature = "wgpu"),
        "cuda" => cfg!(feature = "cuda"),
        _ => false,
    };
    assert!(
        is_built,
        "BURN_BAYES_TEST_DEVICE is {name}, which this build does not hold"
    );
    name
}

/// The numeric cells of predictions.
fn numbers(predictions: &str) -> Vec<f64> {
    let rows = predictions.lines().skip(1);
    rows.flat_map(|row| row.split(',').filter_map(|cell| cell.parse().ok()))
        .collect()
}

/// Fits, predicts and evaluates on the device and on the CPU. Returns the largest difference between their
/// predictions, relative to the largest prediction.
fn difference(place: &Workplace, fit: &str, rows: &str, device: &str) -> f64 {
    let mut predictions = [device, "flex"].map(|device| {
        let run = format!("on_{device}");
        let _ = std::fs::remove_dir_all(place.path(&run));
        place.output(&format!("{fit} --device {device} --out {run}"));
        let scores = place.output(&format!("evaluate {run} {rows} --json"));
        assert!(scores.contains("\"rows\""), "{scores}");
        numbers(&place.output(&format!("predict {run} {rows}")))
    });
    let [on_device, on_cpu] = &mut predictions;
    assert_eq!(on_device.len(), on_cpu.len());
    let largest = on_cpu
        .iter()
        .fold(0.0, |most: f64, value| most.max(value.abs()));
    let pairs = on_device.iter().zip(on_cpu);
    pairs.fold(0.0, |most: f64, (one, other)| {
        most.max((one - *other).abs())
    }) / largest
}

#[test]
fn a_device_makes_the_run_that_the_cpu_makes() {
    let device = device();
    let (moons, gap) = (Workplace::with_moons(), Workplace::with_gap());
    // Rounding differs between devices and grows with the steps; on one device nothing differs.
    let allowed = if device == "flex" { 0.0 } else { 1e-3 };
    for method in [
        "vifa --rank 2",
        "slang --rank 2",
        "von",
        "swag --rank 2",
        "map",
    ] {
        let fit = MOONS.replace("mean-field", method);
        let found = difference(&moons, &fit, "moons.csv", &device);
        assert!(found <= allowed, "{method} of classes: {found}");
    }
    let fit = GAP.replace("--epochs 60", "--epochs 3 --noise-precision 0.0006");
    let found = difference(&gap, &fit, "gap.csv", &device);
    assert!(found <= allowed, "numbers: {found}");
}

#[cfg(not(feature = "cuda"))]
#[test]
fn a_device_that_was_not_built_in_is_a_usage_error() {
    let place = Workplace::with_moons();
    place.fails(
        &format!("{MOONS} --device cuda --out run"),
        2,
        &["--features cuda"],
    );
}
