//! `check`: simulation-based calibration of a method, with its model and prior.

use std::path::PathBuf;

use burn_bayes_tabular::Result;
use burn_bayes_tabular::experiments::jobs::{self, ResultCache, threads};
use burn_bayes_tabular::experiments::simulation_based_calibration::{
    Check, CheckReport, Design, NormalDesign, Simulations,
};
use burn_bayes_tabular::report::number;
use burn_bayes_tabular::settings::{Config, DataSettings, refused};
use clap::Args;
use serde_json::json;

use super::{Fits, JobFlags, OF_ONE_RUN};
use crate::console::{command_line, print, print_json};
use crate::settings::ConfigFlags;

/// What to simulate, and how often.
#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Folder for the simulations and the page
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Number of simulations, each with a fit
    #[arg(long, value_name = "N", default_value_t = 200)]
    simulations: usize,
    /// Number of independent posterior draws per simulation
    #[arg(long, value_name = "N", default_value_t = 99)]
    posterior_draws: usize,
    /// Number of generated rows, without a data file [default: 100]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    /// Number of generated features, without a data file [default: 5]
    #[arg(long, value_name = "N")]
    features: Option<usize>,
    /// Number of classes, without a data file [default: a regression]
    #[arg(long, value_name = "N")]
    classes: Option<usize>,
    #[command(flatten)]
    jobs: JobFlags,
    #[command(flatten)]
    settings: ConfigFlags,
}

/// Options of `fit` that do not apply here.
const REFUSED: [(&str, &str); 5] = [
    ("draws", "is not used here; give `--posterior-draws`"),
    ("validation", "is not used here; all rows are fitted"),
    ("validation_file", "is not used here; all rows are fitted"),
    ("against_map", "is not used here; leave it out"),
    (
        "checkpoint_every",
        "is not used here; `--resume` continues with the next simulation; leave it out",
    ),
];

/// The finished simulations, and the page.
const FILES: [&str; 2] = ["simulations.jsonl", "check.html"];

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    arguments
        .settings
        .refuse(OF_ONE_RUN.into_iter().chain(REFUSED))?;
    let mut config = arguments.settings.unchecked_config()?;
    let inputs = [config.data.path.as_deref(), arguments.settings.file()];
    super::expect_outputs(&arguments.out, &FILES, inputs.into_iter().flatten())?;
    let design = arguments.design(&mut config)?;
    config.fit = design.in_effect(config.fit);
    let fit = &config.fit;
    let simulations = Simulations::new(
        fit.clone(),
        arguments.simulations,
        arguments.posterior_draws,
    )?;
    let jobs = simulations.jobs(&design)?;
    let [finished, page] = FILES;
    let cache = ResultCache::begin(&arguments.out, finished, arguments.jobs.existing())?;
    let shown = Fits::of("check", arguments.jobs.resume).quietly();
    let records = jobs::run(&jobs, &cache, threads(arguments.jobs.threads), &shown)?;
    let check = simulations.check(&design, &records)?;
    let subtitle = format!(
        "{} simulations of {} rows and {} features, with {} posterior draws each",
        check.simulations,
        design.rows(),
        design.features(),
        check.draws
    );
    let page = arguments.out.join(page);
    let report = CheckReport {
        title: &format!(
            "Simulation-based calibration: {}, {}",
            fit.method,
            fit.shape()
        ),
        subtitle: &subtitle,
        command: &command_line(),
        config: &config.to_toml()?,
        check: &check,
    };
    report.write(&page)?;
    match arguments.jobs.output.json {
        true => print_json(&json!({
            "is_calibrated": check.is_calibrated(),
            "verdict": check.to_string(),
            "check": check,
            "page": page,
        })),
        false => {
            show(&check, &subtitle)?;
            print(format_args!("\n{check}\nthe page is {}", page.display()))
        }
    }
}

impl Arguments {
    /// The rows of the data file, or else generated ones.
    fn design(&self, config: &mut Config) -> Result<Design> {
        let sizes = [
            ("rows", self.rows),
            ("features", self.features),
            ("classes", self.classes),
        ];
        if config.data == DataSettings::default() {
            config.fit.validate()?;
            let normal = NormalDesign {
                rows: self.rows.unwrap_or(100),
                features: self.features.unwrap_or(5),
                classes: self.classes,
            };
            return normal.design(config.fit.seed);
        }
        if let Some((name, _)) = sizes.iter().find(|(_, size)| size.is_some()) {
            return Err(refused(name, "is for generated rows, without a data file"));
        }
        config.validate()?;
        // No row of a simulation is held out.
        config.data.validation = 0.0;
        config.data.validation_file = None;
        Ok(super::prepared(config)?.into())
    }
}

fn show(check: &Check, subtitle: &str) -> Result<()> {
    let widths = check
        .quantities
        .iter()
        .map(|quantity| quantity.name.chars().count());
    let width = widths.max().unwrap_or(0).max(24);
    print(format_args!("{subtitle}\n"))?;
    print(format_args!(
        "{:<width$} {:>10}  posteriors",
        "quantity", "p-value"
    ))?;
    check.quantities.iter().try_for_each(|quantity| {
        let deviation = quantity.deviation.map_or("–", |found| found.name());
        let p_value = number(quantity.p_value);
        print(format_args!(
            "{:<width$} {p_value:>10}  {deviation}",
            quantity.name
        ))
    })
}
