//! IVON against its equations in double precision: one batch, several, and on a quadratic with a known posterior.

use burn::optim::GradAdaptor;
use burn_bayes::BayesianConfig;
use burn_bayes::methods::{
    Algorithm, FromGradients, Ivon, IvonConfig, MeanStage, Rate, StepId, Update,
};

use super::{CURVATURE, LEN, PRIOR, TARGET, TRAIN_LEN, model, narrowed};
use crate::support::{EPSILON, assert_close, normals, values, vector};

const ESS: f64 = 11.0;
const HESSIAN: f64 = 0.8;
const DECAY: f64 = 0.9;
const RATE: f64 = 0.3;

fn config() -> BayesianConfig<IvonConfig> {
    BayesianConfig::paper(
        TRAIN_LEN,
        IvonConfig::paper()
            .with_initial_hessian(Some(HESSIAN))
            .with_momentum(DECAY)
            .with_covariance_rate(Rate::Constant(RATE)),
    )
    .with_ess(ESS)
    .with_prior(super::prior())
}

/// The numbers of examples and the gradients at the draws of one step's mini-batches.
type Batches = Vec<(usize, Vec<Vec<f32>>)>;

/// The draws of a step's mini-batches, each a pass of its own, and the algorithm after the step.
fn stepped(
    ivon: Ivon,
    step: u64,
    learning_rate: f64,
    batches: &Batches,
) -> (Vec<Vec<Vec<f64>>>, Ivon) {
    let mut draws = Vec::new();
    let mut sums = Vec::new();
    for (pass, (examples, gradients)) in batches.iter().enumerate() {
        let pass = pass as u64;
        let proposal = ivon.propose(StepId { step, pass }).unwrap();
        draws.push(
            proposal
                .draws
                .iter()
                .map(|draw| values(&draw.weights))
                .collect(),
        );
        let pieces = gradients
            .iter()
            .map(|gradient| vec![vector(&gradient[..LEN - 1]), vector(&gradient[LEN - 1..])]);
        let update = ivon.step(proposal, pieces.collect(), *examples).unwrap();
        let Update::Gradients(gradients) = update else {
            panic!("IVON returns sums");
        };
        sums.push((gradients, Default::default()));
    }
    let mut gradients = GradAdaptor::Multi(burn::optim::MultiGradientsParams { grads: sums });
    let update = ivon.update_from_sum(step + 1, &mut gradients).unwrap();
    (draws, ivon.apply_step(update.unwrap(), learning_rate))
}

/// ξ and the radius.
#[derive(Clone, Copy)]
struct Limits {
    clip: f64,
    radius: f64,
}

/// IVON in double precision.
#[derive(Clone)]
struct Dense {
    mean: Vec<f64>,
    moment: [f64; LEN],
    /// w.
    weight: f64,
    hessian: [f64; LEN],
}

impl Dense {
    fn delta(at: usize) -> f64 {
        PRIOR[at] / TRAIN_LEN as f64
    }

    /// A step from ĝ and ĥ.
    fn step(
        &mut self,
        time: i32,
        learning_rate: f64,
        gradient: &[f64],
        estimate: &[f64],
        limits: Limits,
    ) {
        for (at, estimate) in estimate.iter().enumerate() {
            let (h, delta) = (self.hessian[at], Self::delta(at));
            let change = estimate - h;
            self.hessian[at] =
                h + RATE * change + 0.5 * RATE * RATE * change * change / (h + delta);
        }
        let precision = self.precision();
        let square = (0..LEN).map(|at| {
            let total = ESS * (gradient[at] + Self::delta(at) * self.mean[at]);
            total * total / precision[at]
        });
        let length = learning_rate * square.sum::<f64>().sqrt();
        let scale = (limits.radius / length).min(1.0);
        self.weight = DECAY * self.weight + (1.0 - DECAY) * scale;
        for at in 0..LEN {
            self.moment[at] = DECAY * self.moment[at] + (1.0 - DECAY) * scale * gradient[at];
            let prior = Self::delta(at) * self.mean[at] * self.weight;
            let average = (self.moment[at] + prior) / (1.0 - DECAY.powi(time));
            let direction = ESS * average / precision[at];
            self.mean[at] -= learning_rate * direction.clamp(-limits.clip, limits.clip);
        }
    }

