//! The paper's ResNet-18 on the medical pictures: with a stem for small pictures, and with weights that have first
//! learned clothing, where the paper's have learned photographs.

use std::path::Path;
use std::sync::Arc;

use burn::module::ParamGroup;
use burn::tensor::Device;
use burn_bayes::eval::DrawProbabilities;
use burn_bayes::likelihood::Likelihood;
use burn_bayes::posterior::PointPosterior;
use burn_bayes::{Noise, Posterior, Supervised};
use burn_bayes_benches::ResNet18;
use burn_bayes_tabular::error::Result;
use burn_bayes_tabular::random::generator;
use burn_bayes_tabular::settings::DeviceName;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::network::linear;
use super::scores;
use crate::experiment::{Context, Effort, Job, Key, Measures};
use crate::images::{COLOURS, Clothing, Parts, Pictures};
use crate::picture_fit::{Classifier, Fit, Learned};
use crate::sets::hexadecimal;
use crate::shared::Shared;

pub(super) const PLAIN: &str = "plain network";
pub(super) const VIFA: &str = "VIFA K=1";
const VIFA_FIT: Learned = Learned::Vifa { rank: 1 };
const LAST_LAYER: Learned = Learned::LastLayer {
    path: ResNet18::HEAD,
};
const SWAG: Learned = Learned::Swag {
    rank: 10,
    start: 0.7,
};
/// The rows of the table: what is fitted, and how many fits are averaged.
const METHODS: [(&str, Learned, usize); 6] = [
    (PLAIN, Learned::Point, 1),
    ("five plain networks", Learned::Point, 5),
    ("Laplace of the last layer", LAST_LAYER, 1),
    ("SWAG K=10", SWAG, 1),
    (VIFA, VIFA_FIT, 1),
    ("three VIFA K=1", VIFA_FIT, 3),
];
/// Fits of a split have numbers below this.
const MOST_MEMBERS: u64 = 10;

/// Kinds of clothing.
const KINDS: usize = 10;
const CLASSES: usize = 2;
/// Learning rates of the mean at the first and the last step: after the first training, and in it.
const RATES: [f64; 2] = [5e-4, 5e-5];
const FIRST_RATES: [f64; 2] = [1e-3, 1e-4];
/// The random stream of the last layer.
const HEAD: u64 = 0x6865_6164;

