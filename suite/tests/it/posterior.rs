//! The low-rank formulas against dense matrices in double precision with independent algebra.

use burn::module::{Module, ParamGroup, ParamId};
use burn::nn::LinearConfig;
use burn::tensor::{Device, Tensor};
use burn_bayes::graph::Layout;
use burn_bayes::posterior::{DenseGaussian, FormKind, Mixture};
use burn_bayes::{FactorPosterior, Noise, Posterior, Prior};
use proptest::prelude::*;

use crate::support::{
    EPSILON, assert_close, assert_near, assert_same, autodiff, bits, device, filled, flat_layout,
    layout_of, matrix, normals, values, vector, widened,
};

/// A Gaussian in either form; the seed determines its numbers.
#[derive(Clone, Debug)]
struct Case {
    kind: FormKind,
    len: usize,
    rank: usize,
    /// The last factor repeats the first.
    deficient: bool,
    seed: u64,
}

impl Case {
    fn mean(&self) -> Vec<f32> {
        normals(self.seed, self.len)
    }

    fn factors(&self) -> Vec<f32> {
        let mut factors = normals(self.seed + 1, self.rank * self.len);
        if self.deficient && self.rank > 1 {
            let (first, rest) = factors.split_at_mut(self.len);
            let start = rest.len() - self.len;
            rest[start..].copy_from_slice(first);
        }
        factors
    }

    /// Mostly between e^-1.5 and e^1.5.
    fn diagonal(&self) -> Vec<f32> {
        let exponents = normals(self.seed + 2, self.len);
        exponents.iter().map(|value| (0.5 * value).exp()).collect()
    }

    fn posterior(&self) -> FactorPosterior {
        let layout = flat_layout(self.len);
        let mean = vector(&self.mean());
        let factors = (self.rank > 0).then(|| matrix(self.rank, self.len, &self.factors()));
        let diagonal = vector(&self.diagonal());
        match self.kind {
            FormKind::Covariance => FactorPosterior::covariance(layout, mean, factors, diagonal),
            FormKind::Precision => FactorPosterior::precision(layout, mean, factors, diagonal),
        }
        .unwrap()
    }

    fn dense(&self) -> DenseGaussian {
        let (mean, diagonal) = (widened(&self.mean()), widened(&self.diagonal()));
        let factors = widened(&self.factors());
        match self.kind {
            FormKind::Covariance => {
                DenseGaussian::from_covariance_factors(mean, &factors, &diagonal)
            }
            FormKind::Precision => DenseGaussian::from_precision_factors(mean, &factors, &diagonal),
        }
        .unwrap()
    }

    /// The trace of B = F diag(diagonal)⁻¹ Fᵀ, which bounds the amplification of errors of (I+B)⁻¹.
    fn gram_trace(&self) -> f64 {
        let diagonal = widened(&self.diagonal());
        let factors = widened(&self.factors());
        let rows = factors.chunks(self.len);
        rows.flat_map(|row| row.iter().zip(&diagonal))
            .map(|(factor, diagonal)| factor * factor / diagonal)
            .sum()
    }

    /// c · ε · n · condition, relative to the terms of a formula.
    fn tolerance(&self) -> f64 {
        4.0 * EPSILON * (self.len + self.rank) as f64 * (1.0 + self.gram_trace())
    }

    /// The size of the terms of log|Σ| other than log|I+B|.
    fn log_size(&self) -> f64 {
        let logs = widened(&self.diagonal()).into_iter().map(f64::ln);
        logs.map(f64::abs).sum::<f64>() + self.len as f64
    }

    /// The terms of a marginal variance: a sum, or a difference from 1/d.
    fn variance_scales(&self, dense: &DenseGaussian) -> Vec<f64> {
        match self.kind {
            FormKind::Covariance => dense.variances(),
            FormKind::Precision => {
                let diagonal = widened(&self.diagonal());
                diagonal.iter().map(|precision| precision.recip()).collect()
            }
        }
    }

    /// The terms of the squared distance of a point, before any cancellation.
    fn distance_size(&self, point: &[f64], dense: &DenseGaussian) -> f64 {
        let deviations: Vec<f64> = point.iter().zip(dense.mean()).map(|(p, m)| p - m).collect();
        let diagonal = widened(&self.diagonal());
        let squares = deviations.iter().zip(&diagonal);
        match self.kind {
            FormKind::Covariance => squares.map(|(v, psi)| v * v / psi).sum(),
            FormKind::Precision => {
                let image = dense.precision().multiply_vector(&deviations).unwrap();
                deviations
                    .iter()
                    .zip(&image)
                    .map(|(v, image)| v * image)
                    .sum()
            }
        }
    }
}

