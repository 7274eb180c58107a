//! Every method learns, and the result does not depend on other fits or interruptions.

mod several_targets;

use std::cell::Cell;

use burn_bayes_data::{ColumnScale, Dataset, Targets, gap_regression, two_moons};

use super::*;
use crate::predict::Predictions;
use crate::rows::Target;
use crate::settings::{Method, NetworkShape, NoisePrecision};

fn moons(seed: u64) -> (Dataset, TrainingSet) {
    let data = two_moons(120, 0.1, seed).unwrap();
    let classes = vec!["lower".to_string(), "upper".to_string()];
    let training_set = TrainingSet::new(&data, Target::Classes(classes)).unwrap();
    (data, training_set)
}

fn gap() -> (Dataset, TrainingSet) {
    let data = gap_regression(100, 0.1, 3).unwrap();
    let training_set = TrainingSet::new(&data, Target::Real(ColumnScale::KEPT)).unwrap();
    (data, training_set)
}

fn settings(method: Method) -> FitSettings {
    FitSettings {
        method,
        model: Some(NetworkShape { hidden: vec![20] }),
        rank: Some(2),
        epochs: Some(match method {
            // A step each.
            Method::Mclmc => 1000,
            Method::Hmc => 300,
            _ => 60,
        }),
        batch_size: 20,
        train_draws: Some(2),
        draws: 20,
        noise_precision: NoisePrecision::Given(50.0),
        ..FitSettings::default()
    }
}

/// Classes have no noise.
fn of_classes(method: Method) -> FitSettings {
    FitSettings {
        noise_precision: NoisePrecision::LEARNED,
        ..settings(method)
    }
}

fn probabilities(model: &TrainedModel, data: &Dataset) -> Vec<f64> {
    match model.predict(data.features(), 20).unwrap() {
        Predictions::Classes(predictions) => predictions.values,
        _ => panic!("classes were fitted"),
    }
}

/// Accuracy.
fn accuracy(probabilities: &[f64], data: &Dataset) -> f64 {
    let classes = data.targets().as_classes().unwrap();
    let draws = probabilities.len() / (2 * classes.len());
    let right = classes.iter().enumerate().filter(|&(row, &class)| {
        let of_class = |class: usize| -> f64 {
            let at = |draw: usize| probabilities[(draw * classes.len() + row) * 2 + class];
            (0..draws).map(at).sum()
        };
        of_class(class) > of_class(1 - class)
    });
    right.count() as f64 / classes.len() as f64
}

#[test]
fn every_method_learns_classes() {
    let (_, training_set) = moons(1);
    let (test, _) = moons(2);
    for method in Method::general() {
        let model = fit(&training_set, &of_classes(method), &mut ()).unwrap();
        let accuracy = accuracy(&probabilities(&model, &test), &test);
        // A linear classifier has a lower accuracy.
        assert!(accuracy > 0.8, "{method}: {accuracy}");
        assert_eq!(model.is_point(), method == Method::Map);
    }
}

#[test]
fn every_method_learns_numbers() {
    let (data, training_set) = gap();
    for method in Method::general() {
        let model = fit(&training_set, &settings(method), &mut ()).unwrap();
        let Predictions::Reals(predictions) = model.predict(data.features(), 20).unwrap() else {
            panic!("numbers were fitted");
        };
        let mixture = predictions.checked().unwrap();
        let error = burn_bayes::eval::rmse(&mixture.mean(), data.targets().as_real().unwrap());
        // The standard deviation of the targets is 1.12.
        assert!(error.clone().unwrap() < 0.35, "{method}: {error:?}");
        assert!((predictions.noise_deviation() - 50f64.sqrt().recip()).abs() < 1e-12);
    }
}

#[test]
fn the_noise_is_learnt_from_rows_that_were_held_out() {
    let (_, training_set) = gap();
    let settings = FitSettings {
        noise_precision: NoisePrecision::LEARNED,
        epochs: Some(150),
        batch_size: 10,
        ..settings(Method::MeanField)
    };
    let model = fit(&training_set, &settings, &mut ()).unwrap();
    // The true noise precision is 100; the error of the network makes the estimate smaller.
    let learnt = model.noise_precisions()[0];
    assert!((20.0..200.0).contains(&learnt), "{learnt}");
}