/// Pictures of a set by its name.
pub(super) type Sets = Vec<(&'static str, Arc<Shared<Pictures>>)>;

/// The predictions of test pictures, and of digits.
type Predicted = [DrawProbabilities<'static>; 2];

/// All that predictions depend on beside the medical pictures.
#[derive(Clone, Copy, Debug, Serialize)]
struct Protocol {
    /// The training on clothing, and the number of pictures.
    first: Fit,
    clothing: usize,
    fit: Fit,
    /// Digits, which no network knows.
    digits: usize,
    /// Channels after the stem.
    width: usize,
}

/// The name of a set in the table.
pub(super) fn case(set: &str) -> String {
    format!("{set}, ResNet-18")
}

/// A job for every set, split and method; there are none with reduced settings.
pub(super) fn jobs(
    context: &Context,
    sets: Sets,
    clothing: &Arc<Shared<Clothing>>,
) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    if context.effort == Effort::Quick {
        return Ok(jobs);
    }
    let protocol = Protocol::new(0, Learned::Point);
    let (known, out) = (clothing.clone(), context.out.clone());
    let first = Shared::new(move || {
        let file = out.join(protocol.first_file());
        protocol.first_weights(&*known.get()?, &file)
    });
    for (set, pictures) in sets {
        for split in 0..5 {
            let (pictures, clothing) = (pictures.clone(), clothing.clone());
            let parts = Shared::new(move || {
                let digits = clothing.get()?.digits(protocol.digits)?.coloured();
                Parts::of_split(&pictures.get()?.coloured(), vec![digits], split)
            });
            let mut fits: Vec<(Learned, Vec<Arc<Shared<Predicted>>>)> = Vec::new();
            for (method, learned, members) in METHODS {
                let key = Key::new(case(set), method, split);
                let place = fits.iter().position(|(known, _)| *known == learned);
                let place = place.unwrap_or_else(|| {
                    fits.push((learned, Vec::new()));
                    fits.len() - 1
                });
                let (_, fits) = &mut fits[place];
                for member in fits.len()..members {
                    let seed = split * MOST_MEMBERS + member as u64;
                    let protocol = Protocol::new(seed, learned);
                    let (first, parts) = (first.clone(), parts.clone());
                    fits.push(Shared::new(move || {
                        protocol.predicted(&*first.get()?, &*parts.get()?)
                    }));
                }
                let (fits, parts) = (fits[..members].to_vec(), parts.clone());
                jobs.push(Job::new(
                    key,
                    &(Protocol::new(split, learned), members),
                    move || measures(&fits, &parts.get()?.test.classes),
                )?);
            }
        }
    }
    Ok(jobs)
}

/// The scores of the average of these fits.
fn measures(fits: &[Arc<Shared<Predicted>>], classes: &[usize]) -> Result<Measures> {
    let (mut known, mut foreign) = (Vec::new(), Vec::new());
    for fit in fits {
        let fit = fit.get()?;
        let [of_known, of_foreign] = &*fit;
        known.push(of_known.clone());
        foreign.push(of_foreign.clone());
    }
    let (known, foreign) = (together(&known)?, together(&foreign)?);
    let mut found = scores::selective(&known, classes)?;
    found.extend(scores::detection(&known, classes, &foreign)?);
    Ok(found)
}

/// All draws of these, which have equally many.
fn together(all: &[DrawProbabilities<'static>]) -> Result<DrawProbabilities<'static>> {
    let draws = all.iter().map(DrawProbabilities::draws).sum();
    let values: Vec<f64> = all.iter().flat_map(|one| one.values()).copied().collect();
    let rows = all.first().map_or(0, DrawProbabilities::rows);
    Ok(DrawProbabilities::new(values, draws, rows, CLASSES)?)
}

impl Protocol {
    fn new(seed: u64, learned: Learned) -> Self {
        let fit = Fit {
            learned,
            epochs: 10,
            batch: 16,
            rates: RATES,
            mean_rate: Some(RATES[0]),
            prior: 1.0,
            shift: 0,
            draws: 30,
            seed,
        };
        Self {
            first: Fit {
                learned: Learned::Point,
                epochs: 2,
                batch: 32,
                rates: FIRST_RATES,
                seed: 0,
                ..fit
            },
            clothing: 20_000,
            fit,
            digits: 200,
            width: ResNet18::WIDTH,
        }
    }

    fn network(&self, device: &Device) -> Classifier<ResNet18> {
        classifier(ResNet18::of_width(self.width, COLOURS, KINDS, device))
    }

    /// The name of the file of weights that have learned clothing, which says what they depend on.
    fn first_file(&self) -> String {
        let settings = format!("{:?}", (self.first, self.clothing, self.width));
        let mark = hexadecimal(Sha256::new_with_prefix(settings));
        format!("clothing-{}.safetensors", &mark[..16])
    }

    /// Those of a network that has learned clothing, which takes twenty minutes and is done once.
    fn first_weights(&self, clothing: &Clothing, file: &Path) -> Result<PointPosterior> {
        let device = DeviceName::host()?.autodiff();
        if file.exists() {
            return Ok(PointPosterior::load(file, &device)?);
        }
        let pictures = clothing.first(self.clothing)?.coloured();
        // No other job of the experiment draws from the device's generator.
        device.seed(self.first.seed);
        let network = self.network(&device);
        let trained = self.first.at_a_point(network, &pictures)?;
        let weights = PointPosterior::of(&trained, &ParamGroup::all())?;
        weights.save(file)?;
        Ok(weights)
    }

    fn predicted(&self, first: &PointPosterior, parts: &Parts) -> Result<Predicted> {
        let device = DeviceName::host()?.autodiff();
        let network = self.network(&device);
        let mut generator = generator(Noise::new(self.fit.seed).fold(HEAD));
        let head = linear(8 * self.width, CLASSES, &mut generator, &device);
        let network = first.write_mean(network)?.network().clone().with_head(head);
        let sets = [&parts.test, &parts.foreign[0]];
        let found = self
            .fit
            .predictions(classifier(network), &parts.train, &sets)?;
        Ok(found.try_into().expect("one for each of two sets"))
    }
}

fn classifier(network: ResNet18) -> Classifier<ResNet18> {
    Supervised::new(network, ResNet18::forward, Likelihood::Categorical)
}

#[cfg(test)]
mod tests {
    use burn_bayes_tabular::predict::Uncertainty;

    use super::*;

    #[test]
    fn a_network_that_learned_before_is_fitted_and_averaged() {
        let [train, test] = [0, 1].map(|seed| Pictures::bright_halves(32, seed).coloured());
        let parts = Parts {
            foreign: vec![Pictures::noise(train.shape, 8, 2)],
            valid: test.clone(),
            train,
            test,
        };
        let mut protocol = Protocol::new(3, VIFA_FIT);
        let of_width = protocol.first_file();
        protocol.width = 4;
        assert_ne!(protocol.first_file(), of_width);
        protocol.fit.epochs = 30;
        protocol.fit.mean_rate = None;
        protocol.fit.draws = 3;
        let device = DeviceName::host().unwrap().autodiff();
        let first = protocol.network(&device);
        let first = PointPosterior::of(&first, &ParamGroup::all()).unwrap();
        let fit = |seed| {
            let mut protocol = protocol;
            protocol.fit.seed = seed;
            protocol.predicted(&first, &parts).unwrap()
        };
        let [one, other] = [3, 4].map(fit);
        assert_eq!((one[0].draws(), one[0].rows(), one[1].rows()), (3, 32, 8));
        assert_eq!(one[0].values(), fit(3)[0].values());
        let fits = [one.clone(), other].map(|fit| Shared::new(move || Ok(fit.clone())));
        let found = measures(&fits, &parts.test.classes).unwrap();
        let alone = scores::selective(&one[0], &parts.test.classes).unwrap();
        assert!(found.contains_key(&scores::detected(Uncertainty::Entropy)));
        assert_ne!(found[scores::NLL], alone[scores::NLL]);
        // Where the light is, is soon known.
        assert!(alone[scores::NLL] < 0.6, "{alone:?}");
    }
}
