//! Kernels against closed forms, integrals and finite differences.

use std::f64::consts::PI;

use burn_bayes::Noise;
use burn_bayes::algebra::SymmetricEigen;
use proptest::prelude::*;

use super::*;

/// One kernel of every family with one length scale, and sums and products with several.
fn kernels() -> Vec<Kernel> {
    let texts = [
        "1.7",
        "linear(1.3)",
        "rbf(0.8)",
        "matern12(0.9)",
        "matern32(1.2)",
        "matern52(1.1)",
        "rational_quadratic(0.6,0.9)",
        "periodic(1.9,0.7)",
        "arc_cosine0(1.4)",
        "arc_cosine1(0.8)",
        "2*rbf(0.8,1.5) + 0.3*linear(1.3,0.7)",
        "arc_cosine1(0.8,1.9)*(0.5 + periodic(1.9,0.7,1.2)) + matern32(0.6,2)",
    ];
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn points(seed: u64, count: usize, width: usize) -> Points {
    let normals = Noise::new(seed).latent(count * width);
    Points::new(width, normals.into_iter().map(f64::from).collect()).unwrap()
}

fn at(kernel: &Kernel, x: &[f64], y: &[f64]) -> f64 {
    let [x, y] = [x, y].map(|point| Points::new(point.len(), point.to_vec()).unwrap());
    kernel.between(&x, &y).unwrap()[0]
}

#[test]
fn the_shortest_length_is_that_of_the_fastest_part() {
    let length = |text: &str, coordinate| {
        let kernel: Kernel = text.parse().unwrap();
        kernel.shortest_length(coordinate)
    };
    assert_eq!(length("linear(2) + 3 + arc_cosine1", 0), None);
    assert_eq!(length("rbf(2,5) + matern12(3)", 0), Some(2.0));
    assert_eq!(length("rbf(2,5) + matern12(3)", 1), Some(3.0));
    let wave = 2.0 / std::f64::consts::TAU;
    assert_eq!(length("rbf(4)*periodic(2,7)", 0), Some(wave));
    assert_eq!(length("periodic(2,0.5)", 0), Some(0.5 * wave));
}

#[test]
fn cosines_of_the_frequencies_have_the_mean_of_the_kernel() {
    let points = points(11, 6, 2);
    let origin = points.row(0);
    for text in [
        "1.7",
        "rbf(0.8,1.5)",
        "matern12(0.9)",
        "matern32(1.2)",
        "matern52(1.1)",
        "rational_quadratic(0.6,0.9)",
        "rational_quadratic(2.5,0.9)",
        "periodic(1.9,0.7,1.2)",
        "periodic(40,0.02)",
        "2*rbf(0.8,1.5)*(0.5 + periodic(1.9,0.7)) + matern32(0.6,2)",
    ] {
        let kernel: Kernel = text.parse().unwrap();
        let frequencies = (0..20_000).map(|at| {
            let noise = Noise::new(3).fold(at);
            kernel.frequency(2, noise).unwrap()
        });
        let frequencies: Vec<Vec<f64>> = frequencies.collect();
        for point in points.rows() {
            let cosines = frequencies.iter().map(|frequency| {
                let angle = (0..2).map(|d| frequency[d] * (point[d] - origin[d]));
                angle.sum::<f64>().cos()
            });
            let mean = cosines.sum::<f64>() / frequencies.len() as f64;
            let expected = at(&kernel, point, origin) / at(&kernel, origin, origin);
            // Five standard errors of a mean whose deviation is at most 1/√2.
            assert!((mean - expected).abs() < 0.025, "{text}: {mean} {expected}");
        }
    }
}

#[test]
fn kernels_that_depend_on_the_place_have_no_frequencies() {
    for text in ["linear(1)", "rbf(1) + arc_cosine0(1)", "2*arc_cosine1(1)"] {
        let kernel: Kernel = text.parse().unwrap();
        let error = kernel.frequency(1, Noise::new(0)).unwrap_err();
        assert!(error.to_string().contains("no frequencies"), "{error}");
    }
}

#[test]
fn values_are_those_of_the_formulas() {
    let (x, y) = ([0.3f64, -1.0], [1.1f64, 0.4]);
    let scales = [0.5f64, 2.0];
    let squared: f64 = (0..2).map(|d| ((x[d] - y[d]) / scales[d]).powi(2)).sum();
    let distance = squared.sqrt();
    let waves: f64 = (0..2)
        .map(|d| ((PI * (x[d] - y[d]) / 1.5).sin() / scales[d]).powi(2))
        .sum();
    let [three, five] = [3f64, 5.0].map(|factor| factor.sqrt() * distance);
    for (kernel, expected) in [
        (Kernel::constant(3.0), 3.0),
        (Kernel::linear(scales), 0.3 * 1.1 / 0.25 - 0.4 / 4.0),
        (Kernel::rbf(scales), (-0.5 * squared).exp()),
        (Kernel::matern12(scales), (-distance).exp()),
        (Kernel::matern32(scales), (1.0 + three) * (-three).exp()),
        (
            Kernel::matern52(scales),
            (1.0 + five + five * five / 3.0) * (-five).exp(),
        ),
        (
            Kernel::rational_quadratic(0.7, scales),
            (1.0 + squared / 1.4).powf(-0.7),
        ),
        (Kernel::periodic(1.5, scales), (-2.0 * waves).exp()),
    ] {
        let found = at(&kernel, &x, &y);
        assert!(
            (found - expected).abs() < 1e-14,
            "{kernel}: {found} {expected}"
        );
    }
}

/// 2 E[a(wᵀu) a(wᵀv)] over w ~ N(0, I) for the step and the rectifier, by an integral over the angle and the radius.
#[test]
fn arc_cosine_kernels_are_those_of_wide_networks() {
    let (x, y) = (0.7, -1.3);
    let scale = 0.6;
    let (u, v) = ([1.0, x / scale], [1.0, y / scale]);
    let steps = 200_000;
    // E r⁰ = 1 and E r² = 2 for a normal in two dimensions.
    let (mut of_steps, mut of_rectifiers) = (0.0, 0.0);
    for step in 0..steps {
        let turn = 2.0 * PI * (f64::from(step) + 0.5) / f64::from(steps);
        let [left, right] = [u, v].map(|u| turn.cos() * u[0] + turn.sin() * u[1]);
        if left > 0.0 && right > 0.0 {
            of_steps += 2.0 / f64::from(steps);
            of_rectifiers += 2.0 * 2.0 * left * right / f64::from(steps);
        }
    }
    // The midpoint rule with a jump has the error of one interval.
    let bound = 4.0 / f64::from(steps);
    let found = at(&Kernel::arc_cosine0([scale]), &[x], &[y]);
    assert!((found - of_steps).abs() < bound, "{found} {of_steps}");
    let found = at(&Kernel::arc_cosine1([scale]), &[x], &[y]);
    assert!(
        (found - of_rectifiers).abs() < bound,
        "{found} {of_rectifiers}"
    );
}

#[test]
fn expressions_are_read_and_written() {
    for kernel in kernels() {
        assert_eq!(kernel.to_string().parse::<Kernel>().unwrap(), kernel);
    }
    let read = |text: &str| text.parse::<Kernel>().unwrap().to_string();
    assert_eq!(read("rbf+periodic"), "rbf(1) + periodic(1,1)");
    assert_eq!(
        read(" 1e-3 * ( rbf + linear ) "),
        "0.001*(rbf(1) + linear(1))"
    );
    assert_eq!(read("2+3*matern12(1E+2)"), "2 + 3*matern12(100)");
    assert_eq!(read("((rbf))"), "rbf(1)");
    for (text, part) in [
        ("", "at character 1: a kernel was expected"),
        ("rfb + linear", "there is no kernel `rfb`"),
        ("rbf + ", "a kernel was expected"),
        ("(rbf + linear", "a `)` is missing"),
        ("rbf linear", "`linear` was not expected"),
        ("rbf(1", "a `,` or `)` is missing"),
        ("rbf(x)", "`x` is not a number"),
        ("periodic(2)", "takes its period, and one length scale"),
        ("constant(1,2)", "takes its variance"),
        ("rbf(-1)", "it must be finite and above zero"),
        ("inf*rbf", "it must be finite and above zero"),
        ("0*rbf", "it must be finite and above zero"),
        ("rbf/2", "`/2` was not expected"),
    ] {
        let error = text.parse::<Kernel>().unwrap_err();
        assert!(
            error.is_config() && error.to_string().contains(part),
            "{error}"
        );
    }
    let deep = "(".repeat(1_000_000);
    assert!(deep.parse::<Kernel>().is_err());
}

#[test]
fn parameters_are_named_and_replaced() {
    let kernel: Kernel = "2*rbf(0.8,1.5) + periodic(3,0.7)".parse().unwrap();
    assert_eq!(kernel.parameters(), [2.0, 0.8, 1.5, 3.0, 0.7]);
    assert_eq!(
        kernel.parameter_names(),
        [
            "constant variance",
            "rbf length scale 1",
            "rbf length scale 2",
            "periodic period",
            "periodic length scale"
        ]
    );
    let other = kernel.with_parameters(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
    assert_eq!(other.to_string(), "1*rbf(2,3) + periodic(4,5)");
    assert!(kernel.with_parameters(&[1.0; 4]).is_err());
    assert!(kernel.with_parameters(&[1.0, 2.0, 3.0, 4.0, 0.0]).is_err());
    let scaled = kernel.with_term_variances();
    assert_eq!(scaled.to_string(), "2*rbf(0.8,1.5) + 1*periodic(3,0.7)");
    assert_eq!(scaled.clone().with_term_variances(), scaled);
}

#[test]
fn median_length_scales_are_those_of_pairs() {
    let points = Points::new(2, vec![0.0, 0.0, 1.0, 0.0, 3.0, 0.0]).unwrap();
    let kernel: Kernel = "rbf + rbf(1,7) + 5*periodic(2,3)".parse().unwrap();
    let found = kernel.with_median_length_scales(&points).unwrap();
    // The distances are 1, 2 and 3; the second coordinate is constant.
    assert_eq!(found.to_string(), "rbf(2) + rbf(2,7) + 5*periodic(2,3)");
}

#[test]
fn kernels_that_do_not_fit_are_refused() {
    let points = points(1, 4, 3);
    let two = Kernel::rbf([1.0, 2.0]);
    let error = two.matrix(&points).unwrap_err().to_string();
    assert!(
        error.contains("2 length scales") && error.contains("3 coordinates"),
        "{error}"
    );
    for bad in [
        Kernel::rbf([]),
        Kernel::rbf([0.0]),
        Kernel::constant(f64::NAN),
        Kernel::periodic(-1.0, [1.0]),
    ] {
        assert!(bad.matrix(&points).unwrap_err().is_config());
    }
    let others = Points::new(2, vec![0.0; 4]).unwrap();
    assert!(Kernel::rbf([1.0]).between(&points, &others).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// The smallest eigenvalue is not below zero by more than the rounding of the largest.
    #[test]
    fn matrices_are_symmetric_and_positive_semi_definite(seed in 0_u64..1000, count in 1_usize..20) {
        let points = points(seed, count, 2);
        for kernel in kernels() {
            let matrix = kernel.matrix(&points).unwrap();
            prop_assert_eq!(&matrix, &matrix.transpose());
            let eigen = SymmetricEigen::new(&matrix).unwrap();
            let values = eigen.values();
            let rounding = 64.0 * count as f64 * f64::EPSILON * values[0];
            // The angle of two close points has the square root of the rounding.
            let rounding = match kernel.to_string().contains("arc_cosine0") {
                true => rounding.sqrt(),
                false => rounding,
            };
            prop_assert!(values[count - 1] >= -rounding, "{}: {:e}", kernel, values[count - 1]);
            let between = kernel.between(&points, &points).unwrap();
            for (found, expected) in between.iter().zip(matrix.as_slice()) {
                prop_assert!((found - expected).abs() <= 1e-12 * matrix.trace());
            }
            let diagonal: Vec<f64> = matrix.diagonal().collect();
            prop_assert_eq!(kernel.variances(&points).unwrap(), diagonal);
        }
    }

    /// Against central differences over two steps, whose error is of order h⁴, plus rounding of order ε/h.
    #[test]
    fn gradients_are_finite_differences(seed in 0_u64..1000) {
        let count = 6;
        let points = points(seed, count, 2);
        let normals = Noise::new(seed).fold(1).latent(count * count);
        let weights = SquareMatrix::from_fn(count, |i, j| {
            f64::from(normals[i.max(j) * count + i.min(j)])
        });
        let weighted = |kernel: &Kernel| {
            let matrix = kernel.matrix(&points).unwrap();
            let pairs = matrix.as_slice().iter().zip(weights.as_slice());
            pairs.map(|(entry, weight)| entry * weight).sum::<f64>()
        };
        let step = 1e-4_f64;
        for kernel in kernels() {
            let found = kernel.weighted_gradient(&points, &weights);
            let parameters = kernel.parameters();
            prop_assert_eq!(found.len(), parameters.len());
            for (index, found) in found.into_iter().enumerate() {
                let moved = |steps: f64| {
                    let mut moved = parameters.clone();
                    moved[index] *= (steps * step).exp();
                    weighted(&kernel.with_parameters(&moved).unwrap())
                };
                let difference = |steps: f64| (moved(steps) - moved(-steps)) / (2.0 * steps * step);
                let expected = (4.0 * difference(1.0) - difference(2.0)) / 3.0;
                let size = kernel.matrix(&points).unwrap().frobenius_norm();
                prop_assert!((found - expected).abs() <= 1e-7 * (1.0 + size), "{kernel}: {found} {expected}");
            }
        }
    }
}
