//! Convergence test: the KL gap, in nats, between a Gaussian fit q = N(c, S) and the best Gaussian of its family, without
//! knowing the best.
//!
//! With the gradient G(θ) = N ∇NLL(θ) + α⊙θ of the negative log joint density, two quantities vanish at the
//! optimum of the bound:
//!
//! * the **decrement** ½ ĝᵀSĝ with ĝ = E_q G(θ), which a Newton step of the mean would gain;
//! * the **scale gain** Σ_j ½(x_j − 1 − ln x_j) with x_j = E_q\[H_jj\] / (S⁻¹)_jj, which new scales of the weights
//!   would gain.
//!
//! Draws are antithetic pairs c ± δ. Their mean estimates ĝ without the noise that is linear in δ, and ĝᵀSĝ is the average
//! of ĝₐᵀSĝ_b over different pairs a and b, which has no expected square of a Monte-Carlo error.
//!
//! With a = ½(G(c+δ) − G(c−δ)) and u = S⁻¹δ, Price's theorem gives E\[u⊙a\] = E\[diag H\] and E\[u⊙u\] = diag S⁻¹. The x_j of
//! few pairs are noisy, and a logarithm turns noise into gain. So they are estimated in two parts, for each parameter:
//!
//! * their average x̄ = Σ u⊙a / Σ u⊙u over its weights and all pairs, in units of (S⁻¹)_jj, which is exact for every δ if
//!   H = x̄ S⁻¹;
//! * the offsets x_j − x̄, the averages over pairs of u⊙(a − x̄u) / (S⁻¹)_jj, shrunk until their sum of squares is its
//!   unbiased estimate, from products of different pairs. With many pairs nothing is shrunk.
//!
//! If the deviation of a weight is so small that rounding removes it from c ± δ, or S⁻¹δ overflows, x is unknown. Such
//! a weight counts with the gain of a ratio that is not distinguished from 0, and the gap is undetermined.
//!
//! For at most 32 weights, what better factors would gain is measured too (`factors.rs`). It is another estimate of what a better
//! covariance would gain, so the larger of the two counts.

use std::ops::Range;

use burn::config::Config;
use burn::module::Module;
use burn::tensor::Tensor;
use burn::train::TrainStep;
use burn_bayes_eval::Bounded;

use super::factors::{DenseFit, FactorGain, SMALLEST_RATIO, gain_of};
use crate::algebra::SquareMatrix;
use crate::error::{Error, Result};
use crate::kernels::composed::{from_host, to_host};
use crate::likelihood::MixDraws;
use crate::methods::Draw;
use crate::noise::Noise;
use crate::posterior::FactorPosterior;
use crate::prior::Prior;
use crate::train::one_by_one;
use crate::verdict::{Convergence, KlGap};

/// Estimates the KL gap between a fit and the best Gaussian of its family, in one to three passes over the training data.
///
/// ```
/// use burn::module::Module;
/// use burn::train::TrainStep;
/// use burn_bayes::diagnostics::ConvergenceTest;
/// use burn_bayes::likelihood::MixDraws;
/// use burn_bayes::FactorPosterior;
///
/// fn kl_gap<M>(
///     model: &M,
///     posterior: &FactorPosterior,
///     train_len: usize,
///     batches: Vec<<M as TrainStep>::Input>,
/// ) -> burn_bayes::Result<f64>
/// where
///     M: Module + TrainStep<Input: Clone, Output: MixDraws>,
/// {
///     let gap = ConvergenceTest::new(train_len).measure(model, posterior, || batches.clone())?;
///     println!("{:.1} ± {:.1} nats to the best Gaussian of this family", gap.nats(), gap.standard_error);
///     Ok(gap.nats())
/// }
/// ```
#[derive(Config, Debug)]
#[non_exhaustive]
pub struct ConvergenceTest {
    /// N, the number of training examples (not of batches).
    pub train_len: usize,
    /// The prior over the weights, with which the posterior was fitted.
    #[config(default = "Prior::isotropic(1.0)")]
    pub prior: Prior,
    /// λ, the effective sample size of the fit; N by default. With another one, the best Gaussian is that for λ/N copies of data
    /// and prior.
    pub ess: Option<f64>,
    /// The number of antithetic pairs of draws to begin with; at least 2.
    #[config(default = 4)]
    pub pairs: usize,
    /// While the draws do not determine whether the fit has converged, there are four times as many pairs, up to this number. Fewer
    /// if three vectors of all weights for each pair were too much to keep.
    #[config(default = 64)]
    pub most_pairs: usize,
    /// Seed of the draws.
    #[config(default = 0)]
    pub seed: u64,
}

