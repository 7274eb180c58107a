//! A fit, or a chain, on each of the devices.

use std::error::Error;
use std::path::Path;
use std::thread;

use burn::tensor::Device;
use burn_bayes::posterior::{Mixture, SamplePosterior};
use burn_bayes::prelude::*;
use burn_bayes::sampling::SamplingConfig;

use crate::task::{Model, batch, model, rows};

/// SWAG on every device, from another start each, as a mixture.
pub(crate) fn ensemble(
    devices: &[Device],
    folder: &Path,
    epochs: usize,
    seed: u64,
) -> Result<Mixture<FactorPosterior>, Box<dyn Error>> {
    // ANCHOR: ensemble
    let [train, _, _] = rows();
    let data = batch(&train, &Device::flex());
    let fit = &|number: u64, model: Model| {
        let fit = Fit::new(SwagConfig::new())
            .with_settings(|config| config.with_seed(seed + number))
            .with_epochs(epochs)
            .with_progress(false);
        let (fitted, verdict) = fit.run(model, data.clone())?;
        let file = folder.join(format!("member-{number}.safetensors"));
        fitted.posterior().save(&file)?;
        // Read here: the members of a mixture are on one device.
        Ok((FactorPosterior::load(&file, &Device::flex())?, verdict))
    };
    // Before the threads, which share a generator of random numbers.
    let models: Vec<_> = (seed..)
        .zip(devices)
        .map(|(seed, device)| model(seed, device))
        .collect();
    let members: burn_bayes::Result<Vec<_>> = thread::scope(|scope| {
        let members: Vec<_> = (0..)
            .zip(models)
            .map(|(number, model)| scope.spawn(move || fit(number, model)))
            .collect();
        let joined = members.into_iter().map(|member| member.join());
        joined.map(|member| member.expect("no panic")).collect()
    });
    // ANCHOR_END: ensemble
    let (members, verdicts): (Vec<_>, Vec<_>) = members?.into_iter().unzip();
    for (number, verdict) in verdicts.iter().enumerate() {
        println!("member {number}: {verdict}");
    }
    Ok(Mixture::uniform(members)?)
}

/// A chain on every device.
pub(crate) fn chains(
    devices: &[Device],
    steps: usize,
    seed: u64,
) -> Result<SamplePosterior, Box<dyn Error>> {
    // ANCHOR: chains
    let [train, _, _] = rows();
    let models: Vec<_> = (seed..)
        .zip(devices)
        .map(|(seed, device)| model(seed, &device.clone().autodiff()))
        .collect();
    let data = batch(&train, &Device::flex());
    let samples = SamplingConfig::new()
        .with_seed(seed)
        .with_all_steps(steps)
        .sample(&models, &[data])?;
    // ANCHOR_END: chains
    Ok(samples.posterior()?)
}