#[test]
fn the_noise_of_targets_that_are_not_standardised_is_of_their_size() {
    let (data, _) = gap();
    let targets = data.targets().as_real().unwrap();
    let settings = FitSettings {
        noise_precision: NoisePrecision::LEARNED,
        epochs: Some(2),
        ..settings(Method::Map)
    };
    for size in [1e-4, 1e5] {
        let sized = targets.iter().map(|target| size * target).collect();
        let sized = Dataset::new(data.features().clone(), Targets::Real(sized)).unwrap();
        let training_set = TrainingSet::new(&sized, Target::Real(ColumnScale::KEPT)).unwrap();
        let model = fit(&training_set, &settings, &mut ()).unwrap();
        let deviation = training_set.target_deviations().unwrap()[0];
        assert!((deviation / size - 1.12).abs() < 0.01, "{deviation}");
        // The estimate stays within its bounds.
        let learnt = model.noise_precisions()[0] * deviation * deviation;
        assert!((0.499..1.001e6).contains(&learnt), "{size}: {learnt}");
    }
}

#[test]
fn a_fit_among_others_is_the_fit_alone() {
    let run = |method: Method| {
        let (data, training_set) = moons(1);
        let model = fit(&training_set, &of_classes(method), &mut ()).unwrap();
        probabilities(&model, &data)
    };
    let methods = [Method::Vifa, Method::Slang, Method::Map, Method::Vifa];
    let together: Vec<Vec<f64>> = std::thread::scope(|scope| {
        let threads = methods.map(|method| scope.spawn(move || run(method)));
        threads.map(|thread| thread.join().unwrap()).into()
    });
    for (method, found) in methods.into_iter().zip(together) {
        assert_eq!(found, run(method), "{method}");
    }
}

/// Interrupts after some steps, and stores the checkpoint.
struct Interruption {
    after: usize,
    asked: Cell<usize>,
    records: Vec<EpochRecord>,
    checkpoint: Option<Checkpoint>,
}

impl Interruption {
    fn after(steps: usize) -> Self {
        Self {
            after: steps,
            asked: Cell::new(0),
            records: Vec::new(),
            checkpoint: None,
        }
    }
}

impl Observer for Interruption {
    fn epoch(
        &mut self,
        record: &EpochRecord,
        _so_far: &dyn Fn() -> Result<TrainedModel>,
    ) -> ControlFlow<()> {
        self.records.push(record.clone());
        ControlFlow::Continue(())
    }

    fn interrupts(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.asked.get() > self.after
    }

    fn keeps_checkpoints(&self) -> bool {
        true
    }

    fn checkpoint(&mut self, checkpoint: Checkpoint) -> Result<()> {
        self.checkpoint = Some(checkpoint);
        Ok(())
    }
}

#[test]
fn an_interrupted_fit_ends_as_an_uninterrupted_one() {
    let (data, training_set) = moons(1);
    for method in Method::general() {
        let settings = FitSettings {
            epochs: Some(4),
            checkpoint_every: 0,
            ..of_classes(method)
        };
        let mut whole = Interruption::after(usize::MAX);
        let expected = fit(&training_set, &settings, &mut whole).unwrap();
        // In the middle of the third epoch, which has six steps, or one.
        let mut first = Interruption::after(match method {
            Method::Mclmc | Method::Hmc => 2,
            _ => 15,
        });
        let failure = fit(&training_set, &settings, &mut first).unwrap_err();
        assert!(matches!(
            failure,
            crate::error::TabularError::Interrupted(_)
        ));
        let mut second = Interruption::after(usize::MAX);
        let checkpoint = first.checkpoint.unwrap();
        let resumed = resume(&training_set, &settings, checkpoint, &mut second).unwrap();
        assert_eq!(
            probabilities(&resumed, &data),
            probabilities(&expected, &data),
            "{method}"
        );
        assert_eq!([first.records, second.records].concat(), whole.records);
    }
}