impl ConvergenceTest {
    /// The KL gap between `posterior`, fitted to the data of the batches that `batches` returns, and the best Gaussian of its family.
    /// The model's step must return gradients of the mean negative log-likelihood, and its weights outside the posterior
    /// must be those of the fit.
    ///
    /// # Errors
    ///
    /// If there are fewer than two pairs or no batches, or a gradient is not finite.
    pub fn measure<M, I>(
        &self,
        model: &M,
        posterior: &FactorPosterior,
        batches: impl Fn() -> I,
    ) -> Result<KlGap>
    where
        M: Module + TrainStep<Input: Clone, Output: MixDraws>,
        I: IntoIterator<Item = <M as TrainStep>::Input>,
    {
        let gap = self.of_pairs(model, posterior, &batches)?;
        let factors = match gap.undetermined {
            0 => self.factor_gain(model, posterior, batches)?,
            _ => None,
        };
        Ok(factors.map_or(gap, |found| {
            gap.with_factors(found.nats, found.standard_error)
        }))
    }

    /// The gap without what better factors would gain.
    fn of_pairs<M, I>(
        &self,
        model: &M,
        posterior: &FactorPosterior,
        batches: impl Fn() -> I,
    ) -> Result<KlGap>
    where
        M: Module + TrainStep<Input: Clone, Output: MixDraws>,
        I: IntoIterator<Item = <M as TrainStep>::Input>,
    {
        if self.pairs < 2 {
            let problem = format!("is {}; it must be at least 2", self.pairs);
            return Err(Error::config("pairs", problem));
        }
        let layout = posterior.layout();
        let mut pairs = AntitheticPairs {
            precisions: posterior.precision_diagonal()?,
            parts: layout
                .entries()
                .iter()
                .map(|entry| entry.offset..entry.offset + entry.len())
                .collect(),
            ..AntitheticPairs::default()
        };
        let most = self.most_pairs.min(MOST_NUMBERS / layout.len().max(1));
        let mut next = self.pairs;
        loop {
            let more = pairs.count()..next;
            self.sample(more, model, posterior, batches(), &mut pairs)?;
            let gap = pairs.gap(posterior)?;
            let is_uncertain = gap.standard_error.is_finite()
                && gap.convergence(layout.len()) == Convergence::Undetermined;
            if !is_uncertain || next >= most {
                return Ok(gap);
            }
            next = (MORE_PAIRS * next).min(most);
        }
    }

    /// Adds these pairs, in one pass over the batches.
    fn sample<M>(
        &self,
        numbers: Range<usize>,
        model: &M,
        posterior: &FactorPosterior,
        batches: impl IntoIterator<Item = <M as TrainStep>::Input>,
        pairs: &mut AntitheticPairs,
    ) -> Result<()>
    where
        M: Module + TrainStep<Input: Clone, Output: MixDraws>,
    {
        let mean = posterior.mean();
        let noise = Noise::new(self.seed).fold(STREAM);
        let deviations: Vec<Tensor<1>> = numbers
            .map(|pair| Ok(posterior.draw(noise.row(pair as u64))? - mean.clone()))
            .collect::<Result<_>>()?;
        let halves = self.gradients(&deviations, model, posterior, batches)?;
        for (deviation, [mean, difference]) in deviations.iter().zip(halves) {
            pairs.means.push(mean);
            pairs.differences.push(difference);
            let scaled = to_host(posterior.precision_product(deviation)?);
            pairs.scaled.push(scaled);
        }
        Ok(())
    }

