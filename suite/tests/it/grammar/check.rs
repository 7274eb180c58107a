//! One case: all results of the library for a program, against the oracle.

use std::sync::Arc;

use burn::module::ParamGroup;
use burn::tensor::Tensor;
use burn_bayes::graph::{
    CapturedForward, CapturedLoss, CapturedModel, Error, ExampleLosses, Layout, Result,
};

use super::compare::Call;
use super::net::{Examples, Net, place};
use super::oracle::Setting;
use super::program::{Program, Sizes};
use super::quiet::caught;
use crate::support::{normals, values, vector};

/// The source of the per-example gradients of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Answer {
    Graph,
    PartlyLooped,
    Looped,
    Refused(&'static str),
}

/// The library's answers for a case.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) answer: Answer,
    /// Whether the mean gradients at the draws needed one pass per draw.
    pub(crate) is_left: bool,
    /// The errors, with their places.
    pub(crate) failures: Vec<String>,
}

/// Checks a program at some weights, and with the same recordings at other weights and other data. Then it
/// changes what recordings do not contain, which are plain fields of the model and unmapped parts of the
/// batch, and then the number of examples.
pub(crate) fn checked(program: &Arc<Program>) -> Report {
    let net = Net::new(program.clone());
    let layout = Arc::new(Layout::new(&net, &ParamGroup::all()).expect("a program has parameters"));
    let seed = program.seed;
    let mut weights: Vec<Vec<f32>> = (0..program.draws as u64)
        .map(|draw| normals(seed.wrapping_add(1000 + draw), layout.len()))
        .collect();
    weights.iter_mut().flatten().for_each(|x| *x *= 0.6);
    let batch = |part: u64, examples| {
        let sizes = Sizes {
            examples,
            ..program.sizes
        };
        let seed = seed.wrapping_mul(4).wrapping_add(part);
        Examples::new(seed, sizes, &place(program))
    };
    let mut case = Case {
        model: CapturedModel::new(layout.clone(), Net::losses),
        loss: CapturedLoss::new(layout.clone(), Net::losses),
        forward: CapturedForward::new(layout.clone(), Net::forward),
        layout,
        failures: Vec::new(),
        is_left: false,
    };
    let examples = program.sizes.examples;
    let first = batch(0, examples);
    let answer = case.run("first call", net.clone(), &weights, &first);
    weights.rotate_left(1);
    let second = batch(1, examples).with_unmapped_of(&first);
    case.run("other data and weights", net.clone(), &weights, &second);
    let net = net.with_other_fields();
    let third = batch(2, examples);
    case.run("other fields", net.clone(), &weights, &third);
    let other = batch(3, program.other_examples);
    case.run("other batch size", net, &weights, &other);
    Report {
        answer,
        is_left: case.is_left,
        failures: case.failures,
    }
}

/// The recordings of a program, and the errors.
struct Case {
    layout: Arc<Layout>,
    model: CapturedModel<Net, Examples>,
    loss: CapturedLoss<Net, Examples>,
    forward: CapturedForward<Net, Examples>,
    failures: Vec<String>,
    is_left: bool,
}

impl Case {
    /// All results at draws of the weights; the first is the model itself.
    fn run(
        &mut self,
        name: &'static str,
        net: Net,
        weights: &[Vec<f32>],
        batch: &Examples,
    ) -> Answer {
        let layout = self.layout.clone();
        let net = layout.write(net, vector(&weights[0])).unwrap();
        let setting = Setting {
            net: &net,
            layout: &layout,
            batch,
        };
        let call = Call::new(name, setting, weights);
        let draws: Vec<Tensor<1>> = weights.iter().map(|draw| vector(draw)).collect();
        let stacked: Tensor<2> = Tensor::stack(draws.clone(), 0);

        let found = caught(|| self.model.example_gradients(&net, batch));
        let answer = self.source(&found, &net, batch);
        self.per_example(&call, "example_gradients", 1, found);
        let found = caught(|| self.model.looped(&net, batch));
        self.per_example(&call, "looped", 1, found);
        let found = caught(|| self.model.example_gradients_at(&net, &draws, batch));
        self.per_example(&call, "example_gradients_at", draws.len(), found);
        self.mean(&call, stacked.clone());
        self.outputs(&call, stacked);
        answer
    }