fn cases() -> impl Strategy<Value = Case> {
    (
        prop_oneof![Just(FormKind::Covariance), Just(FormKind::Precision)],
        1usize..=12,
        any::<bool>(),
        0u64..1 << 32,
    )
        .prop_flat_map(|(kind, len, deficient, seed)| {
            (0..=len).prop_map(move |rank| Case {
                kind,
                len,
                rank,
                deficient,
                seed,
            })
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn densities_and_entropies_are_those_of_the_dense_gaussian(case in cases()) {
        let (posterior, dense) = (case.posterior(), case.dense());
        let tolerance = case.tolerance();
        let size = case.log_size();
        let entropy = posterior.entropy().unwrap();
        assert_near("entropy", entropy, dense.entropy(), tolerance * size);

        let point = normals(case.seed + 3, case.len);
        let wide = widened(&point);
        let expected = dense.log_density(&wide).unwrap();
        let allowed = tolerance * (size + case.distance_size(&wide, &dense));
        assert_near("log density", posterior.log_density(&vector(&point)).unwrap(), expected, allowed);
    }

    #[test]
    fn variances_and_products_are_those_of_the_dense_gaussian(case in cases()) {
        let (posterior, dense) = (case.posterior(), case.dense());
        let (tolerance, scales) = (case.tolerance(), case.variance_scales(&dense));
        let found = values(&posterior.variance().unwrap());
        assert_close("variance", &found, &dense.variances(), &scales, tolerance);

        let direction = normals(case.seed + 4, case.len);
        let wide = widened(&direction);
        let distances = wide.iter().zip(dense.mean()).zip(dense.variances());
        let squares: f64 = distances.map(|((v, mean), variance)| (v - mean).powi(2) / variance).sum();
        let expected = (squares / case.len as f64).sqrt();
        // The relative error of a distance is at most that of its variance.
        let relative = scales.iter().zip(dense.variances()).map(|(scale, variance)| scale / variance);
        let allowed = tolerance * relative.fold(1.0, f64::max) * (1.0 + expected);
        let found = posterior.standardized_distance(&vector(&direction)).unwrap();
        assert_near("distance", found, expected, allowed);

        let expected = dense.covariance().multiply_vector(&wide).unwrap();
        // ‖Σ‖ is at most the sum of the variances' scales.
        let scale = scales.iter().sum::<f64>() * wide.iter().map(|v| v * v).sum::<f64>().sqrt();
        let found = values(&posterior.covariance_product(&vector(&direction)).unwrap());
        assert_close("product", &found, &expected, &vec![scale; case.len], tolerance);
    }

    #[test]
    fn the_precision_product_undoes_the_covariance_product(case in cases()) {
        let (posterior, dense) = (case.posterior(), case.dense());
        let direction = normals(case.seed + 4, case.len);
        let product = posterior.precision_product(&vector(&direction)).unwrap();
        let expected = dense.precision().multiply_vector(&widened(&direction)).unwrap();
        // What rounding may change is at most the condition of the covariance times the result.
        let norm = |matrix: &[f64]| matrix.iter().map(|v| v * v).sum::<f64>().sqrt();
        let condition = norm(dense.covariance().as_slice()) * norm(dense.precision().as_slice());
        let size = norm(&expected) * condition.max(1.0);
        assert_close("precision", &values(&product), &expected, &vec![size; case.len], case.tolerance());
    }

    #[test]
    fn linear_functions_vary_as_under_the_dense_gaussian(case in cases(), functions in 1usize..5) {
        let (posterior, dense) = (case.posterior(), case.dense());
        let rows: Vec<Vec<f32>> = (0..functions as u64)
            .map(|row| normals(case.seed + 10 + row, case.len))
            .collect();
        let jacobian = Tensor::stack(rows.iter().map(|row| vector(row)).collect(), 0);
        let wide: Vec<Vec<f64>> = rows.iter().map(|row| widened(row)).collect();
        let mut expected = Vec::new();
        for left in &wide {
            let product = dense.covariance().multiply_vector(left).unwrap();
            let dot = |right: &Vec<f64>| product.iter().zip(right).map(|(p, r)| p * r).sum::<f64>();
            expected.extend(wide.iter().map(dot));
        }
        // |J Σ Jᵀ| is at most ‖J‖² times the sum of the variances' scales.
        let largest = wide.iter().map(|row| row.iter().map(|v| v * v).sum::<f64>()).fold(0.0, f64::max);
        let scale = case.variance_scales(&dense).iter().sum::<f64>() * largest;
        let found = values(&posterior.linear_covariance(&jacobian).unwrap().reshape([-1]));
        let scales = vec![scale; functions * functions];
        assert_close("covariance", &found, &expected, &scales, case.tolerance());

        let diagonal: Vec<f64> = expected.iter().step_by(functions + 1).copied().collect();
        let found = values(&posterior.linear_variance(&jacobian).unwrap());
        assert_close("variance", &found, &diagonal, &scales[..functions], case.tolerance());
    }

    #[test]
    fn the_divergence_from_a_grouped_prior_is_the_dense_one(
        case in cases(),
        weight in 0.1f64..10.0,
        bias in 0.1f64..10.0,
        cut in 0usize..12,
    ) {
        let cut = cut % case.len;
        let layout = match cut {
            0 => layout_of(&[("weight", case.len)]),
            _ => layout_of(&[("weight", cut), ("bias", case.len - cut)]),
        };
        let flat = case.posterior();
        let posterior = match case.kind {
            FormKind::Covariance => FactorPosterior::covariance(
                layout.clone(), flat.mean(), flat.factors(), flat.diagonal()),
            FormKind::Precision => FactorPosterior::precision(
                layout.clone(), flat.mean(), flat.factors(), flat.diagonal()),
        }.unwrap();
        let prior = match cut {
            0 => Prior::isotropic(weight),
            _ => Prior::isotropic(weight).with_group(ParamGroup::from_predicate("bias"), bias),
        };
        let prior = prior.resolve(&layout).unwrap();
        let first = if cut == 0 { case.len } else { cut };
        let precisions: Vec<f64> =
            (0..case.len).map(|index| if index < first { weight } else { bias }).collect();
        let prior_variances: Vec<f64> = precisions.iter().map(|value| value.recip()).collect();
        let dense = case.dense();
        let expected = dense
            .kl_divergence(
                &DenseGaussian::from_variances(vec![0.0; case.len], &prior_variances).unwrap(),
            )
            .unwrap();
        let terms: f64 = precisions
            .iter()
            .zip(dense.mean())
            .zip(case.variance_scales(&dense))
            .map(|((alpha, mean), variance)| alpha * (mean * mean + variance))
            .sum();
        let allowed = case.tolerance() * (terms + case.log_size());
        assert_near("divergence", posterior.kl(&prior).unwrap(), expected, allowed);
    }

    #[test]
    fn the_best_prior_precision_has_the_smallest_divergence(case in cases()) {
        let posterior = case.posterior();
        let best = posterior.prior_precision(&ParamGroup::all()).unwrap();
        let divergence = |precision: f64| {
            let prior = Prior::isotropic(precision).resolve(posterior.layout()).unwrap();
            posterior.kl(&prior).unwrap()
        };
        // KL(q‖N(0, α⁻¹)) is ½ D (α/α* − ln α) up to a constant, if α* is the best.
        for factor in [0.5, 2.0] {
            let expected = 0.5 * case.len as f64 * (factor - 1.0 - f64::ln(factor));
            let found = divergence(factor * best) - divergence(best);
            let allowed = case.tolerance() * (case.len as f64 + case.log_size());
            assert_near("divergence", found, expected, allowed);
        }
    }

    #[test]
    fn the_dense_copy_is_the_dense_gaussian(case in cases()) {
        let (copy, dense) = (case.posterior().to_dense().unwrap(), case.dense());
        // Both are computed from the same single-precision numbers.
        prop_assert_eq!(copy, dense);
    }

    #[test]
    fn a_row_of_many_draws_is_the_draw_of_that_row(case in cases(), count in 0usize..5) {
        let posterior = case.posterior();
        let noise = Noise::new(case.seed).fold(1);
        let draws = posterior.draws(noise, count).unwrap();
        prop_assert_eq!(draws.dims(), [count, case.len]);
        for row in 0..count {
            let single = posterior.draw(noise.row(row as u64)).unwrap();
            let found = bits(&draws.clone().slice([row..row + 1, 0..case.len]));
            assert_same("row", &found, &bits(&single));
        }
    }

    #[test]
    fn the_same_noise_is_the_same_draw_and_its_negation_the_mirrored_one(case in cases()) {
        let posterior = case.posterior();
        let noise = Noise::new(case.seed);
        let draw = posterior.draw(noise).unwrap();
        prop_assert_eq!(bits(&draw), bits(&posterior.draw(noise).unwrap()));
        prop_assert_ne!(bits(&draw), bits(&posterior.draw(noise.fold(1)).unwrap()));

        let mirrored = values(&posterior.draw(noise.negated()).unwrap());
        let (draw, mean) = (values(&draw), values(&posterior.mean()));
        let expected: Vec<f64> = mean.iter().zip(&draw).map(|(m, d)| 2.0 * m - d).collect();
        let scales: Vec<f64> = mean.iter().zip(&draw).map(|(m, d)| m.abs() + d.abs() + 1.0).collect();
        let tolerance = 8.0 * EPSILON * (case.rank + 4) as f64;
        assert_close("mirrored", &mirrored, &expected, &scales, tolerance);
    }

    #[test]
    fn a_draw_in_covariance_form_is_its_equation(case in cases()) {
        let case = Case { kind: FormKind::Covariance, ..case };
        let noise = Noise::new(case.seed).fold(2);
        // Host noise is equal on all devices, so the test uses it.
        let normal = values(&noise.normal(case.len, &device()));
        let latent = widened(&noise.latent(case.rank));
        let (mean, factors, diagonal) =
            (widened(&case.mean()), widened(&case.factors()), widened(&case.diagonal()));
        let (mut expected, mut scales) = (Vec::new(), Vec::new());
        for at in 0..case.len {
            let terms = (0..case.rank).map(|k| latent[k] * factors[k * case.len + at]);
            let scaled = diagonal[at].sqrt() * normal[at];
            expected.push(mean[at] + scaled + terms.clone().sum::<f64>());
            scales.push(mean[at].abs() + scaled.abs() + terms.map(f64::abs).sum::<f64>());
        }
        let found = values(&case.posterior().draw(noise).unwrap());
        assert_close("draw", &found, &expected, &scales, 2.0 * EPSILON * (case.rank + 4) as f64);
    }
}

/// The mean and covariance of many draws: each entry is within five standard errors, which for a Gaussian are
/// √(Sᵢᵢ/n) and √((SᵢᵢSⱼⱼ + Sᵢⱼ²)/n). The probability of a false alarm is about 10⁻⁵ per seed, and the seeds
/// are fixed.
#[test]
fn draws_have_the_mean_and_the_covariance_of_the_gaussian() {
    const COUNT: usize = 4000;
    let shapes = [(5, 0, false), (5, 2, false), (4, 4, false), (5, 3, true)];
    for kind in [FormKind::Covariance, FormKind::Precision] {
        for (len, rank, deficient) in shapes {
            let case = Case {
                kind,
                len,
                rank,
                deficient,
                seed: 40,
            };
            let dense = case.dense();
            let draws = values(&case.posterior().draws(Noise::new(9), COUNT).unwrap());
            let count = COUNT as f64;
            let mut mean = vec![0.0; len];
            for row in draws.chunks(len) {
                mean.iter_mut().zip(row).for_each(|(m, v)| *m += v / count);
            }
            let covariance = dense.covariance();
            for i in 0..len {
                let error = (covariance.get(i, i) / count).sqrt();
                assert_near("mean", mean[i], dense.mean()[i], 5.0 * error);
                for j in 0..=i {
                    let found = draws
                        .chunks(len)
                        .map(|row| (row[i] - dense.mean()[i]) * (row[j] - dense.mean()[j]))
                        .sum::<f64>()
                        / count;
                    let (sii, sjj) = (covariance.get(i, i), covariance.get(j, j));
                    let sij = covariance.get(i, j);
                    let error = ((sii * sjj + sij * sij) / count).sqrt();
                    assert_near(&format!("{case:?} [{i},{j}]"), found, sij, 5.0 * error);
                }
            }
        }
    }
}

/// Compared with the CPU backend, if it is compiled in.
#[cfg(feature = "flex")]
#[test]
fn noise_is_the_same_on_every_device() {
    for len in [1, 3, 4, 5, 1023, 4096] {
        for noise in [Noise::new(3), Noise::new(3).fold(8).negated()] {
            let here = noise.normal(len, &device());
            let there = noise.normal(len, &Device::flex());
            assert_same("normals", &bits(&here), &bits(&there));
        }
    }
    for kind in [FormKind::Covariance, FormKind::Precision] {
        let case = Case {
            kind,
            len: 300,
            rank: 5,
            deficient: false,
            seed: 77,
        };
        let here = case.posterior();
        let there = here.clone().to_device(&Device::flex());
        let draw = values(&there.draw(Noise::new(1)).unwrap());
        let scales: Vec<f64> = draw.iter().map(|value| value.abs() + 1.0).collect();
        let found = values(&here.draw(Noise::new(1)).unwrap());
        assert_close("draw", &found, &draw, &scales, 64.0 * EPSILON);
    }
}

#[test]
fn without_factors_everything_is_diagonal() {
    for kind in [FormKind::Covariance, FormKind::Precision] {
        let case = Case {
            kind,
            len: 6,
            rank: 0,
            deficient: false,
            seed: 5,
        };
        let posterior = case.posterior();
        assert_eq!((posterior.rank(), posterior.factors().is_none()), (0, true));
        let variance: Vec<f64> = widened(&case.diagonal())
            .into_iter()
            .map(|value| match kind {
                FormKind::Covariance => value,
                FormKind::Precision => value.recip(),
            })
            .collect();
        let found = values(&posterior.variance().unwrap());
        assert_close("variance", &found, &variance, &variance, 4.0 * EPSILON);
    }
    // A matrix without rows is the same as no matrix.
    let layout = flat_layout(3);
    let none = Tensor::<2>::zeros([0, 3], &device());
    let ones = vector(&[1.0; 3]);
    let posterior = FactorPosterior::covariance(layout, ones.clone(), Some(none), ones).unwrap();
    assert!(posterior.factors().is_none());
}

#[test]
fn a_dense_copy_of_a_large_posterior_is_refused() {
    let ones = |len| vector(&vec![1.0; len]);
    let posterior =
        |len| FactorPosterior::covariance(flat_layout(len), ones(len), None, ones(len)).unwrap();
    let error = posterior(DenseGaussian::LIMIT + 1).to_dense().unwrap_err();
    assert!(error.is_config(), "{error}");
    let message = error.to_string();
    assert!(
        message.contains("4097") && message.contains("covariance_product"),
        "{message}"
    );
}

#[test]
fn numbers_that_are_no_gaussian_are_refused_by_name_and_place() {
    let layout = layout_of(&[("weight", 2), ("bias", 1)]);
    let good = [1.0, 2.0, 3.0];
    let build = |mean: &[f32], factors: &[f32], diagonal: &[f32]| {
        FactorPosterior::covariance(
            layout.clone(),
            vector(mean),
            Some(matrix(1, factors.len(), factors)),
            vector(diagonal),
        )
    };
    assert!(build(&good, &good, &good).is_ok());
    type Is = fn(&burn_bayes::Error) -> bool;
    let cases: [(_, Is, _); 8] = [
        (
            build(&[1.0, 2.0, f32::NAN], &good, &good),
            |error| error.is_numerical(),
            "mean is NaN at bias",
        ),
        (
            build(&good, &[1.0, f32::INFINITY, 1.0], &good),
            |error| error.is_numerical(),
            "factors is inf at weight",
        ),
        (
            build(&good, &good, &[1.0, f32::NEG_INFINITY, 1.0]),
            |error| error.is_numerical(),
            "variance is -inf at weight",
        ),
        (
            build(&good, &good, &[1.0, 1.0, 0.0]),
            |error| error.is_numerical(),
            "variance is 0 at bias",
        ),
        (
            build(&good, &good, &[-1.0, 1.0, 1.0]),
            |error| error.is_numerical(),
            "variance is -1 at weight",
        ),
        (
            build(&good[..2], &good, &good),
            |error| error.is_layout(),
            "mean has 2 numbers",
        ),
        (
            build(&good, &good[..1], &good),
            |error| error.is_layout(),
            "factors has 1 numbers",
        ),
        (
            build(&good, &good, &[1.0; 4]),
            |error| error.is_layout(),
            "variance has 4 numbers",
        ),
    ];
    for (result, kind, message) in cases {
        let error = result.expect_err(message);
        assert!(
            kind(&error) && error.to_string().contains(message),
            "expected {message}, got {error}"
        );
    }
}

#[test]
fn what_is_left_of_a_settled_direction_is_not_lost() {
    // Along the factor the precision is 1 + 2·10⁶, although 1/d alone is a variance of one.
    let posterior = FactorPosterior::precision(
        flat_layout(2),
        vector(&[0.0; 2]),
        Some(matrix(1, 2, &[1e3; 2])),
        vector(&[1.0; 2]),
    );
    let variance = posterior.unwrap().linear_variance(&matrix(1, 2, &[1.0; 2]));
    let found = values(&variance.unwrap())[0];
    let expected = 2.0 / (1.0 + 2e6);
    assert!((found / expected - 1.0).abs() < 1e-5, "{found} {expected}");
}

/// A precision form whose factors leave little of the diagonal: U²/d is about 10^`decades`.
fn settled(decades: i32, rank: usize, seed: u64) -> (FactorPosterior, DenseGaussian, f64) {
    const LEN: usize = 5;
    let size = 10_f32.powf(0.5 * decades as f32);
    let factors: Vec<f32> = normals(seed, rank * LEN).iter().map(|u| size * u).collect();
    let diagonal: Vec<f32> = normals(seed + 1, LEN)
        .iter()
        .map(|d| (0.5 * d).exp())
        .collect();
    let mean = vec![0.0; LEN];
    let posterior = FactorPosterior::precision(
        flat_layout(LEN),
        vector(&mean),
        Some(matrix(rank, LEN, &factors)),
        vector(&diagonal),
    );
    let dense = DenseGaussian::from_precision_factors(
        widened(&mean),
        &widened(&factors),
        &widened(&diagonal),
    );
    let squares = widened(&factors)
        .into_iter()
        .zip(widened(&diagonal).into_iter().cycle());
    let condition = 1.0 + squares.map(|(u, d)| u * u / d).sum::<f64>();
    // Rounding of the result, and that of the dense matrices in double precision.
    let allowed = 2.0 * EPSILON + 16.0 * f64::EPSILON * condition;
    (posterior.unwrap(), dense.unwrap(), allowed)
}

#[test]
fn variances_and_what_follows_from_them_keep_their_digits_up_to_ten_decades() {
    for (decades, rank) in (0..=10)
        .step_by(2)
        .flat_map(|d| [1, 2, 4, 5, 7].map(|rank| (d, rank)))
    {
        let (posterior, dense, allowed) = settled(decades, rank, 40 + rank as u64);
        let relative = |what: &str, found: f64, expected: f64| {
            let error = (found / expected - 1.0).abs();
            assert!(
                error < allowed,
                "{what} at 10^{decades}, rank {rank}: {found} {expected}"
            );
        };
        let variances = dense.variances();
        for (found, expected) in values(&posterior.variance().unwrap())
            .iter()
            .zip(&variances)
        {
            relative("variance", *found, *expected);
        }
        let best = posterior.prior_precision(&ParamGroup::all()).unwrap();
        relative("prior precision", best, 5.0 / variances.iter().sum::<f64>());

        let point = normals(7, 5);
        let squares = widened(&point)
            .into_iter()
            .zip(&variances)
            .map(|(v, variance)| v * v / variance);
        let expected = (squares.sum::<f64>() / 5.0).sqrt();
        relative(
            "distance",
            posterior.standardized_distance(&vector(&point)).unwrap(),
            expected,
        );

        let expected = dense
            .covariance()
            .multiply_vector(&widened(&point))
            .unwrap();
        let norm = expected.iter().map(|v| v * v).sum::<f64>().sqrt();
        let found = values(&posterior.covariance_product(&vector(&point)).unwrap());
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found - expected).abs() < allowed * norm,
                "product: {found} {expected}"
            );
        }

        let entropy = posterior.entropy().unwrap();
        assert_near("entropy", entropy, dense.entropy(), 20.0 * allowed);
        let prior = Prior::isotropic(0.5).resolve(&flat_layout(5)).unwrap();
        let dense_prior = DenseGaussian::from_variances(vec![0.0; 5], &[2.0; 5]).unwrap();
        let expected = dense.kl_divergence(&dense_prior).unwrap();
        assert_near(
            "divergence",
            posterior.kl(&prior).unwrap(),
            expected,
            40.0 * allowed,
        );
        for (at, &expected) in variances.iter().enumerate() {
            let jacobian: Vec<f32> = (0..5)
                .map(|other| if other == at { 1.0 } else { 0.0 })
                .collect();
            let found = posterior.linear_variance(&matrix(1, 5, &jacobian)).unwrap();
            let found = values(&found)[0];
            // The roots are in single precision.
            let error = (found / expected - 1.0).abs();
            assert!(
                error < allowed + 1e-3,
                "linear at 10^{decades}, rank {rank}: {found} {expected}"
            );
        }
    }
}