    /// ½(G(c+δ) + G(c−δ)) and ½(G(c+δ) − G(c−δ)) for each of these δ.
    fn gradients<M>(
        &self,
        deviations: &[Tensor<1>],
        model: &M,
        posterior: &FactorPosterior,
        batches: impl IntoIterator<Item = <M as TrainStep>::Input>,
    ) -> Result<Vec<[Vec<f64>; 2]>>
    where
        M: Module + TrainStep<Input: Clone, Output: MixDraws>,
    {
        let (layout, mean) = (posterior.layout(), posterior.mean());
        let noise = Noise::new(self.seed).fold(STREAM);
        let both = |deviation: &Tensor<1>| {
            [
                mean.clone() + deviation.clone(),
                mean.clone() - deviation.clone(),
            ]
        };
        let draws = deviations
            .iter()
            .flat_map(both)
            .map(|weights| Draw { weights, noise });
        let draws: Vec<Draw> = draws.collect();
        let mut sums: Vec<Option<Tensor<1>>> = vec![None; draws.len()];
        let mut examples = 0;
        for batch in batches {
            let gathered = one_by_one(layout, model, &draws, &batch, |_, pieces| {
                Ok(Tensor::cat(pieces, 0))
            })?;
            let rows = gathered.item.rows();
            examples += rows;
            for (sum, gradient) in sums.iter_mut().zip(gathered.signal) {
                let gradient = gradient.mul_scalar(rows as f64);
                *sum = Some(match sum.take() {
                    Some(sum) => sum + gradient,
                    None => gradient,
                });
            }
        }
        let ess = self.ess.unwrap_or(self.train_len as f64);
        let prior = self
            .prior
            .resolve(layout)?
            .times(ess / self.train_len as f64);
        let prior = prior.expanded(&mean.device());
        let scale = ess / examples.max(1) as f64;
        let gradients = sums.into_iter().zip(&draws).map(|(sum, draw)| {
            let sum = sum.ok_or_else(|| Error::config("batches", "there are none"))?;
            let gradient = sum.mul_scalar(scale) + draw.weights.clone() * prior.clone();
            Ok(to_host(gradient))
        });
        let gradients = gradients.collect::<Result<Vec<_>>>()?;
        if !gradients.iter().flatten().all(|value| value.is_finite()) {
            return Err(Error::numerical(
                "the gradient at a draw of the posterior is not finite",
            ));
        }
        let halves = gradients.chunks_exact(2).map(|both| {
            [1.0, -1.0].map(|sign| {
                let values = both[0].iter().zip(&both[1]);
                values
                    .map(|(plus, minus)| 0.5 * (plus + sign * minus))
                    .collect()
            })
        });
        Ok(halves.collect())
    }

    /// What better factors would gain, in two passes over the data, or over some batches where others have enough rows; `None` without
    /// factors or for more than 32 weights.
    fn factor_gain<M, I>(
        &self,
        model: &M,
        posterior: &FactorPosterior,
        batches: impl Fn() -> I,
    ) -> Result<Option<FactorGain>>
    where
        M: Module + TrainStep<Input: Clone, Output: MixDraws>,
        I: IntoIterator<Item = <M as TrainStep>::Input>,
    {
        let Some(fit) = DenseFit::of(posterior, FEW_WEIGHTS) else {
            return Ok(None);
        };
        let noise = Noise::new(self.seed).fold(FRAMES);
        let enough = ENOUGH_ROWS * posterior.len();
        let stride = (self.train_len / enough).max(1);
        let curvature = |index: u64| {
            let frame = fit.frame(noise.row(index))?;
            let deviations = fit.deviations(&frame)?;
            let deviations: Vec<Tensor<1>> = deviations
                .iter()
                .map(|deviation| on_device(posterior, deviation))
                .collect();
            let some = batches().into_iter().step_by(stride);
            let halves = self.gradients(&deviations, model, posterior, some)?;
            let differences = halves.into_iter().map(|[_, difference]| difference);
            Ok(fit.curvature(&frame, &differences.collect::<Vec<_>>())?)
        };
        let [first, second]: [Result<SquareMatrix>; 2] = [0, 1].map(curvature);
        Ok(Some(fit.gain([&first?, &second?])?))
    }
}

fn on_device(posterior: &FactorPosterior, values: &[f64]) -> Tensor<1> {
    from_host(values, [values.len()], &posterior.device())
}

/// aᵀSb of every two vectors.
fn products(posterior: &FactorPosterior, vectors: &[Vec<f64>]) -> Result<Vec<Vec<f64>>> {
    let row = |vector: &Vec<f64>| {
        let vector = on_device(posterior, vector);
        let product = to_host(posterior.covariance_product(&vector)?);
        let dot = |other: &Vec<f64>| other.iter().zip(&product).map(|(v, p)| v * p).sum();
        Ok(vectors.iter().map(dot).collect())
    };
    vectors.iter().map(row).collect()
}

