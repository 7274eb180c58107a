//! One case: everything that the library says about a program, against the oracle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use burn::module::ParamGroup;
use burn::tensor::Tensor;
use burn_bayes::Layout;
use burn_bayes::graph::{
    CapturedForward, CapturedLoss, CapturedModel, Error, ExampleLosses, Result,
};

use super::net::{Examples, Net, place};
use super::oracle::{Expected, Setting};
use super::program::{Program, Sizes};
use crate::support::{normals, values, vector};

/// How a case was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    Graph,
    PartlyLooped,
    Looped,
    Refused(&'static str),
}

/// What the library did with a case.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) answer: Answer,
    /// Draws whose mean gradient was left to one pass for each.
    pub(crate) is_left: bool,
    /// What was wrong, and where.
    pub(crate) failures: Vec<String>,
}

/// A program with its weights and batches, and what the library keeps of it.
struct Case {
    program: Arc<Program>,
    layout: Arc<Layout>,
    weights: Vec<Vec<f32>>,
    model: CapturedModel<Net, Examples>,
    loss: CapturedLoss<Net, Examples>,
    forward: CapturedForward<Net, Examples>,
    failures: Vec<String>,
    is_left: bool,
}

pub(crate) fn checked(program: Program) -> Report {
    let program = Arc::new(program);
    let net = Net::new(program.clone());
    let layout = Arc::new(Layout::new(&net, &ParamGroup::all()).expect("a program has parameters"));
    let seed = program.seed;
    let weights = (0..program.draws as u64 + 1).map(|draw| {
        let values = normals(seed.wrapping_add(1000 + draw), layout.len());
        values.into_iter().map(|x| x * 0.6).collect()
    });
    let mut case = Case {
        weights: weights.collect(),
        model: CapturedModel::new(layout.clone(), Net::losses),
        loss: CapturedLoss::new(layout.clone(), Net::losses),
        forward: CapturedForward::new(layout.clone(), Net::forward),
        layout,
        failures: Vec::new(),
        is_left: false,
        program: program.clone(),
    };
    let batch = |part: u64, examples| {
        let sizes = Sizes {
            examples,
            ..program.sizes
        };
        Examples::new(
            seed.wrapping_mul(4).wrapping_add(part),
            sizes,
            &place(&program),
        )
    };
    let first = batch(0, program.sizes.examples);
    let answer = case.run("first call", net.clone(), 0, &first);
    // Other data, weights and fields, on the recordings of the first call.
    let net = net.with_other_fields();
    case.run(
        "second call",
        net.clone(),
        1,
        &batch(1, program.sizes.examples),
    );
    case.run(
        "other batch size",
        net,
        1,
        &batch(2, program.other_examples),
    );
    Report {
        answer,
        is_left: case.is_left,
        failures: case.failures,
    }
}

impl Case {
    /// Checks all results at the weights from number `first` on.
    fn run(&mut self, call: &str, net: Net, first: usize, batch: &Examples) -> Answer {
        let weights = self.weights[first..].to_vec();
        let net = self.layout.write(net, vector(&weights[0])).unwrap();
        let layout = self.layout.clone();
        let setting = Setting {
            net: &net,
            layout: &layout,
            batch,
        };
        let expected: Vec<_> = weights
            .iter()
            .map(|weights| setting.expected(weights))
            .collect();

        let found = attempt(|| self.model.example_gradients(&net, batch));
        self.rows(
            call,
            "example_gradients",
            found,
            setting,
            &weights[..1],
            &expected,
        );
        let found = attempt(|| self.model.looped(&net, batch));
        self.rows(call, "looped", found, setting, &weights[..1], &expected);
        let draws: Vec<Tensor<1>> = weights.iter().map(|weights| vector(weights)).collect();
        let found = attempt(|| self.model.example_gradients_at(&net, &draws, batch));
        self.rows(
            call,
            "example_gradients_at",
            found,
            setting,
            &weights,
            &expected,
        );
        self.mean(
            call,
            setting,
            &weights,
            &expected,
            Tensor::stack(draws.clone(), 0),
        );
        self.outputs(call, setting, &weights, Tensor::stack(draws, 0));
        self.answer(&net, batch)
    }

