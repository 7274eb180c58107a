//! Fine-tunes a transformer on few rows by LoRA adapters, with and without a posterior over the adapters.
//!
//! The program trains the transformer on a source domain first. Then it fine-tunes the adapters on a target domain, by
//! ordinary training, with temperature scaling, and with Laplace, VIFA, SLANG and IVON, which need no held-out rows.
//!
//! ```text
//! cargo run --example lora
//! cargo run --example lora -- --seed 1 --rows 400
//! ```
#![allow(clippy::print_stdout, reason = "the program talks to a person")]

use std::error::Error;
use std::time::Instant;

use burn::module::{Lora, Module, ParamGroup};
use burn::optim::ModuleOptimizer;
use burn::optim::decay::WeightDecayConfig;
use burn::tensor::Device;
use burn::tensor::activation::softmax;
use burn::train::TrainStep;
use burn_bayes::eval::{
    ClassProbabilities, HeldOut, LabelledProbabilities, ReliabilityDiagram, Temperature, accuracy,
    nll,
};
use burn_bayes::graph::Layout;
use burn_bayes::laplace::{Laplace, Linearized, PriorSharing, Structure};
use burn_bayes::methods::{
    Algorithm, InitialDeviation, IvonConfig, LearningRates, MeanStage, MethodConfig,
};
use burn_bayes::prelude::*;
use burn_bayes::train::Gather;
use burn_bayes::{BayesianConfig, FusedAdamConfig, Noise};
use burn_bayes_examples::{
    Arguments, Domain, Sentence, SentenceBatch, SentenceNet, Sentences, is_smoke, probabilities_of,
    sentence_loader,
};