#[test]
fn one_weight_with_a_million_observations_has_its_variance() {
    for (square, expected) in [(1e6_f32, 1e-6), (1e7, 1e-7), (1e8, 1e-8), (1e12, 1e-12)] {
        let posterior = FactorPosterior::precision(
            flat_layout(1),
            vector(&[0.0]),
            Some(matrix(1, 1, &[square.sqrt()])),
            vector(&[1.0]),
        );
        let posterior = posterior.unwrap();
        let variance = values(&posterior.variance().unwrap())[0];
        assert!((variance / expected - 1.0).abs() < 2e-6, "{variance}");
        let distance = posterior.standardized_distance(&vector(&[1e-3])).unwrap();
        assert!(
            (distance * expected.sqrt() / 1e-3 - 1.0).abs() < 2e-6,
            "{distance}"
        );
    }
}

#[test]
fn vectors_and_priors_of_another_length_are_refused() {
    let case = Case {
        kind: FormKind::Covariance,
        len: 4,
        rank: 1,
        deficient: false,
        seed: 1,
    };
    let posterior = case.posterior();
    let short = vector(&[1.0; 3]);
    let prior = Prior::isotropic(1.0).resolve(&flat_layout(3)).unwrap();
    for error in [
        posterior.log_density(&short).unwrap_err(),
        posterior.covariance_product(&short).unwrap_err(),
        posterior
            .linear_variance(&short.clone().unsqueeze())
            .unwrap_err(),
        posterior.kl(&prior).unwrap_err(),
    ] {
        assert!(error.is_layout(), "{error}");
        assert!(error.to_string().contains('3') && error.to_string().contains('4'));
    }
}