#[test]
fn a_fit_that_is_interrupted_while_it_learns_the_prior_ends_as_an_uninterrupted_one() {
    let (data, training_set) = gap();
    for (method, precision, count) in [
        (Method::Vifa, "learned", 1),
        (Method::Slang, "learned-per-layer", 2),
        (Method::Von, "learned", 1),
        (Method::Vadam, "learned-per-layer", 2),
    ] {
        let settings = FitSettings {
            prior_precision: precision.parse().unwrap(),
            epochs: Some(6),
            checkpoint_every: 0,
            ..settings(method)
        };
        let result = |model: &TrainedModel| match model.predict(data.features(), 20).unwrap() {
            Predictions::Reals(predictions) => {
                let learned = model.learned_prior.clone().unwrap();
                (predictions.values, learned, model.motion)
            }
            _ => panic!("numbers were fitted"),
        };
        let expected = fit(&training_set, &settings, &mut ()).unwrap();
        assert!(expected.motion.drift.is_some_and(|drift| drift > 0.0));
        let learned = expected.learned_prior.as_ref().unwrap();
        assert_eq!(learned.len(), count);
        assert!(
            learned
                .iter()
                .all(|&precision| (1e-3..1e3).contains(&precision) && precision != 1.0)
        );
        // Six epochs of five steps; the prior is learned after the fourth.
        for steps in [3, 15, 22, 25] {
            let mut first = Interruption::after(steps);
            fit(&training_set, &settings, &mut first).unwrap_err();
            let checkpoint = first.checkpoint.unwrap();
            let resumed = resume(&training_set, &settings, checkpoint, &mut ()).unwrap();
            assert_eq!(result(&resumed), result(&expected), "{method}, {steps}");
        }
    }
}

#[test]
fn a_model_of_an_earlier_epoch_has_the_prior_that_it_was_trained_with() {
    struct Seen(Vec<Option<Vec<f64>>>);
    impl Observer for Seen {
        fn epoch(
            &mut self,
            _: &EpochRecord,
            snapshot: &dyn Fn() -> crate::error::Result<TrainedModel>,
        ) -> ControlFlow<()> {
            let model = snapshot().unwrap();
            let is_averaged = model.motion.fluctuation.is_some();
            assert!(is_averaged || model.is_before_posterior);
            self.0.push(model.learned_prior.clone());
            ControlFlow::Continue(())
        }
    }
    let (_, training_set) = gap();
    let settings = FitSettings {
        prior_precision: "learned".parse().unwrap(),
        epochs: Some(6),
        ..settings(Method::Vifa)
    };
    let mut seen = Seen(Vec::new());
    fit(&training_set, &settings, &mut seen).unwrap();
    // The first estimate is made after the fourth epoch.
    let known: Vec<bool> = seen.0.iter().map(Option::is_some).collect();
    assert_eq!(known, [false, false, false, false, true, true]);
}

#[test]
fn methods_without_a_bound_cannot_learn_the_prior() {
    let (_, training_set) = gap();
    for method in [
        Method::Map,
        Method::Swag,
        Method::FactorAnalysis,
        Method::Mclmc,
        Method::Hmc,
    ] {
        let settings = FitSettings {
            prior_precision: "learned".parse().unwrap(),
            ..settings(method)
        };
        let error = fit(&training_set, &settings, &mut ())
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("`prior_precision`") && error.contains(&method.to_string()),
            "{error}"
        );
    }
}

#[test]
fn a_fit_that_is_interrupted_while_it_learns_the_noise_ends_as_an_uninterrupted_one() {
    let (data, training_set) = gap();
    let predictions = |model: &TrainedModel| match model.predict(data.features(), 20).unwrap() {
        Predictions::Reals(predictions) => {
            let deviation = predictions.noise_deviation();
            (predictions.values, deviation)
        }
        _ => panic!("numbers were fitted"),
    };
    for method in [
        Method::Vifa,
        Method::Swag,
        Method::FactorAnalysis,
        Method::Map,
    ] {
        let settings = FitSettings {
            noise_precision: NoisePrecision::LEARNED,
            epochs: Some(4),
            checkpoint_every: 0,
            ..settings(method)
        };
        let mut whole = Interruption::after(usize::MAX);
        let expected = fit(&training_set, &settings, &mut whole).unwrap();
        // Four epochs of five steps; rows are held out in the first two.
        for steps in [0, 3, 5, 8, 10, 16] {
            let mut first = Interruption::after(steps);
            fit(&training_set, &settings, &mut first).unwrap_err();
            let checkpoint = first.checkpoint.unwrap();
            assert_eq!(checkpoint.epochs, first.records.len());
            let mut second = Interruption::after(usize::MAX);
            let resumed = resume(&training_set, &settings, checkpoint, &mut second).unwrap();
            assert_eq!(
                predictions(&resumed),
                predictions(&expected),
                "{method}, {steps}"
            );
            assert_eq!([first.records, second.records].concat(), whole.records);
        }
    }
}