/// The rank of the adapters.
const RANK: usize = 4;
/// The prior precision of the adapters' weights.
const PRIOR_PRECISION: f64 = 10.0;
const BATCH: usize = 20;
const HELD_OUT: usize = 200;
const DRAWS: usize = 30;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::read(&["seed", "rows", "epochs"])?;
    let seed: u64 = arguments.get("seed", 0)?;
    let rows: usize = arguments.get("rows", if is_smoke() { 40 } else { 200 })?;
    let epochs: usize = arguments.get("epochs", if is_smoke() { 2 } else { 60 })?;
    let (source_rows, test_rows) = if is_smoke() { (200, 100) } else { (4000, 2000) };

    let device = Device::default();
    device.seed(seed);
    let set = |domain, number| Sentences {
        domain,
        seed: 10 * seed + number,
    };
    let source = set(Domain::Source, 1).rows(source_rows);
    let target = set(Domain::Target, 2).rows(rows);
    let held_out = set(Domain::Target, 3).rows(HELD_OUT);
    let test = Test::new(set(Domain::Target, 4).rows(test_rows), &device);

    let base = SentenceNet::new(&device.clone().autodiff());
    let weights = base.num_params();
    let base = train(
        base,
        FusedAdamConfig::new().init(),
        LearningRates::PLAIN,
        &source,
        (50, epochs.div_ceil(6)),
    )?;
    println!("{source_rows} source rows, {rows} target rows, {test_rows} target test rows");
    println!("\nmethod                                 accuracy    NLL    ECE   time");
    let start = Instant::now();
    test.print("true probabilities", test.truth(), start)?;
    test.print("before fine-tuning", test.plain(&base.valid()), start)?;

    // ANCHOR: adapters
    // Freezes all weights and adds an adapter to every matrix.
    let model = base.apply_lora(Lora::new(RANK, RANK as f64));
    // ANCHOR_END: adapters

    let start = Instant::now();
    let decayed = |rows: usize| {
        let decay = WeightDecayConfig::new((PRIOR_PRECISION / rows as f64) as f32);
        FusedAdamConfig::new().with_weight_decay(Some(decay)).init()
    };
    let plain = train(
        model.clone(),
        decayed(rows),
        LearningRates::PLAIN,
        &target,
        (BATCH, epochs),
    )?;
    test.print("fine-tuned", test.plain(&plain.valid()), start)?;
    let temperature = temperature(&plain.valid(), &held_out, &device)?;
    let name = format!("… temperature {:.2}", temperature.value());
    test.print(&name, test.tempered(&plain.valid(), temperature)?, start)?;

    // Nothing of a posterior is chosen on held-out rows, so it can learn from them.
    let all = [target.clone(), held_out].concat();
    for (rows, note) in [(&target, ""), (&all, ", with held-out rows")] {
        let print = |name: &str, values, start| test.print(&format!("{name}{note}"), values, start);
        let start = Instant::now();
        let count = rows.len();
        let plain = match note {
            "" => plain.clone(),
            _ => train(
                model.clone(),
                decayed(count),
                LearningRates::PLAIN,
                rows,
                (BATCH, epochs),
            )?,
        };
        // ANCHOR: laplace
        let laplace = Laplace::new(count)
            .with_prior(Prior::isotropic(PRIOR_PRECISION))
            .with_structure(Structure::LowRank { rank: 40 });
        let batch = SentenceBatch::new(rows, &device);
        let fit = laplace.gauss_newton(&plain, [batch])?;
        let fit = fit.with_optimal_prior(PriorSharing::Global)?;
        let linearized = Linearized::new(plain.valid(), fit.posterior()?)?;
        // ANCHOR_END: laplace
        print(
            "Laplace, linearised",
            test.linearized(&linearized, seed)?,
            start,
        )?;

        // ANCHOR: methods
        let steps = (epochs * count.div_ceil(BATCH)) as u64;
        let prior = Prior::isotropic(PRIOR_PRECISION);
        let vifa = VifaConfig::new()
            .with_rank(4)
            .with_initial_deviation(InitialDeviation::Constant(0.1));
        let vifa = BayesianConfig::new(count, vifa)
            .with_prior(prior.clone())
            .with_mean_stage(MeanStage::None)
            .with_seed(seed);
        let slang = BayesianConfig::new(count, SlangConfig::new().with_rank(4))
            .with_prior(prior.clone())
            .with_mean_stage(MeanStage::None)
            .with_steps(steps)
            .with_seed(seed);
        let ivon = BayesianConfig::new(count, IvonConfig::new())
            .with_prior(prior)
            .with_mean_stage(MeanStage::None)
            .with_steps(steps)
            .with_seed(seed);
        // ANCHOR_END: methods
        let start = Instant::now();
        print(
            "VIFA",
            test.averaged(&fitted(&vifa, &model, rows, epochs)?)?,
            start,
        )?;
        let start = Instant::now();
        print(
            "SLANG",
            test.averaged(&fitted(&slang, &model, rows, epochs)?)?,
            start,
        )?;
        let start = Instant::now();
        print(
            "IVON",
            test.averaged(&fitted(&ivon, &model, rows, epochs)?)?,
            start,
        )?;
    }
    let random = Layout::new(&model, &ParamGroup::all())?.len();
    println!("\n{random} weights of the adapters are random, {weights} of the base are fixed");
    Ok(())
}

/// The posterior of a method over the adapters.
fn fitted<C, A>(
    config: &BayesianConfig<C>,
    model: &SentenceNet,
    rows: &[Sentence],
    epochs: usize,
) -> Result<Predictor<SentenceNet, A::Posterior>, Box<dyn Error>>
where
    C: MethodConfig<Algorithm = A>,
    A: Algorithm<Signal: Gather<SentenceNet, A>>,
{
    let bayesian = config.init(model.clone());
    let optimizer = FusedAdamConfig::new().init();
    let trained = train(
        bayesian,
        optimizer,
        config.learning_rates(),
        rows,
        (BATCH, epochs),
    )?;
    Ok(trained.predictor()?)
}

