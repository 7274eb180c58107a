//! A curve with a gap in its inputs, by a network whose function is known by sampling.

use burn_bayes::sampling::{Dynamics, MclmcConfig, SamplingConfig};
use burn_bayes_data::{Dataset, Features, Scaling, Split, Targets, gap_function, gap_regression};
use serde::Serialize;

use burn_bayes_tabular::engine::fit;
use burn_bayes_tabular::error::{Result, TabularError};
use burn_bayes_tabular::experiments::jobs::{Job, Key};
use burn_bayes_tabular::predict::{Predictions, RealPredictions};
use burn_bayes_tabular::scores::Measures;
use burn_bayes_tabular::settings::{FitSettings, Method, NetworkShape, NoisePrecision};

use super::held_out::HeldOut;
use super::relu_regression::{FunctionValues, ReluRegression, Sampling};
use super::{FAILED_COLUMN, gaussian_methods, or_diverged};
use crate::experiment::{Column, Context, Effort, Experiment, Statistic};
use crate::findings::Finding;
use crate::results::Results;
use crate::shared::Shared;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "trust-gap",
    title: "a network with a gap in its inputs against its posterior by Monte Carlo",
    notes: "A network of one hidden layer of 50 ReLU units, 100 rows with x in [−2, −.7] and [.7, 2], noise of \
            deviation .1, which is given to the fits; 600 epochs of mini-batches of 20, everything else \
            default. The ratios are those of the epistemic deviation to that of Hamiltonian chains on the same \
            posterior, averaged over x: near rows (.8 ≤ |x| ≤ 1.9), in the gap (|x| ≤ .5) and beyond the ends (2.3 ≤ |x| \
            ≤ 3.3). The error is the root mean square distance of the mean functions for |x| ≤ 2. \"Five fits\" is \
            the mixture, with equal weights, of five fits that differ in their seeds. \"mclmc\" are four chains with the \
            library's settings, 7 000 gradients each; those with small errors have an energy variance of .0005 per weight and \
            23 500 gradients.",
    needs: &[],
    columns: &[
        Column::mean(Region::Near.measure(), "near rows"),
        Column::mean(Region::Gap.measure(), "in the gap"),
        Column::mean(Region::Beyond.measure(), "beyond the ends"),
        Column::mean(ERROR, "error of the mean"),
        Column::new(Statistic::Largest, REFERENCE, "largest R̂ of the reference"),
        Column::new(Statistic::Largest, R_HAT, "largest R̂ of MCLMC"),
        FAILED_COLUMN,
    ],
    published: "",
    jobs,
    findings,
};

const ERROR: &str = "error_of_mean";
const REFERENCE: &str = "reference_r_hat";

const R_HAT: &str = "r_hat";

const CASE: &str = "curve";
const CHAINS: [&str; 2] = ["mclmc", "mclmc, small errors"];
const ROWS: usize = 100;
const NOISE_DEVIATION: f64 = 0.1;
const UNITS: usize = 50;
const PRIOR_PRECISION: f64 = 1.0;
/// The inputs at which functions are compared: multiples of .1 up to this distance from 0.
const REACH: i32 = 33;

/// A part of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Region {
    /// Among the training rows.
    Near,
    Gap,
    Beyond,
}

impl Region {
    const ALL: [Self; 3] = [Self::Near, Self::Gap, Self::Beyond];

    const fn measure(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Gap => "gap",
            Self::Beyond => "beyond",
        }
    }

    fn contains(self, tenths: i32) -> bool {
        let distances = match self {
            Self::Near => 8..=19,
            Self::Gap => 0..=5,
            Self::Beyond => 23..=REACH,
        };
        distances.contains(&tenths.abs())
    }
}

/// One fit, or the mixture of several.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Fits {
    method: Method,
    count: u64,
}

impl Fits {
    /// Those of a mixture.
    const SEVERAL: u64 = 5;

    pub(super) fn one(method: Method) -> Self {
        Self { method, count: 1 }
    }

    pub(super) fn several(method: Method) -> Self {
        Self {
            method,
            count: Self::SEVERAL,
        }
    }

    pub(super) fn name(self) -> String {
        match self.count {
            1 => self.method.to_string(),
            _ => format!("{}, five fits", self.method),
        }
    }