#[test]
fn with_few_rows_the_noise_is_learned_before_the_fit_which_can_be_interrupted() {
    let data = gap_regression(40, 0.1, 3).unwrap();
    let training_set = TrainingSet::new(&data, Target::Real(ColumnScale::KEPT)).unwrap();
    for method in [Method::Vifa, Method::Swag, Method::Map] {
        let settings = FitSettings {
            noise_precision: NoisePrecision::LEARNED,
            epochs: Some(4),
            checkpoint_every: 0,
            ..settings(method)
        };
        let mut whole = Interruption::after(usize::MAX);
        let expected = fit(&training_set, &settings, &mut whole).unwrap();
        assert_eq!(whole.records.len(), 4);
        // Five trainings of two epochs of two steps, which leave no checkpoint, then the fit.
        let mut early = Interruption::after(7);
        fit(&training_set, &settings, &mut early).unwrap_err();
        assert!(early.checkpoint.is_none() && early.records.is_empty());
        let mut first = Interruption::after(20 + 5);
        fit(&training_set, &settings, &mut first).unwrap_err();
        let checkpoint = first.checkpoint.unwrap();
        let resumed = resume(&training_set, &settings, checkpoint, &mut ()).unwrap();
        assert_eq!(resumed.noise_precisions(), expected.noise_precisions());
        let outputs = |model: &TrainedModel| model.outputs(data.features(), 20).unwrap();
        assert_eq!(outputs(&resumed), outputs(&expected), "{method}");
    }
}

#[test]
fn who_keeps_no_checkpoints_is_given_none() {
    struct Forgetful(usize);
    impl Observer for Forgetful {
        fn epoch(
            &mut self,
            _record: &EpochRecord,
            _so_far: &dyn Fn() -> Result<TrainedModel>,
        ) -> ControlFlow<()> {
            self.0 += 1;
            ControlFlow::Continue(())
        }

        fn interrupts(&self) -> bool {
            self.0 == 3
        }

        fn checkpoint(&mut self, _checkpoint: Checkpoint) -> Result<()> {
            panic!("a checkpoint was made")
        }
    }
    let (_, training_set) = moons(1);
    let settings = FitSettings {
        checkpoint_every: 1,
        ..of_classes(Method::Vifa)
    };
    let failure = fit(&training_set, &settings, &mut Forgetful(0)).unwrap_err();
    assert!(matches!(
        failure,
        crate::error::TabularError::Interrupted(_)
    ));
}

#[test]
fn looking_at_a_fit_changes_nothing_and_shows_what_it_ends_in() {
    struct Onlooker(Dataset, Vec<Vec<f64>>);
    impl Observer for Onlooker {
        fn epoch(
            &mut self,
            _record: &EpochRecord,
            snapshot: &dyn Fn() -> Result<TrainedModel>,
        ) -> ControlFlow<()> {
            self.1.push(probabilities(&snapshot().unwrap(), &self.0));
            ControlFlow::Continue(())
        }
    }
    let (data, training_set) = moons(1);
    for method in Method::general() {
        let settings = FitSettings {
            epochs: Some(8),
            ..of_classes(method)
        };
        let mut onlooker = Onlooker(data.clone(), Vec::new());
        let watched = fit(&training_set, &settings, &mut onlooker).unwrap();
        let alone = fit(&training_set, &settings, &mut ()).unwrap();
        assert_eq!(
            probabilities(&watched, &data),
            probabilities(&alone, &data),
            "{method}"
        );
        assert_eq!(onlooker.1.len(), 8);
        let shown = match method {
            Method::Laplace => {
                let map = FitSettings {
                    method: Method::Map,
                    ..settings
                };
                fit(&training_set, &map, &mut ()).unwrap()
            }
            _ => alone,
        };
        assert_eq!(onlooker.1[7], probabilities(&shown, &data), "{method}");
        // Also while a posterior does not have enough iterates.
        assert!(
            onlooker.1.windows(2).all(|two| two[0] != two[1]),
            "{method}"
        );
    }
}