/// What is computed from each antithetic pair of draws.
#[derive(Default)]
struct AntitheticPairs {
    /// ĝ = ½(G(c+δ) + G(c−δ)).
    means: Vec<Vec<f64>>,
    /// u = S⁻¹δ.
    scaled: Vec<Vec<f64>>,
    /// a = ½(G(c+δ) − G(c−δ)).
    differences: Vec<Vec<f64>>,
    /// (S⁻¹)_jj.
    precisions: Vec<f64>,
    /// The weights of each parameter.
    parts: Vec<Range<usize>>,
}

impl AntitheticPairs {
    fn count(&self) -> usize {
        self.means.len()
    }

    fn gap(&self, posterior: &FactorPosterior) -> Result<KlGap> {
        Ok(self.gap_of(&products(posterior, &self.means)?))
    }

    /// With ĝₐᵀSĝ_b of every two pairs.
    fn gap_of(&self, products: &[Vec<f64>]) -> KlGap {
        let all: Vec<usize> = (0..self.count()).collect();
        // Jackknife over the pairs.
        let without = |out: &usize| {
            let rest: Vec<usize> = all.iter().copied().filter(|pair| pair != out).collect();
            decrement(products, &rest) + self.scale_gain(&rest).0
        };
        let left_out: Vec<f64> = all.iter().map(without).collect();
        let count = left_out.len() as f64;
        let center = left_out.iter().sum::<f64>() / count;
        let spread: f64 = left_out.iter().map(|gain| (gain - center).powi(2)).sum();
        let (scale_gain, undetermined) = self.scale_gain(&all);
        let standard_error = ((count - 1.0) / count * spread).sqrt();
        KlGap {
            decrement: decrement(products, &all),
            scale_gain,
            factor_gain: None,
            standard_error: match undetermined {
                0 if standard_error.is_finite() => standard_error,
                _ => f64::INFINITY,
            },
            undetermined,
        }
    }

    /// The gain of better scales, and the number of weights for which it is unknown.
    fn scale_gain(&self, pairs: &[usize]) -> (f64, usize) {
        let parts = self.parts.iter().cloned();
        let gains = parts.map(|part| self.scale_gain_of(part, pairs));
        let (sum, unknown) = gains.fold((0.0, 0), |(sum, unknown), (gain, more)| {
            (sum + gain, unknown + more)
        });
        (sum.at_least(0.0), unknown)
    }

    /// That of the weights of a parameter.
    fn scale_gain_of(&self, part: Range<usize>, pairs: &[usize]) -> (f64, usize) {
        let terms = |weight: usize| {
            let at =
                move |&pair: &usize| (self.scaled[pair][weight], self.differences[pair][weight]);
            pairs.iter().map(at)
        };
        // Σ u² and Σ u⊙a over the pairs, in units of (S⁻¹)_jj.
        let sums = |weight: usize| {
            let sums = terms(weight).fold((0.0, 0.0), |(squares, products), (u, a)| {
                (squares + u * u, products + u * a)
            });
            let precision = self.precisions[weight];
            (sums.0 / precision, sums.1 / precision)
        };
        let (mut squares, mut products) = (0.0, 0.0);
        let (mut known, mut unknown) = (Vec::new(), 0);
        for weight in part {
            let (square, product) = sums(weight);
            if square > 0.0 && square.is_finite() && product.is_finite() {
                squares += square;
                products += product;
                known.push(weight);
            } else {
                unknown += 1;
            }
        }
        let of_unknown = unknown as f64 * gain_of(SMALLEST_RATIO);
        if known.is_empty() {
            return (of_unknown, unknown);
        }
        let ratio = products / squares;
        let count = pairs.len() as f64;
        let (mut offsets, mut scatter) = (Vec::new(), 0.0);
        for &weight in &known {
            let residuals =
                terms(weight).map(|(u, a)| u * (a - ratio * u) / self.precisions[weight]);
            let (sum, own) = residuals.fold((0.0, 0.0), |(sum, squares), residual| {
                (sum + residual, squares + residual * residual)
            });
            offsets.push(sum / count);
            scatter += (sum * sum - own) / (count * (count - 1.0));
        }
        // The offsets are as far apart as the ratios and their Monte-Carlo errors are together.
        let apart = offsets.iter().map(|offset| offset * offset).sum::<f64>();
        let share = match apart > 0.0 && pairs.len() > 1 {
            true => (scatter / apart).clamp(0.0, 1.0).sqrt(),
            false => 1.0,
        };
        let gains = offsets
            .iter()
            .map(|offset| gain_of((ratio + share * offset).at_least(SMALLEST_RATIO)));
        (gains.sum::<f64>() + of_unknown, unknown)
    }
}