#[test]
fn priors_that_are_none_are_refused() {
    let layout = flat_layout(2);
    for precision in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        for prior in [
            Prior::isotropic(precision),
            Prior::isotropic(1.0).with_group(ParamGroup::all(), precision),
        ] {
            let error = prior.resolve(&layout).unwrap_err();
            assert!(error.is_config() && error.to_string().starts_with("prior"));
        }
    }
}

#[test]
fn a_prior_group_that_selects_nothing_is_refused_by_name() {
    let layout = layout_of(&[("hidden.weight", 2), ("hidden.bias", 1)]);
    for (group, name) in [
        (ParamGroup::from_predicate("head"), "Include([\"head\"])"),
        (
            ParamGroup::from_path("model.hidden.bias"),
            "model.hidden.bias",
        ),
        (ParamGroup::from_ids(vec![ParamId::new()]), "Explicit"),
    ] {
        let prior = Prior::isotropic(1.0)
            .with_group(ParamGroup::from_predicate("bias"), 2.0)
            .with_group(group, 3.0);
        let error = prior.resolve(&layout).unwrap_err();
        assert!(error.is_config(), "{error}");
        let message = error.to_string();
        assert!(
            message.starts_with("prior: the group with precision 3,")
                && message.contains(name)
                && message.contains("`hidden.weight`"),
            "{message}"
        );
    }
}