    fn precision(&self) -> Vec<f64> {
        (0..LEN)
            .map(|at| ESS * (self.hessian[at] + Self::delta(at)))
            .collect()
    }
}

fn numbers(ivon: &Ivon, steps: u64) -> [Vec<f64>; 2] {
    let posterior = ivon.posterior(steps).unwrap();
    [values(&posterior.mean()), values(&posterior.diagonal())]
}

/// Steps from `batches` mini-batches of unequal sizes are the equations with the means over all examples and draws.
#[track_caller]
fn check(config: &BayesianConfig<IvonConfig>, batches: usize) {
    let mut ivon = config.build(&model()).unwrap();
    let mut dense = Dense {
        mean: numbers(&ivon, 0)[0].clone(),
        moment: [0.0; LEN],
        weight: 0.0,
        hessian: [HESSIAN; LEN],
    };
    for step in 0..4 {
        let gradients = |batch: usize| {
            let seeds = (0..config.draws.unwrap_or(2))
                .map(|draw| (1 + step) * 100 + (10 * batch + draw) as u64);
            seeds.map(|seed| normals(seed, LEN)).collect()
        };
        let batches: Batches = (0..batches)
            .map(|batch| (2 + batch, gradients(batch)))
            .collect();
        let precision = dense.precision();
        let (draws, after) = stepped(ivon, step, 0.1, &batches);
        ivon = after;
        let examples: usize = batches.iter().map(|(examples, _)| examples).sum();
        let (mut gradient, mut estimate) = ([0.0; LEN], [0.0; LEN]);
        for ((count, gradients), draws) in batches.iter().zip(&draws) {
            let weight = *count as f64 / examples as f64 / config.draws.unwrap_or(2) as f64;
            for (g, theta) in gradients.iter().zip(draws) {
                for at in 0..LEN {
                    let g = weight * f64::from(g[at]);
                    gradient[at] += g;
                    estimate[at] += g * (theta[at] - dense.mean[at]) * precision[at];
                }
            }
        }
        let limits = Limits {
            clip: config.method.clip_value.unwrap_or(f64::INFINITY),
            radius: config.method.radius,
        };
        dense.step(step as i32 + 1, 0.1, &gradient, &estimate, limits);
        let [mean, precision] = numbers(&ivon, step + 1);
        let scales = [1.0; LEN];
        assert_close("mean", &mean, &dense.mean, &scales, 256.0 * EPSILON);
        let expected = dense.precision();
        assert_close(
            "precision",
            &precision,
            &expected,
            &expected,
            512.0 * EPSILON,
        );
    }
}

#[test]
fn a_step_is_its_equations() {
    check(&config(), 1);
    check(&config().with_draws(4).with_antithetic(true), 1);
    check(
        &config().map_method(|method| method.with_clip_value(Some(0.3))),
        1,
    );
    check(&config().map_method(|method| method.with_radius(0.2)), 1);
}

#[test]
fn accumulated_batches_make_the_step_of_their_means() {
    check(&config(), 4);
    check(
        &config()
            .with_draws(2)
            .map_method(|method| method.with_radius(0.2)),
        4,
    );
}

