//! Every kernel takes inputs without elements, rows or terms, and refuses lengths that do not match before it writes.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

const NOISE: NormalStream = NormalStream { seed: 1, stream: 2 };

fn low_rank<'a>(mean: &'a [f32], factors: &'a [f32], variance: &'a [f32]) -> LowRankGaussian<'a> {
    LowRankGaussian {
        mean,
        factors,
        units: FactorUnits::Weights,
        diagonal: Diagonal::Variance(variance),
    }
}

fn one_draw(latent: &[f32]) -> Draw<'_> {
    Draw {
        latent,
        noise: NOISE,
        sign: 1.0,
    }
}

fn signed() -> SignedNoise {
    SignedNoise {
        stream: NOISE,
        sign: 1.0,
    }
}

#[test]
fn inputs_without_elements_are_allowed() {
    normal(NOISE, &mut []);
    scale(&mut [], 2.0);
    for latent in [&[][..], &[1.0, 2.0]] {
        let gaussian = low_rank(&[], &[], &[]);
        draw(&gaussian, &one_draw(latent), &mut []);
        draws(&gaussian, &[one_draw(latent); 3], &mut []);
        draws(&gaussian, &[], &mut []);
        let rank = latent.len();
        let mut matrix = vec![f64::NAN; rank * rank];
        gram(&gaussian, rank, &mut matrix);
        assert!(matrix.iter().all(|entry| *entry == 0.0));
        draw_and_gram(&gaussian, &one_draw(latent), &mut [], &mut matrix);
        let inverse = vec![0.0; rank * rank];
        let state = VifaState {
            mean: &[],
            log_variance: &[],
            factors: &[],
            units: FactorUnits::Weights,
            inner_inverse: &inverse,
            prior_precision: &[],
            data_scale: 1.0,
            temperature: 1.0,
        };
        let gradients = DrawGradient {
            draw: one_draw(latent),
            gradient: &[],
        };
        let out = VifaGradient {
            mean: &mut [],
            log_variance: &mut [],
            factors: &mut [],
        };
        let summary = vifa_gradient(&state, &[gradients], out);
        assert_eq!(summary, GradientSummary::default());
    }
    let gaussian = PrecisionGaussian {
        mean: &[],
        factors: &[],
        precision: &[],
    };
    assert!(projections(&gaussian, &[signed()]).is_empty());
    assert!(noise_products(&gaussian, &[signed()]).is_empty());
    precision_draw(&gaussian, signed(), &[1.0], &mut []);
    let step = PrecisionStep {
        squares: &[],
        gradient: &[],
        mixing: &[1.0],
        rate: 0.5,
        square_scale: 1.0,
        gradient_scale: 1.0,
        prior_precision: &[],
    };
    let out = PrecisionOut {
        factors: &mut [],
        precision: &mut [],
        gradient: &mut [],
    };
    assert_eq!(precision_step(&gaussian, &step, out), [0.0; 2]);
    let step = MeanStep {
        weights: &[1.0],
        scale: 1.0,
        momentum: 0.0,
        learning_rate: 0.1,
    };
    mean_step(&gaussian, step, &mut [], Some(&mut []));
    update_moments(&[], 1, &mut [], &mut [], Some(&mut []));
    let adam = AdamStep::new(0.1, 0.9, 0.99, 1e-8, None, 1);
    let moments = AdamMoments {
        first: &mut [],
        second: &mut [],
        largest_second: Some(&mut []),
    };
    adam_step(&adam, &[], &mut [], moments);
}

#[test]
fn no_factors_are_allowed() {
    let (mean, variance) = ([1.0, 2.0], [0.25; 2]);
    let gaussian = low_rank(&mean, &[], &variance);
    let mut theta = [f32::NAN; 2];
    draw_and_gram(&gaussian, &one_draw(&[]), &mut theta, &mut []);
    assert!(theta.iter().all(|value| value.is_finite()));
    let gaussian = PrecisionGaussian {
        mean: &mean,
        factors: &[],
        precision: &variance,
    };
    assert!(projections(&gaussian, &[signed()]).is_empty());
    precision_draw(&gaussian, signed(), &[], &mut theta);
    assert!(theta.iter().all(|value| value.is_finite()));
}