    fn rows(
        &mut self,
        call: &str,
        what: &str,
        found: Attempt<ExampleLosses>,
        setting: Setting<'_>,
        weights: &[Vec<f32>],
        expected: &[Expected],
    ) {
        let what = format!("{call}, {what}");
        let Some(found) = self.answered(&what, found) else {
            return;
        };
        let expected = &expected[..weights.len()];
        let rows: Option<Vec<_>> = expected.iter().map(|draw| draw.rows.clone()).collect();
        let Some(rows) = rows else {
            let problem =
                "answered, though the loss of an example alone is not its loss in the batch";
            self.failures.push(format!("{what}: {problem}"));
            return;
        };
        let losses: Vec<_> = expected
            .iter()
            .flat_map(|draw| draw.losses.clone())
            .collect();
        let alike = |setting: &Setting<'_>, weights: &[f32]| setting.expected(weights).losses;
        self.compared(
            &format!("{what}: losses"),
            &values(&found.losses),
            &losses,
            setting,
            weights,
            alike,
        );
        let found = values(&found.gradients.materialise());
        let of_rows = |setting: &Setting<'_>, weights: &[f32]| {
            setting.expected(weights).rows.unwrap_or_default()
        };
        self.by_parameter(&what, &found, &rows.concat(), setting, weights, of_rows);
    }

    fn mean(
        &mut self,
        call: &str,
        setting: Setting<'_>,
        weights: &[Vec<f32>],
        expected: &[Expected],
        draws: Tensor<2>,
    ) {
        let what = format!("{call}, CapturedLoss");
        let found = attempt(|| self.loss.gradients(setting.net, draws, setting.batch));
        let Some(found) = self.answered(&what, found) else {
            return;
        };
        let Some(found) = found else {
            self.is_left = true;
            return;
        };
        if !found.outside.is_empty() {
            self.failures
                .push(format!("{what}: gradients outside the layout"));
        }
        let losses: Vec<_> = expected
            .iter()
            .flat_map(|draw| draw.losses.clone())
            .collect();
        let alike = |setting: &Setting<'_>, weights: &[f32]| setting.expected(weights).losses;
        self.compared(
            &format!("{what}: losses"),
            &values(&found.losses),
            &losses,
            setting,
            weights,
            alike,
        );
        let pieces = found.pieces.iter().flatten().flat_map(values);
        let pieces: Vec<f64> = pieces.collect();
        let means: Vec<f64> = expected.iter().flat_map(|draw| draw.mean.clone()).collect();
        let of_mean = |setting: &Setting<'_>, weights: &[f32]| setting.expected(weights).mean;
        self.by_parameter(&what, &pieces, &means, setting, weights, of_mean);
    }

    fn outputs(
        &mut self,
        call: &str,
        setting: Setting<'_>,
        weights: &[Vec<f32>],
        draws: Tensor<2>,
    ) {
        let what = format!("{call}, CapturedForward");
        let found = attempt(|| self.forward.outputs(setting.net, draws, setting.batch));
        let Some(found) = self.answered(&what, found) else {
            return;
        };
        let expected: Vec<_> = weights
            .iter()
            .flat_map(|weights| setting.outputs(weights))
            .collect();
        let alike = |setting: &Setting<'_>, weights: &[f32]| setting.outputs(weights);
        self.compared(&what, &values(&found), &expected, setting, weights, alike);
    }

    /// The result, if there is one; a panic and an error that names nothing are failures.
    fn answered<T>(&mut self, what: &str, found: Attempt<T>) -> Option<T> {
        match found {
            Ok(Ok(found)) => return Some(found),
            Ok(Err(error)) if !self.names_something(&error) => {
                self.failures
                    .push(format!("{what}: an error that names nothing: {error}"));
            }
            Ok(Err(_)) => {}
            Err(panic) => self.failures.push(format!("{what}: panic: {panic}")),
        }
        None
    }

    /// Whether an error names an operation, a parameter, a field or the type of the batch.
    fn names_something(&self, error: &Error) -> bool {
        let text = error.to_string();
        let paths = self
            .layout
            .entries()
            .iter()
            .map(|entry| entry.path.as_str());
        let fields = [
            "number", "tensor", "program", "lengths", "unmapped", "Examples", "Vec",
        ];
        let is_operation = |word: &str| {
            let word = word.trim_matches(|c: char| !c.is_alphanumeric());
            word.starts_with(char::is_uppercase) && word.len() > 2
        };
        paths.chain(fields).any(|name| text.contains(name))
            || text.split_whitespace().skip(1).any(is_operation)
    }

    /// As [`compared`](Self::compared), for `[…, D]`, each parameter on its own scale.
    fn by_parameter(
        &mut self,
        what: &str,
        found: &[f64],
        expected: &[f64],
        setting: Setting<'_>,
        weights: &[Vec<f32>],
        result: impl Fn(&Setting<'_>, &[f32]) -> Vec<f64>,
    ) {
        let width = self.layout.len();
        if found.len() != expected.len() {
            let (found, expected) = (found.len(), expected.len());
            self.failures
                .push(format!("{what}: {found} numbers, expected {expected}"));
            return;
        }
        let floor = 0.1 * largest(expected);
        for entry in setting.layout.entries() {
            let columns = |numbers: &[f64]| -> Vec<f64> {
                let rows = numbers.chunks(width);
                rows.flat_map(|row| &row[entry.offset..entry.offset + entry.len()])
                    .copied()
                    .collect()
            };
            let what = format!("{what}: gradient of {} {:?}", entry.path, entry.shape);
            let result =
                |setting: &Setting<'_>, weights: &[f32]| columns(&result(setting, weights));
            let (found, expected) = (columns(found), columns(expected));
            let scale = largest(&expected).max(floor);
            self.within(&what, &found, &expected, scale, setting, weights, result);
        }
    }

    fn compared(
        &mut self,
        what: &str,
        found: &[f64],
        expected: &[f64],
        setting: Setting<'_>,
        weights: &[Vec<f32>],
        result: impl Fn(&Setting<'_>, &[f32]) -> Vec<f64>,
    ) {
        if found.len() != expected.len() {
            let (found, expected) = (found.len(), expected.len());
            self.failures
                .push(format!("{what}: {found} numbers, expected {expected}"));
            return;
        }
        self.within(
            what,
            found,
            expected,
            largest(expected),
            setting,
            weights,
            result,
        );
    }

    /// Equal within 1e-5 of the scale, and what weights that differ in their last bits change.
    #[expect(
        clippy::too_many_arguments,
        reason = "both sides, and what explains a difference"
    )]
    fn within(
        &mut self,
        what: &str,
        found: &[f64],
        expected: &[f64],
        scale: f64,
        setting: Setting<'_>,
        weights: &[Vec<f32>],
        result: impl Fn(&Setting<'_>, &[f32]) -> Vec<f64>,
    ) {
        let errors = found.iter().zip(expected).map(|(a, b)| (a - b).abs());
        let (worst, error) = errors.enumerate().fold((0, 0.0), |worst, (place, error)| {
            // A NaN must fail too.
            let is_worse = error > worst.1 || error.is_nan();
            if is_worse && !worst.1.is_nan() {
                (place, error)
            } else {
                worst
            }
        });
        let allowed = 1e-5 * scale.max(1e-6);
        if error <= allowed {
            return;
        }
        let rounding = weights
            .iter()
            .map(|weights| setting.rounding(weights, &result));
        let rounding = rounding.fold(0.0, f64::max);
        if !(error <= allowed + 4.0 * rounding) {
            self.failures.push(format!(
                "{what}: {} at {worst}, expected {} (largest {scale:.3e}, rounding {rounding:.1e})",
                found[worst], expected[worst]
            ));
        }
    }

    fn answer(&self, net: &Net, batch: &Examples) -> Answer {
        match attempt(|| self.model.looped_paths(net, batch)) {
            Ok(Ok(paths)) if paths.is_empty() => Answer::Graph,
            Ok(Ok(paths)) if paths.len() < self.layout.entries().len() => Answer::PartlyLooped,
            Ok(Ok(_)) => Answer::Looped,
            Ok(Err(error)) => Answer::Refused(reason(&error)),
            Err(_) => Answer::Refused("panic"),
        }
    }
}

fn reason(error: &Error) -> &'static str {
    if error.is_coupled() {
        "coupled"
    } else if error.is_random() {
        "random"
    } else if error.is_batch() {
        "batch"
    } else if error.is_layout() {
        "layout"
    } else {
        "other"
    }
}

fn largest(numbers: &[f64]) -> f64 {
    numbers.iter().fold(0.0, |max, x| max.max(x.abs()))
}

/// A result, or the text of a panic.
type Attempt<T> = std::result::Result<Result<T>, String>;

fn attempt<T>(run: impl FnOnce() -> Result<T>) -> Attempt<T> {
    catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|&text| text.to_owned()))
            .unwrap_or_else(|| "without a text".into())
    })
}