#[test]
fn the_prior_precision_of_a_group_is_that_of_its_weights() {
    let layout = layout_of(&[("weight", 2), ("bias", 1)]);
    let device = Device::default();
    let posterior = FactorPosterior::covariance(
        layout,
        Tensor::from_data([1.0, -2.0, 3.0], &device),
        None,
        Tensor::from_data([0.5, 1.5, 1.0], &device),
    )
    .unwrap();
    let of = |path: &str| posterior.prior_precision(&ParamGroup::from_predicate(path));
    assert!((of("weight").unwrap() - 2.0 / 7.0).abs() < 1e-7);
    assert!((of("bias").unwrap() - 0.1).abs() < 1e-7);
    let error = of("norm").unwrap_err();
    assert!(
        error.is_config() && error.to_string().contains("norm"),
        "{error}"
    );
}

#[test]
fn the_last_prior_group_that_matches_holds() {
    let prior = Prior::isotropic(1.0)
        .with_group(ParamGroup::all(), 2.0)
        .with_group(ParamGroup::from_predicate("bias"), 3.0)
        .resolve(&layout_of(&[("weight", 2), ("bias", 1), ("scale", 4)]))
        .unwrap();
    assert_eq!(prior.segments(), [(2, 2.0), (1, 3.0), (4, 2.0)]);
    assert_near("log α", prior.log_sum(), 6.0 * 2f64.ln() + 3f64.ln(), 1e-14);
}