#[test]
fn lengths_that_do_not_match_are_refused() {
    let refused = |call: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(call)).is_err();
    let (two, three) = ([1.0_f32; 2], [1.0_f32; 3]);
    let good = PrecisionGaussian {
        mean: &two,
        factors: &two,
        precision: &two,
    };
    for bad in [
        PrecisionGaussian {
            mean: &three,
            ..good
        },
        PrecisionGaussian {
            factors: &three,
            ..good
        },
        PrecisionGaussian {
            precision: &[],
            ..good
        },
    ] {
        assert!(refused(&mut || drop(projections(&bad, &[signed()]))));
        assert!(refused(&mut || drop(noise_products(&bad, &[signed()]))));
        assert!(refused(&mut || precision_draw(
            &bad,
            signed(),
            &[1.0],
            &mut [0.0; 2]
        )));
    }
    assert!(refused(&mut || precision_draw(
        &good,
        signed(),
        &[],
        &mut [0.0; 2]
    )));
    assert!(refused(&mut || precision_draw(
        &good,
        signed(),
        &[1.0],
        &mut [0.0; 3]
    )));
    let step = PrecisionStep {
        squares: &two,
        gradient: &two,
        mixing: &[1.0],
        rate: 0.5,
        square_scale: 1.0,
        gradient_scale: 1.0,
        prior_precision: &[(2, 1.0)],
    };
    let run = |step: &PrecisionStep<'_>, lengths: [usize; 3]| {
        let [mut factors, mut precision, mut gradient] = lengths.map(|len| vec![0.0; len]);
        refused(&mut || {
            let out = PrecisionOut {
                factors: &mut factors,
                precision: &mut precision,
                gradient: &mut gradient,
            };
            drop(precision_step(&good, step, out));
        })
    };
    assert!(!run(&step, [2; 3]));
    assert!(run(&step, [2, 3, 2]) && run(&step, [2, 2, 1]) && run(&step, [3, 2, 2]));
    assert!(run(
        &PrecisionStep {
            squares: &three,
            ..step
        },
        [2; 3]
    ));
    assert!(run(
        &PrecisionStep {
            gradient: &three,
            ..step
        },
        [2; 3]
    ));
    assert!(run(
        &PrecisionStep {
            mixing: &[],
            ..step
        },
        [2; 3]
    ));
    let mean = MeanStep {
        weights: &[1.0],
        scale: 1.0,
        momentum: 0.0,
        learning_rate: 0.1,
    };
    assert!(!refused(&mut || mean_step(
        &good,
        mean,
        &mut [0.0; 2],
        Some(&mut [0.0; 2])
    )));
    assert!(refused(&mut || mean_step(&good, mean, &mut [0.0; 3], None)));
    assert!(refused(&mut || mean_step(
        &good,
        mean,
        &mut [0.0; 2],
        Some(&mut [0.0; 3])
    )));
    let none = MeanStep {
        weights: &[],
        ..mean
    };
    assert!(refused(&mut || mean_step(&good, none, &mut [0.0; 2], None)));

    assert!(refused(&mut || draw(
        &low_rank(&two, &two, &three),
        &one_draw(&[1.0]),
        &mut [0.0; 2]
    )));
    assert!(refused(&mut || draw(
        &low_rank(&two, &two, &two),
        &one_draw(&[]),
        &mut [0.0; 2]
    )));
    let diagonal = Diagonal::Variance(&two);
    assert!(refused(&mut || diagonal.deviations(1, &mut [0.0; 2])));
    assert!(refused(&mut || diagonal.deviations_and_inverses(
        0,
        &mut [0.0; 2],
        &mut [0.0; 1]
    )));
    assert!(refused(&mut || diagonal.deviations_and_inverses(
        1,
        &mut [0.0; 2],
        &mut [0.0; 2]
    )));

    assert!(refused(&mut || {
        let _ = AdamStep::new(0.1, 0.9, 0.99, 1e-8, None, 0);
    }));
    assert!(refused(&mut || update_moments(
        &[&two],
        0,
        &mut [0.0; 2],
        &mut [0.0; 2],
        None
    )));
}
