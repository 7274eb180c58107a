//! E10: networks with priors over functions, against the exact process (the report, section 3.2).

mod fit;
mod network;
mod picture;
mod seasonal;

use burn_bayes_contrib::functional::{FunctionPrediction, Points};
use burn_bayes_tabular::error::Result;

use self::fit::{CASES, Case, INSIDE, Method, Rows, grid, predicted};
use self::seasonal::PriorOf;
use crate::experiment::{Column, Context, Experiment, Job, Key, Measures};
use crate::findings::Finding;
use crate::results::Results;

pub(crate) use picture::draw as pictures;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "E10",
    title: "networks with priors over functions against exact Gaussian processes, the report's figures 3.1 and 3.2",
    notes: "Two hidden layers of 25 units (sines for the periodic kernels), 20 rows with |x| ≤ 1.5 of a function that is \
            drawn from the process, noise of deviation .1, which is given. The functions of a network are those of the \
            network that is linearised at its mean. They are compared with the exact posterior of the process, at 121 \
            places in ±3: the RMSE of the means, the NLL of functions of the exact posterior (which has the least), \
            and the mean absolute difference of the deviations, divided by the mean of the exact deviations. The goal \
            for the last is .15 inside the data and .35 outside. The report has pictures only. The seasonal series has 60 \
            months with a period of 12, noise of deviation .8 and a standard deviation of 3; fits of the program at its \
            defaults, but with 100 hidden units; the RMSE is that against the mean of the series, in these months and in 30 \
            further ones.",
    needs: &[],
    columns: &[
        Column::mean(RMSE[0], "RMSE inside"),
        Column::mean(NLL[0], "NLL"),
        Column::mean(DEVIATION[0], "deviation off"),
        Column::mean(RMSE[1], "RMSE outside"),
        Column::mean(NLL[1], "NLL"),
        Column::mean(DEVIATION[1], "deviation off"),
    ],
    published: "",
    jobs,
    findings,
};

/// Each inside the data, and outside.
const RMSE: [&str; 2] = ["rmse_inside", "rmse_outside"];
const NLL: [&str; 2] = ["nll_inside", "nll_outside"];
const DEVIATION: [&str; 2] = ["deviation_off_inside", "deviation_off_outside"];
/// The goals for the deviations.
const GOALS: [f64; 2] = [0.15, 0.35];

const EXACT: &str = "exact process";

fn jobs(context: &Context) -> Result<Vec<Job>> {
    let steps = context.effort.choose(2000, 600);
    let mut jobs = Vec::new();
    for case in CASES {
        for seed in 0..context.effort.choose(3, 1) {
            let methods = Method::ALL.map(Some).into_iter();
            for method in std::iter::once(None).chain(methods) {
                let key = Key::new(case.name, method.map_or(EXACT, Method::name), seed);
                let settings = (case, method, steps, seed);
                let work = move || measured(case, method, steps, seed);
                jobs.push(Job::new(key, &settings, work)?);
            }
        }
    }
    for prior in PriorOf::ALL {
        for seed in 0..context.effort.choose(3, 1) {
            let key = Key::new(seasonal::NAME, prior.name(), seed);
            let work = move || seasonal::measured(prior, seed, RMSE);
            jobs.push(Job::new(key, &(prior, seed), work)?);
        }
    }
    Ok(jobs)
}

/// A method, or the exact process itself, against the exact process.
fn measured(case: Case, method: Option<Method>, steps: usize, seed: u64) -> Result<Measures> {
    let rows = Rows::new(case, seed)?;
    let exact = rows.exact()?.predict(&Points::new(1, grid())?)?;
    let found = match method {
        None => exact.clone(),
        Some(method) => predicted(&rows.fit(method, steps, seed)?)?,
    };
    Ok(compared(&found, &exact))
}

fn compared(found: &FunctionPrediction, exact: &FunctionPrediction) -> Measures {
    let grid = grid();
    let mut measures = Measures::new();
    for (region, is_inside) in [(0, true), (1, false)] {
        let places = (0..grid.len()).filter(|&at| (grid[at].abs() <= INSIDE) == is_inside);
        let places: Vec<usize> = places.collect();
        let mean = |value: &dyn Fn(usize) -> f64| {
            places.iter().map(|&at| value(at)).sum::<f64>() / places.len() as f64
        };
        let square = |at: usize| (found.mean[at] - exact.mean[at]).powi(2);
        let deviations = |at: usize| [found, exact].map(|all| all.variance[at].sqrt());
        let nll = |at: usize| {
            let variance = found.variance[at];
            let apart = (square(at) + exact.variance[at]) / variance;
            0.5 * ((std::f64::consts::TAU * variance).ln() + apart)
        };
        let off = mean(&|at| {
            let [found, exact] = deviations(at);
            (found - exact).abs()
        });
        measures.insert(RMSE[region].into(), mean(&square).sqrt());
        measures.insert(NLL[region].into(), mean(&nll));
        measures.insert(
            DEVIATION[region].into(),
            off / mean(&|at| deviations(at)[1]),
        );
    }
    measures
}

/// Claims of the best method, the Laplace approximation; the table shows what the trained ones miss.
fn findings(results: &Results<'_>) -> Vec<Finding> {
    let method = Method::Laplace.name();
    let off = CASES.iter().flat_map(|case| {
        [0, 1].map(|region| {
            (
                results.mean(case.name, method, DEVIATION[region]),
                GOALS[region],
            )
        })
    });
    let off: Vec<_> = off.collect();
    let ahead = |prior: PriorOf| results.mean(seasonal::NAME, prior.name(), RMSE[1]);
    vec![
        Finding::at_most(
            format!(
                "{method}: deviations within 15 % of the exact ones inside the data, and 35 % outside"
            ),
            &off,
        ),
        Finding::at_most(
            "a periodic prior extrapolates the seasonal series: its RMSE is a third of that of a prior over weights",
            &[(
                ahead(PriorOf::Functions),
                ahead(PriorOf::Weights).unwrap_or(f64::NAN) / 3.0,
            )],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exact_process_is_not_off_and_a_wider_one_is() {
        let rows = Rows::new(CASES[1], 0).unwrap();
        let exact = rows.exact().unwrap();
        let exact = exact.predict(&Points::new(1, grid()).unwrap()).unwrap();
        let own = compared(&exact, &exact);
        let mut wider = exact.clone();
        wider.variance.iter_mut().for_each(|v| *v *= 4.0);
        let wider = compared(&wider, &exact);
        for region in [0, 1] {
            assert_eq!((own[RMSE[region]], own[DEVIATION[region]]), (0.0, 0.0));
            assert!((wider[DEVIATION[region]] - 1.0).abs() < 1e-12);
            // ln 2 + ½ (¼ − 1).
            let more = wider[NLL[region]] - own[NLL[region]];
            assert!((more - 2f64.ln() + 0.375).abs() < 1e-12, "{more}");
        }
    }
}