#[test]
fn the_mean_and_draws_are_written_into_models() {
    let model = filled(LinearConfig::new(2, 2).init(&autodiff()), 3, 1.0);
    let layout = std::sync::Arc::new(Layout::new(&model, &ParamGroup::all()).unwrap());
    let posterior = FactorPosterior::covariance(
        layout.clone(),
        vector(&normals(1, 6)),
        Some(matrix(2, 6, &normals(2, 12))),
        vector(&[0.5; 6]),
    )
    .unwrap();
    let mean = posterior.write_mean(model.clone()).unwrap();
    assert_eq!(
        bits(&layout.flatten(&mean).unwrap()),
        bits(&posterior.mean())
    );
    let noise = Noise::new(4);
    let drawn = posterior.write_draw(model.valid(), noise).unwrap();
    assert_eq!(
        bits(&layout.flatten(&drawn).unwrap()),
        bits(&posterior.draw(noise).unwrap())
    );
    let other = LinearConfig::new(3, 2).init(&device());
    let error = posterior.write_mean(other).unwrap_err();
    assert!(error.is_layout(), "{error}");
}

#[test]
fn a_posterior_is_a_module() {
    for kind in [FormKind::Covariance, FormKind::Precision] {
        let case = Case {
            kind,
            len: 5,
            rank: 2,
            deficient: false,
            seed: 12,
        };
        let posterior = case.posterior();
        let other = Case { seed: 13, ..case }.posterior();
        let loaded = other.load_record(posterior.clone().into_record());
        let noise = Noise::new(0);
        assert_eq!(
            bits(&loaded.draw(noise).unwrap()),
            bits(&posterior.draw(noise).unwrap())
        );
        assert_eq!(posterior.num_params(), 5 + 10 + 5);
        // It never tracks gradients, whether it is trained further or not.
        assert!(!posterior.train().mean().is_require_grad());
    }
}