    fn settings(self, seed: u64) -> impl Iterator<Item = FitSettings> {
        let first = self.count * seed;
        (first..first + self.count).map(move |seed| FitSettings {
            method: self.method,
            model: Some(NetworkShape {
                hidden: vec![UNITS],
            }),
            epochs: Some(600),
            batch_size: 20,
            prior_precision: PRIOR_PRECISION.into(),
            noise_precision: NoisePrecision::Given(NOISE_DEVIATION.powi(-2)),
            seed,
            ..FitSettings::default()
        })
    }
}

/// Every method alone, and mixtures.
fn all_fits() -> impl Iterator<Item = Fits> {
    let single = gaussian_methods().map(Fits::one);
    single.chain([Method::Map, Method::Vifa].map(Fits::several))
}

/// Chains of MCLMC, as many as the reference has: by default, and as exact as HMC.
fn chains(effort: Effort) -> [(&'static str, SamplingConfig); 2] {
    let [default, exact] = CHAINS.map(|name| (name, SamplingConfig::new()));
    let exact_walk = MclmcConfig::new().with_energy_variance(5e-4);
    let exact = exact.1.with_dynamics(Dynamics::Mclmc(exact_walk));
    let exact = exact.with_steps(effort.choose(20_000, 3500));
    [default, (CHAINS[1], exact)]
}

/// How long the reference is sampled.
pub(super) fn sampling(effort: Effort, seed: u64) -> Sampling {
    Sampling {
        chains: effort.choose(4, 2),
        warm_up: effort.choose(500, 200),
        draws: effort.choose(2000, 300),
        seed,
    }
}

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for seed in 0..context.effort.choose(3, 1) {
        let sampling = sampling(context.effort, seed);
        let known = Shared::new(move || Known::new(&sampling));
        for fits in all_fits() {
            let key = Key::new(CASE, fits.name(), seed);
            let identity: Vec<_> = fits.settings(seed).map(|one| one.key()).collect();
            let known = known.clone();
            let work = move || {
                let known = known.get()?;
                or_diverged(known.predict(fits, seed).map(|found| known.measures(found)))
            };
            jobs.push(Job::new(key, &(sampling, identity), work)?);
        }
        for (name, mclmc) in chains(context.effort) {
            let key = Key::new(CASE, name, seed);
            let mclmc = mclmc.with_seed(seed);
            let (known, identity) = (known.clone(), mclmc.clone());
            let work = move || known.get()?.sampled(&mclmc, &sampling);
            jobs.push(Job::new(key, &(sampling, identity), work)?);
        }
    }
    Ok(jobs)
}

/// A curve with what is known of its posterior.
pub(super) struct Known {
    /// The training rows in their own units.
    examples: Dataset,
    /// The held-out rows are on the grid of inputs, and have no noise.
    rows: HeldOut,
    regression: ReluRegression,
    /// In the unit of the target.
    pub(super) posterior: FunctionValues,
}

impl Known {
    /// The data have the seed of the sampling.
    pub(super) fn new(sampling: &Sampling) -> Result<Self> {
        let examples = gap_regression(ROWS, NOISE_DEVIATION, sampling.seed)?;
        let mut all = examples.clone();
        let grid: Vec<f64> = grid().map(|tenths| f64::from(tenths) / 10.0).collect();
        let values = grid.iter().map(|&input| gap_function(input)).collect();
        let features = Features::new(grid.len(), 1, grid)?;
        all.append(Dataset::new(features, Targets::Real(values))?)?;
        let split = Split {
            train: (0..ROWS).collect(),
            test: (ROWS..all.rows()).collect(),
        };
        let rows = HeldOut::new(&all, &split, Scaling::Standardise)?;
        let scale = rows.target_scale;
        let targets = rows.train_rows.targets().as_real().unwrap_or_default();
        let regression = ReluRegression {
            inputs: rows.train_rows.features().values().to_vec(),
            targets: targets.to_vec(),
            units: UNITS,
            prior_precision: PRIOR_PRECISION,
            noise_precision: (scale.spread / NOISE_DEVIATION).powi(2),
        };
        let posterior = regression.function_values(rows.test.values(), sampling)?;
        Ok(Self {
            posterior: posterior.in_units_of(scale),
            regression,
            examples,
            rows,
        })
    }

