//! Initial weights, against exact regression and the places of the measurement points.

use super::regression::{LEN, batch, line, prior as prior_of_lines, process};
use super::*;
use crate::functional::Points;

fn weak() -> Prior {
    Prior::isotropic(0.01)
}

/// All weights of a line at once: the mean of the exact posterior.
#[test]
fn weights_in_which_a_model_is_linear_are_solved_for() {
    let all = ParamGroup::all();
    let solved = prior_of_lines().solved(line(), &all, LEN, &weak(), [batch()]);
    let places: Vec<f64> = (0..50).map(|i| -1.5 + 0.06 * f64::from(i)).collect();
    let rows = from_host(&places, [50, 1], &Device::default());
    let found = to_host(solved.unwrap().valid().outputs(rows));
    let expected = process().predict(&Points::new(1, places).unwrap()).unwrap();
    for (found, expected) in found.iter().zip(&expected.mean) {
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    }
}

/// Only the weights of the group change.
#[test]
fn other_weights_stay() {
    let net = Net::new(&autodiff());
    let batch = || {
        let values = |count: usize| Noise::new(4).latent(count).into_iter().map(f64::from);
        let [inputs, targets] = [3, OUTPUTS].map(|width| {
            let values: Vec<f64> = values(6 * width).collect();
            from_host(&values, [6, width], &autodiff())
        });
        (inputs, targets)
    };
    let last = ParamGroup::from_predicate("output.");
    let solve = |net: Net| prior().solved(net, &last, 6, &weak(), [batch()]).unwrap();
    let once = solve(net.clone());
    let twice = solve(once.clone());
    let hidden = |net: &Net| to_host(net.hidden.weight.val().without_autodiff());
    let output = |net: &Net| to_host(net.output.weight.val().without_autodiff());
    assert_eq!(hidden(&once), hidden(&net));
    assert_ne!(output(&once), output(&net));
    // The outputs are linear in the last layer, so that the first step converges.
    assert_close(&output(&twice), &output(&once), 1e-4);
}

#[test]
fn units_lie_over_the_measurement_points() {
    const UNITS: usize = 40;
    const LENGTH: f64 = 0.5;
    let points = MeasurementPoints::uniform(vec![-2.0], vec![3.0]).unwrap();
    let prior = FunctionPrior::new(Kernel::rbf([LENGTH]), points, 10).unwrap();
    let layer = |seed| {
        let layer = prior.first_layer(UNITS, Noise::new(seed), &Device::default());
        let layer = layer.unwrap();
        let bias = layer.bias.unwrap();
        [
            to_host(layer.weight.val().flatten::<1>(0, 1)),
            to_host(bias.val()),
        ]
    };
    let [slopes, biases] = layer(1);
    assert_eq!([slopes.clone(), biases.clone()], layer(1));
    assert_ne!([slopes.clone(), biases.clone()], layer(2));
    let mut places: Vec<f64> = slopes.iter().zip(&biases).map(|(w, b)| -b / w).collect();
    places.sort_by(f64::total_cmp);
    assert!(places[0] > -2.0 - 1e-4 && places[UNITS - 1] < 3.0 + 1e-4);
    // The gaps of 40 uniform places are up to about 0.5 wide.
    let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
    let widest = gaps.fold(0.0, f64::max);
    assert!(widest < 2.5 * 5.0 / UNITS as f64, "{widest}");
    for slope in &slopes {
        let relative = slope.abs() * LENGTH;
        assert!((0.4999..1.5001).contains(&relative), "{slope}");
    }
    let error = prior.first_layer(0, Noise::new(1), &Device::default());
    assert!(error.unwrap_err().is_config());
}

/// With frequencies that are multiples of 2π/p, sines of sums of sines have the period too.
#[test]
fn sines_have_the_frequencies_of_the_kernel() {
    const UNITS: usize = 40;
    const PERIOD: f64 = 1.7;
    let points = MeasurementPoints::uniform(vec![-2.0], vec![3.0]).unwrap();
    let of = |kernel: &str| {
        FunctionPrior::new(kernel.parse().unwrap(), points.clone(), 10)
            .unwrap()
            .sine_layer(UNITS, Noise::new(1), &Device::default())
    };
    let layer = of("3*periodic(1.7,0.6)").unwrap();
    let [frequencies, phases] = [
        to_host(layer.weight.val().flatten::<1>(0, 1)),
        to_host(layer.bias.unwrap().val()),
    ];
    let turns = frequencies
        .iter()
        .map(|w| w * PERIOD / std::f64::consts::TAU);
    let turns: Vec<f64> = turns.collect();
    assert!(
        turns.iter().all(|turn| (turn - turn.round()).abs() < 1e-6),
        "{turns:?}"
    );
    // κ = 2.8, so numbers of turns have the deviation 1.7.
    assert!(turns.iter().any(|turn| turn.abs() > 1.5), "{turns:?}");
    let phases = phases
        .into_iter()
        .map(|phase| phase / std::f64::consts::TAU);
    let phases: Vec<f64> = phases.collect();
    assert!(phases.iter().all(|phase| (0.0..1.0).contains(phase)));
    assert!(phases.iter().any(|phase| *phase > 0.7) && phases.iter().any(|phase| *phase < 0.3));
    assert!(of("rbf(1) + linear(1)").unwrap_err().is_config());
}