fn mixture() -> (Vec<Case>, Mixture) {
    let cases: Vec<Case> = [
        FormKind::Covariance,
        FormKind::Precision,
        FormKind::Covariance,
    ]
    .into_iter()
    .zip(20..)
    .map(|(kind, seed)| Case {
        kind,
        len: 3,
        rank: 1,
        deficient: false,
        seed,
    })
    .collect();
    let posteriors = cases.iter().map(Case::posterior).collect();
    let mixture = Mixture::new(posteriors, vec![2.0, 6.0, 0.0]).unwrap();
    (cases, mixture)
}

#[test]
fn the_density_of_a_mixture_is_the_weighted_sum() {
    let (cases, mixture) = mixture();
    assert_eq!(mixture.weights(), [0.25, 0.75, 0.0]);
    for seed in 0..8 {
        let point = normals(seed, 3);
        let densities: Vec<f64> = cases
            .iter()
            .map(|case| case.dense().log_density(&widened(&point)).unwrap().exp())
            .collect();
        let expected = (0.25 * densities[0] + 0.75 * densities[1]).ln();
        let found = mixture.log_density(&vector(&point)).unwrap();
        let point = widened(&point);
        let allowed = cases[..2]
            .iter()
            .map(|case| {
                case.tolerance() * (case.log_size() + case.distance_size(&point, &case.dense()))
            })
            .fold(0.0, f64::max);
        assert_near("log density", found, expected, allowed);
    }
    // Far away all densities underflow, but their logarithms do not.
    let far = mixture.log_density(&vector(&[1e6; 3])).unwrap();
    assert!(far.is_finite() && far < -1e9, "{far}");
}