#[test]
fn a_decay_that_makes_swag_narrow_is_warned_of() {
    struct Warned(Vec<String>);
    impl Observer for Warned {
        fn warn(&mut self, warning: &str) {
            self.0.push(warning.to_string());
        }
    }
    let (_, training_set) = moons(1);
    let deviations = |decay: Option<f64>| {
        let settings = FitSettings {
            decay,
            ..of_classes(Method::Swag)
        };
        let mut observer = Warned(Vec::new());
        let model = fit(&training_set, &settings, &mut observer).unwrap();
        let variances = model.posterior().unwrap().variance().unwrap();
        let variances: Vec<f64> = variances.into_data().iter().collect();
        (variances.iter().sum::<f64>(), observer.0)
    };
    let (usual, silence) = deviations(None);
    assert!(silence.is_empty(), "{silence:?}");
    assert_eq!(deviations(Some(0.0)).1, Vec::<String>::new());
    let (decayed, warnings) = deviations(Some(0.1));
    assert!(decayed < 0.5 * usual, "{decayed}, {usual}");
    assert!(
        matches!(&warnings[..], [warning] if warning.contains("`decay`")),
        "{warnings:?}"
    );
}

#[test]
fn an_observer_ends_a_fit_early() {
    struct Third;
    impl Observer for Third {
        fn epoch(
            &mut self,
            record: &EpochRecord,
            _so_far: &dyn Fn() -> Result<TrainedModel>,
        ) -> ControlFlow<()> {
            assert!(record.epoch <= 3);
            match record.epoch {
                3 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let (data, training_set) = moons(1);
    let ended = fit(&training_set, &of_classes(Method::Vifa), &mut Third).unwrap();
    let whole = fit(&training_set, &of_classes(Method::Vifa), &mut ()).unwrap();
    assert_ne!(probabilities(&ended, &data), probabilities(&whole, &data));
}

#[test]
fn what_does_not_fit_is_refused() {
    let (_, training_set) = moons(1);
    let refusal = |settings: FitSettings| {
        let failure = fit(&training_set, &settings, &mut ()).unwrap_err();
        assert!(
            matches!(failure, crate::error::TabularError::Setting { .. }),
            "{failure:?}"
        );
        failure.to_string()
    };
    let rank = refusal(FitSettings {
        rank: Some(103),
        ..settings(Method::Vifa)
    });
    assert!(
        rank.contains("`rank` is 103") && rank.contains("102 weights"),
        "{rank}"
    );
}

#[test]
fn a_prior_over_biases_has_no_effect_without_biases() {
    let (data, training_set) = moons(1);
    for method in [Method::Vifa, Method::Slang, Method::Map] {
        let run = |bias_prior_precision| {
            let settings = FitSettings {
                epochs: Some(2),
                no_intercept: true,
                bias_prior_precision,
                ..of_classes(method)
            };
            let model = fit(&training_set, &settings, &mut ()).unwrap();
            probabilities(&model, &data)
        };
        assert_eq!(run(Some(3.0)), run(None), "{method}");
    }
}

#[test]
fn a_fit_that_leaves_the_finite_numbers_says_so() {
    let (_, training_set) = gap();
    for method in [Method::Vifa, Method::Map] {
        let settings = FitSettings {
            optimizer: crate::settings::OptimizerName::Sgd,
            learning_rate: Some(1e6),
            ..settings(method)
        };
        let failure = fit(&training_set, &settings, &mut ()).unwrap_err();
        assert!(
            matches!(failure, crate::error::TabularError::Numerical(_)),
            "{method}: {failure:?}"
        );
    }
}