/// Trains a plain model or a Bayesian one with mini-batches of a size, for a number of epochs.
fn train<L>(
    mut model: L,
    mut optimizer: ModuleOptimizer,
    rates: LearningRates,
    rows: &[Sentence],
    (batch, epochs): (usize, usize),
) -> Result<L, Box<dyn Error>>
where
    L: Module + TrainStep<Input = SentenceBatch>,
{
    let loader = sentence_loader(rows.to_vec(), batch, 0, &Device::default().autodiff());
    let mut rates = rates.over(epochs * rows.len().div_ceil(batch)).init();
    for _ in 0..epochs {
        for batch in loader.iter() {
            let gradients = TrainStep::step(&model, batch?).grads;
            model = model.optimize(&mut optimizer, rates.step(), gradients);
        }
    }
    Ok(model)
}

// ANCHOR: temperature
/// The temperature under which held-out rows are most likely.
fn temperature(
    model: &SentenceNet,
    held_out: &[Sentence],
    device: &Device,
) -> Result<Temperature, Box<dyn Error>> {
    let batch = SentenceBatch::new(held_out, device);
    let values = probabilities_of(softmax(model.forward(batch.words), 1));
    let probabilities = ClassProbabilities::new(&values, held_out.len(), Sentences::CLASSES)?;
    let classes: Vec<usize> = held_out.iter().map(|row| row.class).collect();
    let labelled = LabelledProbabilities::new(&probabilities, &classes)?;
    Ok(Temperature::fit(&HeldOut::for_new_rows(labelled))?)
}
// ANCHOR_END: temperature

/// The rows on which all predictions are scored.
struct Test {
    rows: Vec<Sentence>,
    batch: SentenceBatch,
}

/// Probabilities of the classes, row by row.
type Probabilities = Vec<f64>;

impl Test {
    fn new(rows: Vec<Sentence>, device: &Device) -> Self {
        let batch = SentenceBatch::new(&rows, device);
        Self { rows, batch }
    }

    fn print(
        &self,
        name: &str,
        values: Probabilities,
        start: Instant,
    ) -> Result<(), Box<dyn Error>> {
        let probabilities = ClassProbabilities::new(&values, self.rows.len(), Sentences::CLASSES)?;
        let classes: Vec<usize> = self.rows.iter().map(|row| row.class).collect();
        let labelled = LabelledProbabilities::new(&probabilities, &classes)?;
        let diagram = ReliabilityDiagram::equal_width(&labelled, 15)?;
        println!(
            "{name:<37} {:>9.3} {:>6.3} {:>6.3} {:>5.1} s",
            accuracy(&labelled),
            nll(&labelled),
            diagram.expected_calibration_error(),
            start.elapsed().as_secs_f64()
        );
        Ok(())
    }

    fn truth(&self) -> Probabilities {
        let rows = self.rows.iter();
        rows.flat_map(|row| row.probabilities.clone()).collect()
    }

    fn plain(&self, model: &SentenceNet) -> Probabilities {
        probabilities_of(softmax(model.forward(self.batch.words.clone()), 1))
    }

    fn tempered(
        &self,
        model: &SentenceNet,
        temperature: Temperature,
    ) -> Result<Probabilities, Box<dyn Error>> {
        let values = self.plain(model);
        let plain = ClassProbabilities::new(&values, self.rows.len(), Sentences::CLASSES)?;
        let scaled = temperature.apply(&plain);
        let rows = 0..self.rows.len();
        Ok(rows.flat_map(|row| scaled.row(row).to_vec()).collect())
    }

    /// The average over draws of the adapters.
    fn averaged<P: Posterior>(
        &self,
        predictor: &Predictor<SentenceNet, P>,
    ) -> Result<Probabilities, Box<dyn Error>> {
        let mixture = predictor.predict(self.batch.clone(), DRAWS)?;
        Ok(probabilities_of(mixture.draw_probabilities.mean_dim(0)))
    }

    /// The average over draws of the linearised model, for some rows at a time.
    fn linearized(
        &self,
        model: &Linearized<SentenceNet>,
        seed: u64,
    ) -> Result<Probabilities, Box<dyn Error>> {
        let mut all = Vec::new();
        for words in self.batch.words.clone().split(250, 0) {
            let logits = model.draws(&words, Noise::new(seed), DRAWS)?;
            all.extend(probabilities_of(softmax(logits, 2).mean_dim(0)));
        }
        Ok(all)
    }
}