#[test]
fn a_mixture_draws_from_its_components_in_proportion() {
    let (cases, mixture) = mixture();
    let components: Vec<_> = cases.iter().map(Case::posterior).collect();
    const COUNT: u64 = 2000;
    let mut from_first = 0;
    for row in 0..COUNT {
        let noise = Noise::new(6).row(row);
        let draw = bits(&mixture.draw(noise).unwrap());
        let matching = components
            .iter()
            .position(|component| bits(&component.draw(noise).unwrap()) == draw)
            .expect("a draw of one of the components");
        assert_ne!(matching, 2, "a component without weight was drawn");
        from_first += usize::from(matching == 0);
    }
    // The standard error of a frequency of 1/4 among 2000 is 0.0097.
    assert_near(
        "share",
        from_first as f64 / COUNT as f64,
        0.25,
        4.0 * 0.0097,
    );
}

#[test]
fn as_many_draws_as_equal_components_contain_each_of_them() {
    let points: Vec<_> = (0..5_u8)
        .map(|at| {
            let mean = vector(&[f32::from(at)]);
            FactorPosterior::covariance(flat_layout(1), mean, None, vector(&[1e-12])).unwrap()
        })
        .collect();
    let mixture = Mixture::uniform(points).unwrap();
    let sampler = mixture.sampler().unwrap();
    for seed in 0..200 {
        for noise in [Noise::new(seed), Noise::new(seed).for_prediction()] {
            let draws = sampler.draws(noise, 10).unwrap();
            for (round, draws) in values(&draws).chunks(5).enumerate() {
                let mut found: Vec<i64> = draws.iter().map(|draw| draw.round() as i64).collect();
                found.sort_unstable();
                assert_eq!(found, [0, 1, 2, 3, 4], "seed {seed}, round {round}");
            }
        }
    }
}

#[test]
fn a_component_that_does_not_exist_is_an_error() {
    let (_, mixture) = mixture();
    let error = mixture.component(5).unwrap_err();
    let message = error.to_string();
    assert!(
        error.is_config() && message.contains("is 5") && message.contains("3 components"),
        "{message}"
    );
}

#[test]
fn mixtures_that_are_none_are_refused() {
    let (cases, _) = mixture();
    let posteriors = || -> Vec<_> { cases.iter().map(Case::posterior).collect() };
    for weights in [
        vec![1.0, 1.0],
        vec![0.0; 3],
        vec![1.0, -1.0, 1.0],
        vec![1.0, f64::NAN, 1.0],
        vec![1.0, f64::INFINITY, 1.0],
    ] {
        let error = Mixture::new(posteriors(), weights).map(|_| ()).unwrap_err();
        assert!(
            error.is_config() && error.to_string().starts_with("weights"),
            "{error}"
        );
    }
    let none = Mixture::<FactorPosterior>::uniform(Vec::new());
    let error = none.map(|_| ()).unwrap_err();
    assert!(
        error.is_config() && error.to_string().starts_with("components"),
        "{error}"
    );
    let mut mixed = posteriors();
    mixed.push(
        Case {
            len: 4,
            ..cases[0].clone()
        }
        .posterior(),
    );
    let error = Mixture::uniform(mixed).map(|_| ()).unwrap_err();
    assert!(error.is_layout(), "{error}");
}