    fn per_example(&mut self, call: &Call, what: &str, draws: usize, found: Caught<ExampleLosses>) {
        let what = format!("{}, {what}", call.name);
        let Some(found) = self.answered(&what, found) else {
            return;
        };
        if !call.has_meaning(draws) {
            self.failures.push(format!(
                "{what}: answered, though an example alone has another loss than in the batch"
            ));
            return;
        }
        let losses = call.difference(&values(&found.losses), draws, |draw| draw.losses.clone());
        let gradients = values(&found.gradients.materialise());
        let rows = call.differences(&gradients, draws, |draw| {
            draw.rows.clone().unwrap_or_default()
        });
        self.add(&what, losses.map(|text| format!("losses: {text}")));
        self.add(&what, rows);
    }

    fn mean(&mut self, call: &Call, draws: Tensor<2>) {
        let what = format!("{}, CapturedLoss", call.name);
        let count = call.weights.len();
        let (net, batch) = (call.setting.net, call.setting.batch);
        let found = caught(|| self.loss.gradients(net, draws, batch));
        let Some(found) = self.answered(&what, found) else {
            return;
        };
        let Some(found) = found else {
            self.is_left = true;
            return;
        };
        let losses = call.difference(&values(&found.losses), count, |draw| draw.losses.clone());
        let pieces: Vec<f64> = found.pieces.iter().flatten().flat_map(values).collect();
        let pieces = call.differences(&pieces, count, |draw| draw.mean.clone());
        self.add(&what, losses.map(|text| format!("losses: {text}")));
        self.add(&what, pieces);
        let outside = (!found.outside.is_empty()).then(|| "gradients outside the layout".into());
        self.add(&what, outside);
    }

    fn outputs(&mut self, call: &Call, draws: Tensor<2>) {
        let what = format!("{}, CapturedForward", call.name);
        let (net, batch) = (call.setting.net, call.setting.batch);
        let found = caught(|| self.forward.outputs(net, draws, batch));
        if let Some(found) = self.answered(&what, found) {
            let count = call.weights.len();
            let outputs = call.difference(&values(&found), count, |draw| draw.outputs.clone());
            self.add(&what, outputs);
        }
    }

    fn add(&mut self, what: &str, problems: impl IntoIterator<Item = String>) {
        let problems = problems
            .into_iter()
            .map(|problem| format!("{what}: {problem}"));
        self.failures.extend(problems);
    }

    /// The result, if any; a panic, and an error that names nothing, are failures.
    fn answered<T>(&mut self, what: &str, found: Caught<T>) -> Option<T> {
        match found {
            Ok(Ok(found)) => return Some(found),
            Ok(Err(error)) if self.names_something(&error) => {}
            Ok(Err(error)) => self.add(what, Some(format!("an error that names nothing: {error}"))),
            Err(panic) => self.add(what, Some(format!("panic: {panic}"))),
        }
        None
    }

    /// Whether an error names an operation, a parameter, a field or the batch's type.
    fn names_something(&self, error: &Error) -> bool {
        const FIELDS: [&str; 5] = ["number", "tensor", "lengths", "unmapped", "Examples"];
        let text = error.to_string();
        let paths = self.layout.entries().iter().map(|entry| &*entry.path);
        // Operation names such as `SumDim` have a capital within the word.
        let words: Vec<&str> = text.split_whitespace().collect();
        let is_operation = |pair: &[&str]| {
            let word = pair[1].trim_matches(|c: char| !c.is_alphanumeric());
            word.len() > 2 && word.starts_with(char::is_uppercase) && !pair[0].ends_with('.')
        };
        paths.chain(FIELDS).any(|name| text.contains(name)) || words.windows(2).any(is_operation)
    }

    /// The source of the gradients.
    fn source(&self, found: &Caught<ExampleLosses>, net: &Net, batch: &Examples) -> Answer {
        match found {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => return Answer::Refused(reason(error)),
            Err(_) => return Answer::Refused("by a panic"),
        }
        match caught(|| self.model.looped_paths(net, batch)) {
            Ok(Ok(paths)) if paths.is_empty() => Answer::Graph,
            Ok(Ok(paths)) if paths.len() < self.layout.entries().len() => Answer::PartlyLooped,
            _ => Answer::Looped,
        }
    }
}

fn reason(error: &Error) -> &'static str {
    match () {
        () if error.is_coupled() => "coupled",
        () if error.is_random() => "random",
        () if error.is_batch() => "batch",
        () if error.is_layout() => "layout",
        () if error.is_mismatch() => "mismatch",
        () => "other",
    }
}

/// The result, or the text of the panic.
type Caught<T> = std::result::Result<Result<T>, String>;