/// With exact gradients of a quadratic, the mean of the precision is that of its diagonal.
#[test]
fn the_posterior_of_a_quadratic_is_recovered() {
    let config = config().with_draws(8).with_antithetic(true);
    let rate = Rate::Power {
        initial: 0.1,
        time_constant: 50.0,
        power: 0.75,
    };
    let mut ivon = config
        .map_method(|method| method.with_covariance_rate(rate))
        .build(&model())
        .unwrap();
    const STEPS: u64 = 3000;
    for step in 0..STEPS {
        let proposal = ivon.propose(StepId { step, pass: 0 }).unwrap();
        let gradients = proposal.draws.iter().map(|draw| {
            let theta = values(&draw.weights);
            let gradient = CURVATURE.iter().map(|row| {
                let terms = row.iter().zip(&theta).zip(TARGET);
                terms
                    .map(|((h, theta), target)| h * (theta - target))
                    .sum::<f64>() as f32
            });
            gradient.collect()
        });
        let batches = vec![(1, gradients.collect())];
        ivon = stepped(ivon, step, 0.05, &batches).1;
    }
    let [_, precision] = numbers(&ivon, STEPS);
    let expected: Vec<f64> = (0..LEN)
        .map(|at| ESS * (CURVATURE[at][at] + Dense::delta(at)))
        .collect();
    assert_close("precision", &precision, &expected, &expected, 0.1);
}

#[test]
fn the_second_stage_begins_with_the_shape_of_the_squared_gradients() {
    const STEPS: u64 = 3;
    let stage = MeanStage::Steps(STEPS);
    let config = config()
        .map_method(|method| method.with_initial_hessian(None))
        .with_mean_stage(stage);
    let mut ivon = config.with_zero_mean().build(&model()).unwrap();
    let mut square = [0.0; LEN];
    for step in 0..STEPS {
        let mean = numbers(&ivon, step)[0].clone();
        let batches = vec![
            (2, vec![normals(step, LEN)]),
            (3, vec![normals(step + 9, LEN)]),
        ];
        for at in 0..LEN {
            let [first, second] = [0, 1].map(|batch| f64::from(batches[batch].1[0][at]));
            let total = ESS * ((2.0 * first + 3.0 * second) / 5.0 + Dense::delta(at) * mean[at]);
            square[at] = 0.999 * square[at] + 0.001 * total * total;
        }
        let (draws, after) = stepped(ivon, step, 0.7, &batches);
        assert_eq!(draws, [[mean.clone()], [mean]], "the draws are the mean");
        ivon = after;
    }
    let left = 1.0 - 0.999_f64.powi(STEPS as i32);
    let expected: Vec<f64> = (0..LEN)
        .map(|at| 5.0 / ESS * square[at] / left + ESS * Dense::delta(at))
        .collect();
    let expected = narrowed(&expected);
    let [_, precision] = numbers(&ivon, STEPS);
    assert_close("precision", &precision, &expected, &expected, 1e4 * EPSILON);
}

#[test]
fn what_is_not_finite_is_rejected_and_settings_name_their_field() {
    let ivon = config().build(&model()).unwrap();
    let proposal = ivon.propose(StepId::default()).unwrap();
    let pieces = vec![vec![vector(&[1.0, f32::NAN]), vector(&[0.0])]];
    let Update::Gradients(gradients) = ivon.step(proposal, pieces, 1).unwrap() else {
        panic!("IVON returns sums");
    };
    let error = ivon.update_from_sum(1, &mut gradients.into()).unwrap_err();
    assert!(error.is_numerical(), "{error}");
    // Without its own gradients there is nothing to do.
    let nothing = burn::optim::GradientsParams::new();
    assert!(
        ivon.update_from_sum(1, &mut nothing.into())
            .unwrap()
            .is_none()
    );

    let ivon = IvonConfig::new();
    for (method, field) in [
        (
            ivon.clone().with_initial_hessian(Some(f64::NAN)),
            "initial_hessian",
        ),
        (ivon.clone().with_clip_value(Some(-1.0)), "clip_value"),
        (ivon.clone().with_radius(f64::NAN), "radius"),
        (ivon.clone().with_momentum(1.0), "momentum"),
        (
            ivon.with_covariance_rate(Rate::Constant(2.0)),
            "covariance_rate",
        ),
    ] {
        let config = BayesianConfig::new(10, method);
        let error = config.validate().unwrap_err();
        assert!(
            error.is_config() && error.to_string().starts_with(field),
            "{error}"
        );
    }
}