/// The decrement; infinite if it is unknown.
fn decrement(products: &[Vec<f64>], pairs: &[usize]) -> f64 {
    let product = |(left, right): (usize, usize)| products[left][right];
    let square = match pairs {
        // Its Monte-Carlo error is unknown.
        [only] => product((*only, *only)),
        _ => {
            let different = pairs.iter().flat_map(|&left| {
                let others = pairs.iter().filter(move |&&right| right != left);
                others.map(move |&right| (left, right))
            });
            let count = pairs.len() * (pairs.len() - 1);
            different.map(product).sum::<f64>() / count as f64
        }
    };
    match square.is_finite() {
        true => 0.5 * square.at_least(0.0),
        false => f64::INFINITY,
    }
}

/// The factor by which there are more pairs.
const MORE_PAIRS: usize = 4;
/// The most numbers in the vectors of one kind: 128 MiB.
const MOST_NUMBERS: usize = 1 << 24;
/// The most weights whose curvature is measured in all directions.
const FEW_WEIGHTS: usize = 32;
/// The rows for each weight that are enough for that.
const ENOUGH_ROWS: usize = 64;
/// The random stream of the test.
const STREAM: u64 = 0x6172_7269;
/// That of the directions for few weights.
const FRAMES: u64 = 0x6672_616d;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use burn::module::ParamGroup;
    use burn::tensor::{Device, TensorData};
    use burn_bayes_graph::Layout;

    use super::*;
    use crate::diagnostics::testing::{Likelihood, Model};
    use crate::posterior::linear_regression_posterior;

    /// α.
    const PRIOR: f64 = 0.8;

    fn normals(stream: u64, count: usize) -> Vec<f32> {
        Noise::new(11).row(stream).latent(count)
    }

    fn widened(values: &[f32]) -> Vec<f64> {
        values.iter().copied().map(f64::from).collect()
    }

    /// Inputs and targets.
    type Batch = (Tensor<2>, Tensor<2>);

    /// Rows of a model with this many weights.
    struct Rows {
        weights: usize,
        inputs: Vec<f32>,
        targets: Vec<f32>,
    }

    impl Rows {
        fn each(&self) -> impl Iterator<Item = (Vec<f64>, f64)> {
            let inputs = self.inputs.chunks_exact(self.weights).map(widened);
            inputs.zip(widened(&self.targets))
        }

        /// The test's result without factors, from two batches of different sizes.
        fn measure(
            &self,
            likelihood: Likelihood,
            pairs: usize,
            posterior: impl FnOnce(Arc<Layout>) -> FactorPosterior,
        ) -> (KlGap, FactorPosterior) {
            let (gap, posterior) = self.try_measure(likelihood, pairs, posterior);
            (gap.unwrap(), posterior)
        }

        fn try_measure(
            &self,
            likelihood: Likelihood,
            pairs: usize,
            posterior: impl FnOnce(Arc<Layout>) -> FactorPosterior,
        ) -> (Result<KlGap>, FactorPosterior) {
            let (test, model, posterior, batches) = self.prepared(likelihood, pairs, posterior);
            let gap = test.of_pairs(&model, &posterior, || batches.clone());
            (gap, posterior)
        }

        fn prepared(
            &self,
            likelihood: Likelihood,
            pairs: usize,
            posterior: impl FnOnce(Arc<Layout>) -> FactorPosterior,
        ) -> (ConvergenceTest, Model, FactorPosterior, [Batch; 2]) {
            let device = Device::default().autodiff();
            let model = Model::new(self.weights, likelihood);
            let posterior = posterior(Layout::new(&model, &ParamGroup::all()).unwrap().into());
            let matrix = |values: &[f32], columns: usize| {
                let shape = [values.len() / columns, columns];
                Tensor::<2>::from_data(TensorData::new(values.to_vec(), shape), &device)
            };
            let (inputs, rest) = self.inputs.split_at(self.weights);
            let (targets, others) = self.targets.split_at(1);
            let batches = [(inputs, targets), (rest, others)];
            let batches = batches.map(|(x, y)| (matrix(x, self.weights), matrix(y, 1)));
            let test = ConvergenceTest::new(self.targets.len())
                .with_prior(Prior::isotropic(PRIOR))
                .with_pairs(pairs)
                .with_most_pairs(pairs);
            (test, model, posterior, batches)
        }
    }

    fn vector(values: &[f64]) -> Tensor<1> {
        from_host(values, [values.len()], &Device::default())
    }

    fn scale_gain(ratios: impl Iterator<Item = f64>) -> f64 {
        ratios.map(|ratio| 0.5 * (ratio - 1.0 - ratio.ln())).sum()
    }

    #[test]
    fn a_scaled_and_shifted_posterior_of_a_linear_regression_is_measured_exactly() {
        // With S = κH⁻¹ and c = m + s every pair of draws has ĝ = Hs and x = κ.
        let (beta, kappa, weights) = (2.5, 1.7, 4);
        let rows = Rows {
            weights,
            inputs: normals(1, 3 * weights),
            targets: normals(2, 3),
        };
        let inputs = widened(&rows.inputs);
        let exact =
            linear_regression_posterior(&inputs, &widened(&rows.targets), PRIOR, beta).unwrap();
        let shift = [0.3, -0.2, 0.0, 0.1];
        let (gap, _) = rows.measure(Likelihood::Gaussian(beta), 3, |layout| {
            let center: Vec<f64> = exact.mean().iter().zip(shift).map(|(m, s)| m + s).collect();
            let root = (beta / kappa).sqrt();
            let factors: Vec<f64> = inputs.iter().map(|input| root * input).collect();
            let factors = vector(&factors).reshape([3, weights]);
            let diagonal = vector(&[PRIOR / kappa; 4]);
            FactorPosterior::precision(layout, vector(&center), Some(factors), diagonal).unwrap()
        });
        let curved = exact.precision().multiply_vector(&shift).unwrap();
        let square: f64 = curved.iter().zip(shift).map(|(h, s)| h * s).sum();
        let decrement = 0.5 * kappa * square;
        let gain = scale_gain([kappa; 4].into_iter());
        // Gradients are sums of a few rounded terms.
        let allowed = 1e3 * f64::from(f32::EPSILON) * (decrement + gain);
        assert!(
            (gap.decrement - decrement).abs() < allowed,
            "{gap:?} {decrement}"
        );
        assert!((gap.scale_gain - gain).abs() < allowed, "{gap:?} {gain}");
        assert!(gap.standard_error < allowed, "{gap:?}");
    }

    /// Scales and mean are the best, and the factors nearly 0, where no gradient moves them.
    #[test]
    fn factors_that_have_not_begun_are_not_converged() {
        let (weights, count, beta) = (6, 40, 2.0);
        let common = normals(9, count);
        let inputs = normals(10, count * weights).into_iter().enumerate();
        let inputs = inputs.map(|(index, own)| 0.6 * own + 0.8 * common[index / weights]);
        let rows = Rows {
            weights,
            inputs: inputs.collect(),
            targets: normals(11, count),
        };
        let exact = linear_regression_posterior(
            &widened(&rows.inputs),
            &widened(&rows.targets),
            PRIOR,
            beta,
        )
        .unwrap();
        let precision = exact.precision();
        let measure = |factors: Tensor<2>, diagonal: Vec<f64>| {
            let gaussian = |layout| {
                let (mean, diagonal) = (vector(exact.mean()), vector(&diagonal));
                FactorPosterior::covariance(layout, mean, Some(factors), diagonal).unwrap()
            };
            let (test, model, posterior, batches) =
                rows.prepared(Likelihood::Gaussian(beta), 8, gaussian);
            let gap = test.measure(&model, &posterior, || batches.clone());
            gap.unwrap()
        };
        let narrow: Vec<f64> = precision.diagonal().map(f64::recip).collect();
        let tiny = vector(&vec![1e-4; weights * weights]).reshape([weights, weights]);
        let found = measure(tiny, narrow.clone());
        let gain = found.factor_gain.unwrap();
        assert!(found.nats() >= gain, "{found:?}");
        assert_eq!(found.convergence(weights), Convergence::NotConverged);
        // With other scales too, factors would gain −½ ln|C|, with the correlations C of the precision.
        let scales: f64 = narrow.iter().map(|variance| variance.ln()).sum();
        let determinant = exact.cholesky().log_determinant();
        let most = 0.5 * (determinant - scales);
        assert!(gain > 0.3 * most && gain <= most, "{gain} of {most}");

        // A diagonal that is small leaves everything to the factors, which then are the exact covariance but for it.
        let small = vec![1e-4; weights];
        let rest = exact.covariance().clone();
        let rest = SquareMatrix::from_fn(weights, |row, column| {
            rest.get(row, column) - if row == column { 1e-4 } else { 0.0 }
        });
        let root = crate::algebra::Cholesky::new(&rest).unwrap();
        let factors = vector(root.lower().transpose().as_slice()).reshape([weights, weights]);
        let found = measure(factors, small);
        assert!(found.factor_gain.unwrap() < 1e-3, "{found:?}");
        assert_eq!(found.convergence(weights), Convergence::Converged);
    }

    /// E f(z) for z ~ N(`mean`, `variance`), by the trapezoidal rule.
    fn expectation(mean: f64, variance: f64, function: impl Fn(f64) -> f64) -> f64 {
        let (mut sum, mut total) = (0.0, 0.0);
        for step in -800..=800 {
            let normal = 0.01 * f64::from(step);
            let weight = (-0.5 * normal * normal).exp();
            sum += weight * function(mean + variance.sqrt() * normal);
            total += weight;
        }
        sum / total
    }

    #[test]
    fn expectations_under_any_gaussian_agree_with_quadrature() {
        let weights = 3;
        let labels = normals(4, 12)
            .into_iter()
            .map(|z| f32::from(u8::from(z > 0.0)));
        let rows = Rows {
            weights,
            inputs: normals(3, 12 * weights),
            targets: labels.collect(),
        };
        let mean = [1.0, -0.5, 0.4];
        for likelihood in [Likelihood::Gaussian(1.5), Likelihood::Bernoulli] {
            let (gap, posterior) = rows.measure(likelihood, 256, |layout| {
                let factors = vector(&[0.3, 0.2, -0.1]).reshape([1, weights]);
                let diagonal = vector(&[0.05, 0.4, 0.1]);
                FactorPosterior::covariance(layout, vector(&mean), Some(factors), diagonal).unwrap()
            });
            let dense = posterior.to_dense().unwrap();
            let mut gradient = mean.map(|weight| PRIOR * weight);
            let mut curvature = [PRIOR; 3];
            for (input, target) in rows.each() {
                let spread = dense.covariance().multiply_vector(&input).unwrap();
                let variance: f64 = input.iter().zip(spread).map(|(x, s)| x * s).sum();
                let output: f64 = input.iter().zip(mean).map(|(x, c)| x * c).sum();
                let (slope, curve) = match likelihood {
                    Likelihood::Gaussian(beta) => (beta * (output - target), beta),
                    Likelihood::Bernoulli => {
                        let sigmoid = |z: f64| 1.0 / (1.0 + (-z).exp());
                        let derivative = |z: f64| sigmoid(z) * sigmoid(-z);
                        (
                            expectation(output, variance, sigmoid) - target,
                            expectation(output, variance, derivative),
                        )
                    }
                };
                for ((gradient, curvature), x) in gradient.iter_mut().zip(&mut curvature).zip(input)
                {
                    *gradient += slope * x;
                    *curvature += curve * x * x;
                }
            }
            let product = dense.covariance().multiply_vector(&gradient).unwrap();
            let square: f64 = gradient.iter().zip(product).map(|(g, s)| g * s).sum();
            let precision = dense.precision();
            let ratios = curvature.iter().zip(precision.diagonal());
            let expected = 0.5 * square + scale_gain(ratios.map(|(h, p)| h / p));
            let error = gap.standard_error;
            assert!(error < 0.1 * expected, "{error} of {expected}");
            let found = gap.decrement + gap.scale_gain;
            assert!((found - expected).abs() < 4.0 * error, "{gap:?} {expected}");
        }
    }

    /// The best of its family, for a posterior whose weights are all correlated: each draw sees a hundred terms beside the one
    /// that counts.
    #[test]
    fn a_few_pairs_find_that_the_best_gaussian_is_the_best() {
        let (weights, count, beta) = (100, 40, 2.0);
        let rows = Rows {
            weights,
            inputs: normals(7, count * weights),
            targets: normals(8, count),
        };
        let inputs = widened(&rows.inputs);
        let exact =
            linear_regression_posterior(&inputs, &widened(&rows.targets), PRIOR, beta).unwrap();
        let precision = exact.precision();
        let gap = |scale: f64, pairs: usize| {
            let (gap, _) = rows.measure(Likelihood::Gaussian(beta), pairs, |layout| {
                let diagonal = precision.diagonal().map(|entry| scale * entry);
                let diagonal = vector(&diagonal.collect::<Vec<_>>());
                FactorPosterior::precision(layout, vector(exact.mean()), None, diagonal).unwrap()
            });
            gap
        };
        for (pairs, allowed) in [(4, 0.1), (64, 0.02)] {
            let found = gap(1.0, pairs).nats();
            assert!(found < allowed * weights as f64, "{pairs}: {found}");
        }
        let narrow = weights as f64 * gain_of(0.5);
        for pairs in [4, 64] {
            let found = gap(2.0, pairs);
            let off = (found.nats() - narrow).abs();
            assert!(off < 3.0 * found.standard_error, "{found:?} {narrow}");
            assert!(pairs < 64 || off < 0.3 * narrow, "{found:?} {narrow}");
        }
    }

    #[test]
    fn variances_that_rounding_removes_are_far_from_converged() {
        let weights = 5;
        let rows = Rows {
            weights,
            inputs: normals(5, 6 * weights),
            targets: normals(6, 6),
        };
        let measured = |variance: f64, factors: Option<f64>| {
            let (gap, _) = rows.try_measure(Likelihood::Gaussian(2.0), 4, |layout| {
                let factors = factors.map(|factor| vector(&[factor; 5]).reshape([1, weights]));
                let variance = vector(&[variance; 5]);
                FactorPosterior::covariance(layout, vector(&[0.5; 5]), factors, variance).unwrap()
            });
            gap
        };
        // Far too small a deviation of every weight costs what no curvature at all would.
        let floored = 5.0 * gain_of(SMALLEST_RATIO);
        for variance in [f64::from(f32::MIN_POSITIVE), 1e-44, 1e-20] {
            let gap = measured(variance, None).unwrap();
            assert!((gap.scale_gain - floored).abs() < 1e-9, "{gap:?}");
            assert_eq!(gap.undetermined, weights);
            assert_eq!(gap.convergence(weights), Convergence::NotConverged);
        }
        // S⁻¹δ overflows, and a difference of infinities is not a number.
        match measured(1e-44, Some(0.1)) {
            Ok(gap) => assert_ne!(gap.convergence(weights), Convergence::Converged),
            Err(error) => assert!(error.is_numerical(), "{error}"),
        }
        // One weight of five suffices.
        let (gap, _) = rows.measure(Likelihood::Gaussian(2.0), 4, |layout| {
            let variance = vector(&[0.1, 0.1, 0.1, 0.1, 1e-38]);
            FactorPosterior::covariance(layout, vector(&[0.5; 5]), None, variance).unwrap()
        });
        assert_eq!(gap.undetermined, 1);
        assert_ne!(gap.convergence(weights), Convergence::Converged);
    }

    #[test]
    fn the_order_of_pairs_does_not_matter() {
        let (count, weights) = (5, 7);
        let vectors = |stream: u64| -> Vec<Vec<f64>> {
            (0..count)
                .map(|pair| widened(&normals(stream + pair, weights)))
                .collect()
        };
        let (means, scaled, differences) = (vectors(20), vectors(30), vectors(40));
        let gap = |order: [usize; 5]| {
            let dot = |left: usize, right: usize| -> f64 {
                means[left]
                    .iter()
                    .zip(&means[right])
                    .map(|(a, b)| a * b)
                    .sum()
            };
            let row = |left: usize| order.map(|right| dot(left, right)).to_vec();
            let pairs = AntitheticPairs {
                means: order.map(|pair| means[pair].clone()).to_vec(),
                scaled: order.map(|pair| scaled[pair].clone()).to_vec(),
                differences: order.map(|pair| differences[pair].clone()).to_vec(),
                precisions: vec![1.0; weights],
                parts: vec![0..3, 3..weights],
            };
            pairs.gap_of(&order.map(row))
        };
        let [first, second] = [[0, 1, 2, 3, 4], [3, 0, 4, 2, 1]].map(gap);
        assert!((first.nats() - second.nats()).abs() < 1e-12 * first.nats());
        assert!((first.standard_error - second.standard_error).abs() < 1e-12);
        assert!(first.standard_error > 0.0);
    }
}