    /// Inputs and targets of the training rows.
    pub(super) fn examples(&self) -> Vec<[f64; 2]> {
        let inputs = self.examples.features().values().iter();
        let targets = self.examples.targets().as_real().unwrap_or_default();
        inputs.zip(targets).map(|(x, y)| [*x, *y]).collect()
    }

    /// Means and epistemic deviations of the function on the grid.
    pub(super) fn predict(&self, fits: Fits, seed: u64) -> Result<[Vec<f64>; 2]> {
        let mut all = RealPredictions {
            kind: NOISE_DEVIATION.into(),
            draws: 0,
            members: Vec::new(),
            values: Vec::new(),
        };
        for settings in fits.settings(seed) {
            let model = fit(&self.rows.train, &settings, &mut ())?;
            let Predictions::Reals(one) = model.predict(&self.rows.test, settings.draws)? else {
                return Err(TabularError::Data("the targets are no numbers".into()));
            };
            // Every fit has the same number of draws, so together they are those of the mixture.
            all.draws += one.draws;
            all.members = vec![all.draws];
            all.values.extend(one.values);
        }
        let mixture = all.checked()?;
        let variances = mixture.variance_between_draws().into_iter();
        Ok([mixture.mean(), variances.map(f64::sqrt).collect()])
    }

    /// The same of chains of MCLMC, and their R̂.
    pub(super) fn chains(
        &self,
        mclmc: &SamplingConfig,
        sampling: &Sampling,
    ) -> Result<FunctionValues> {
        let inputs = self.rows.test.values();
        let found = self.regression.sampled(inputs, mclmc, sampling)?;
        Ok(found.in_units_of(self.rows.target_scale))
    }

    fn sampled(&self, mclmc: &SamplingConfig, sampling: &Sampling) -> Result<Measures> {
        let found = self.chains(mclmc, sampling)?;
        let mut measures = self.measures([found.means, found.deviations]);
        measures.insert(R_HAT.into(), found.r_hat);
        Ok(measures)
    }

    fn measures(&self, [means, deviations]: [Vec<f64>; 2]) -> Measures {
        let mean_over = |is_in: &dyn Fn(i32) -> bool, of: &dyn Fn(usize) -> f64| {
            let places = grid().zip(0..).filter(|(tenths, _)| is_in(*tenths));
            let values: Vec<f64> = places.map(|(_, at)| of(at)).collect();
            values.iter().sum::<f64>() / values.len() as f64
        };
        let ratio = |at: usize| deviations[at] / self.posterior.deviations[at];
        let square = |at: usize| (means[at] - self.posterior.means[at]).powi(2);
        let mut measures: Measures = Region::ALL
            .into_iter()
            .map(|region| {
                let ratio = mean_over(&|tenths| region.contains(tenths), &ratio);
                (region.measure().into(), ratio)
            })
            .collect();
        let error = mean_over(&|tenths| tenths.abs() <= 20, &square).sqrt();
        measures.extend([
            (ERROR.into(), error),
            (REFERENCE.into(), self.posterior.r_hat),
        ]);
        measures
    }
}

/// The inputs of the grid, in tenths.
pub(super) fn grid() -> impl Iterator<Item = i32> {
    -REACH..=REACH
}

fn findings(results: &Results<'_>) -> Vec<Finding> {
    let falls_short = |fits: Fits| {
        let (name, measure) = (fits.name(), Region::Gap.measure());
        let claim = format!("{name}: less than half as wide in the gap as the posterior");
        Finding::at_most(claim, &[(results.mean(CASE, &name, measure), 0.5)])
    };
    let mut findings: Vec<_> = all_fits().map(falls_short).collect();
    for (name, measure) in CHAINS.iter().flat_map(|name| {
        let regions = [Region::Near, Region::Gap, Region::Beyond];
        regions.map(|region| (name, region.measure()))
    }) {
        let found = results.mean(CASE, name, measure);
        let claim = format!("{name}: as wide as the posterior within a tenth, {measure}");
        let off = found.map(|ratio| (ratio - 1.0).abs());
        findings.push(Finding::at_most(claim, &[(off, 0.1)]));
    }
    findings
}
