//! The kernels of the precision form as Burn tensor operations.

use burn::tensor::Tensor;

use super::composed::{at_least, to_host};
use super::precision_values::{
    MeanStep, MeanValues, PrecisionEvidence, PrecisionStep, PrecisionUpdate, Projections,
};
use super::statistics::{PrecisionParts, column_dot, combine};
use super::{inner_products, mix};
use crate::noise::Noise;

pub(crate) fn projections(gaussian: &PrecisionParts, noises: &[Noise]) -> Projections {
    let Some(factors) = &gaussian.factors else {
        return Projections {
            scaled_gram: Vec::new(),
            gram: Vec::new(),
            products: vec![Vec::new(); noises.len()],
        };
    };
    let [rank, len] = factors.dims();
    let device = factors.device();
    let deviation = gaussian.precision.clone().sqrt().recip();
    let scaled = factors.clone() * deviation.unsqueeze::<2>();
    let normals: Vec<_> = noises
        .iter()
        .map(|noise| noise.normal(len, &device).unsqueeze::<2>())
        .collect();
    // One matrix on the right, so that one read copies everything to the host.
    let mut columns = vec![scaled.clone()];
    columns.extend(normals);
    let products = inner_products(&scaled, &Tensor::cat(columns, 0));
    let gram = inner_products(factors, factors);
    let width = 2 * rank + noises.len();
    let all = to_host(Tensor::cat(vec![gram, products], 1));
    let block = |from: usize, to: usize| -> Vec<f64> {
        all.chunks_exact(width)
            .flat_map(|row| row[from..to].iter().copied())
            .collect()
    };
    Projections {
        scaled_gram: block(rank, 2 * rank),
        gram: block(0, rank),
        products: (0..noises.len())
            .map(|draw| block(2 * rank + draw, 2 * rank + draw + 1))
            .collect(),
    }
}

pub(crate) fn noise_products(gaussian: &PrecisionParts, noises: &[Noise]) -> Vec<Vec<f64>> {
    let Some(factors) = &gaussian.factors else {
        return vec![Vec::new(); noises.len()];
    };
    let [_, len] = factors.dims();
    let device = factors.device();
    let scaled = factors.clone() * gaussian.precision.clone().sqrt().recip().unsqueeze::<2>();
    let normals = noises
        .iter()
        .map(|noise| noise.normal(len, &device).unsqueeze::<2>());
    let products = inner_products(&Tensor::cat(normals.collect(), 0), &scaled);
    let rank = products.dims()[1];
    to_host(products)
        .chunks_exact(rank)
        .map(<[f64]>::to_vec)
        .collect()
}

pub(crate) fn precision_draw(
    gaussian: &PrecisionParts,
    noise: Noise,
    weights: &[f64],
) -> Tensor<1> {
    let [len] = gaussian.mean.dims();
    let normal = noise.normal(len, &gaussian.mean.device());
    let deviation = gaussian.precision.clone().sqrt().recip();
    let theta = gaussian.mean.clone() + normal * deviation;
    match &gaussian.factors {
        Some(factors) => theta - combine(factors, weights) / gaussian.precision.clone(),
        None => theta,
    }
}

pub(crate) fn precision_step(
    gaussian: &PrecisionParts,
    evidence: PrecisionEvidence,
    step: PrecisionStep<'_>,
) -> PrecisionUpdate {
    let prior = step.prior.tensor(&gaussian.mean.device());
    let keep = 1.0 - step.rate;
    let squares = evidence.squares.mul_scalar(step.square_scale);
    let pair = gaussian.factors.as_ref().zip(evidence.rows);
    let (factors, lost) = match pair {
        Some((old, rows)) => {
            let new = mix(old, step.mixing, gaussian.rank()) + rows;
            let before = column_dot(old.clone(), old.clone()).mul_scalar(keep);
            let lost = before + squares - column_dot(new.clone(), new.clone());
            (Some(new), at_least(lost, 0.0))
        }
        None => (None, squares),
    };
    let precision =
        gaussian.precision.clone().mul_scalar(keep) + prior.clone().mul_scalar(step.rate) + lost;
    let gradient =
        evidence.gradient.mul_scalar(step.gradient_scale) + prior * gaussian.mean.clone();

    let scaled = gradient.clone() / precision.clone();
    let sums = [gradient.clone() * scaled.clone(), precision.clone()].map(Tensor::sum);
    let mut numbers = vec![Tensor::cat(sums.to_vec(), 0)];
    if let Some(factors) = &factors {
        let right = factors.clone() / precision.clone().unsqueeze::<2>();
        let right = Tensor::cat(vec![right, scaled.unsqueeze()], 0);
        numbers.push(inner_products(factors, &right).flatten(0, 1));
    }
    let numbers = to_host(Tensor::cat(numbers, 0));
    let (sums, products) = numbers.split_at(2);
    let rank = gaussian.rank();
    let rows = products.chunks_exact(rank + 1);
    PrecisionUpdate {
        factors,
        precision,
        gradient,
        scaled_gram: rows.clone().flat_map(|row| row[..rank].to_vec()).collect(),
        projection: rows.map(|row| row[rank]).collect(),
        squared_norm: sums[0],
        precision_sum: sums[1],
    }
}

pub(crate) fn mean_step(
    gaussian: PrecisionParts,
    velocity: Option<Tensor<1>>,
    gradient: Tensor<1>,
    step: MeanStep<'_>,
) -> MeanValues {
    let unexplained = match &gaussian.factors {
        Some(factors) => gradient - combine(factors, step.weights),
        None => gradient,
    };
    let direction = (unexplained / gaussian.precision).mul_scalar(step.scale);
    let (direction, velocity) = match velocity {
        Some(velocity) => {
            let share = direction.mul_scalar(1.0 - step.momentum);
            let velocity = velocity.mul_scalar(step.momentum) + share;
            (velocity.clone(), Some(velocity))
        }
        None => (direction, None),
    };
    MeanValues {
        mean: gaussian.mean - direction.mul_scalar(step.learning_rate),
        velocity,
    }
}
