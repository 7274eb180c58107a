//! A mixture of posteriors, for example a deep ensemble.
//!
//! A saved mixture is a folder with `mixture.json`, which holds the mixture weights and a checksum of itself, and one
//! file per component. The folder is written under a temporary name of its own and renamed when it is complete.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use burn::module::Module;
use burn::tensor::{Device, Tensor};
use burn_bayes_eval::Bounded;
use burn_bayes_graph::Layout;
use serde::{Deserialize, Serialize};

use super::storage::{
    CHANGED, FORMAT_VERSION, NO_CHECKSUM, damaged, is_sealed, seal, sync_folder, unreadable,
    unwritable, write_whole,
};
use super::{FactorPosterior, ModelState, Posterior, Sampler, expect_layout};
use crate::error::{Error, Result};
use crate::noise::Noise;

/// Σ_m w_m q_m over the same weights.
///
/// A draw first picks a component and then draws from it. The rows of one noise pick components in proportion to their
/// weights: M rows of a mixture of M equal weights contain each component once, so that a prediction misses none. The
/// components are in memory, or [on disk](Self::open) and read on demand. Every component has its own [state of the
/// model](ModelState), such as the running statistics of batch norm, with which a [`Predictor`](crate::Predictor)
/// evaluates its draws.
#[derive(Clone, Debug)]
pub struct Mixture<P = FactorPosterior> {
    layout: Arc<Layout>,
    components: Components<P>,
    weights: Vec<f64>,
}

#[derive(Clone, Debug)]
enum Components<P> {
    InMemory(Vec<P>),
    OnDisk {
        files: Vec<PathBuf>,
        device: Device,
        /// That of the first file.
        first_state: Box<ModelState>,
        /// The states that replace those of the files.
        states: Vec<Option<ModelState>>,
        /// The component that was read last, and its index.
        last: Arc<Mutex<Option<(usize, P)>>>,
    },
}

impl<P: Posterior> Mixture<P> {
    /// A mixture with the given weights, which are normalised to sum to one.
    pub fn new(components: Vec<P>, weights: Vec<f64>) -> Result<Self> {
        let Some(first) = components.first() else {
            return Err(Error::config(
                "components",
                "a mixture needs at least one posterior",
            ));
        };
        let layout = first.layout().clone();
        let any = Noise::new(0);
        let state = first.state(any)?;
        for component in &components[1..] {
            expect_layout(&layout, component.layout())?;
            state.expect_same_model(&component.state(any)?)?;
        }
        Ok(Self {
            weights: normalised(weights, components.len())?,
            components: Components::InMemory(components),
            layout,
        })
    }

    /// A mixture with equal weights.
    pub fn uniform(components: Vec<P>) -> Result<Self> {
        let weights = vec![1.0; components.len()];
        Self::new(components, weights)
    }

    /// Opens a saved mixture and keeps at most one component in memory: components are read on
    /// demand, so the files must not be moved.
    ///
    /// [`draws`](Sampler::draws) reads every component at most once per call.
    pub fn open(folder: &Path, device: &Device) -> Result<Self> {
        let index = Index::read(folder)?;
        let files: Vec<_> = index
            .components
            .iter()
            .map(|name| folder.join(name))
            .collect();
        let weights = normalised(index.weights, files.len())?;
        let Some(first) = files.first() else {
            return Err(damaged(folder, "it has no components"));
        };
        let first = P::load(first, device)?;
        Ok(Self {
            layout: first.layout().clone(),
            components: Components::OnDisk {
                first_state: first.state(Noise::new(0))?.into(),
                states: vec![None; files.len()],
                files,
                device: device.clone(),
                last: Arc::new(Mutex::new(Some((0, first)))),
            },
            weights,
        })
    }

    /// The weights of the components, which sum to one.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// A component, read from its file if it is on disk.
    ///
    /// # Errors
    ///
    /// If there is no component of this number, counted from 0, or it cannot be read.
    pub fn component(&self, index: usize) -> Result<P> {
        let count = self.weights.len();
        if index >= count {
            let problem = format!("is {index}; the mixture has {count} components, from 0");
            return Err(Error::config("component", problem));
        }
        match &self.components {
            Components::InMemory(components) => Ok(components[index].clone()),
            Components::OnDisk {
                files,
                device,
                first_state,
                states,
                last,
            } => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                let component = match last.take() {
                    Some((known, component)) if known == index => component,
                    _ => P::load(&files[index], device)?,
                };
                expect_layout(&self.layout, component.layout())?;
                *last = Some((index, component.clone()));
                match &states[index] {
                    Some(state) => Ok(component.with_state(state.clone())),
                    None => {
                        first_state.expect_same_model(&component.state(Noise::new(0))?)?;
                        Ok(component)
                    }
                }
            }
        }
    }

    /// The components with their weights, one after the other.
    fn components(&self) -> impl Iterator<Item = Result<(f64, P)>> {
        let weights = self.weights.iter().enumerate();
        weights.map(|(index, &weight)| Ok((weight, self.component(index)?)))
    }

    /// A draw of all weights, `[D]`.
    pub fn draw(&self, noise: Noise) -> Result<Tensor<1>> {
        let (index, noise) = self.pick(noise);
        self.component(index)?.sampler()?.draw(noise)
    }

    /// The model with a draw as its weights, and with the state of the draw's component.
    ///
    /// # Errors
    ///
    /// Those of [`Posterior::write_mean`].
    pub fn write_draw<M: Module>(&self, model: M, noise: Noise) -> Result<M> {
        let model = self.state(noise)?.restore(model, &self.layout)?;
        Ok(self.layout.write(model, self.draw(noise)?)?)
    }

    /// The component that the noise selects, by inversion of the cumulative weights, and the noise with which it draws.
    fn pick(&self, noise: Noise) -> (usize, Noise) {
        let used = self.weights.iter().filter(|weight| **weight > 0.0);
        let largest = used.clone().copied().fold(0.0, f64::at_least);
        let are_equal = used.clone().all(|weight| largest - weight < EQUAL);
        let used = used.count();
        let mut rest = noise.stratified(used);
        let selected = self.weights.iter().position(|&weight| {
            let is_within = rest < weight;
            rest -= weight;
            is_within
        });
        // After rounding of the sum: the last component with non-zero weight.
        let last = || self.weights.iter().rposition(|&weight| weight > 0.0);
        let selected = selected.or_else(last).unwrap_or(0);
        (selected, noise.of_chosen(are_equal.then_some(used)))
    }

    /// Writes the files of an empty folder.
    fn save_into(&self, folder: &Path) -> Result<()> {
        let names: Vec<_> = (0..self.weights.len())
            .map(|index| format!("component-{index}.bpk"))
            .collect();
        for (index, name) in names.iter().enumerate() {
            self.component(index)?.save(&folder.join(name))?;
        }
        let index = Index {
            format_version: FORMAT_VERSION,
            weights: self.weights.clone(),
            components: names,
            checksum: NO_CHECKSUM.into(),
        };
        let file = folder.join(INDEX);
        let text = serde_json::to_vec_pretty(&index);
        let mut text = text.map_err(|error| unwritable(&file, error))?;
        seal(&mut text);
        write_whole(&file, &text)?;
        sync_folder(folder);
        Ok(())
    }
}

impl Mixture<FactorPosterior> {
    /// log Σ_m w_m q_m(θ), in nats.
    pub fn log_density(&self, weights: &Tensor<1>) -> Result<f64> {
        let terms = self
            .weights
            .iter()
            .enumerate()
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(index, weight)| Ok(weight.ln() + self.component(index)?.log_density(weights)?))
            .collect::<Result<Vec<f64>>>()?;
        if terms.iter().any(|term| term.is_nan()) {
            return Ok(f64::NAN);
        }
        let largest = terms.iter().copied().fold(f64::NEG_INFINITY, f64::at_least);
        if largest.is_infinite() {
            return Ok(largest);
        }
        Ok(largest
            + terms
                .iter()
                .map(|term| (term - largest).exp())
                .sum::<f64>()
                .ln())
    }
}

impl<P: Posterior> Posterior for Mixture<P> {
    fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    fn sampler(&self) -> Result<Box<dyn Sampler>> {
        let samplers = match &self.components {
            Components::InMemory(components) => {
                components.iter().map(|_| OnceLock::new()).collect()
            }
            Components::OnDisk { .. } => Vec::new(),
        };
        Ok(Box::new(MixtureSampler {
            mixture: self.clone(),
            samplers,
        }))
    }

    fn mean_weights(&self) -> Result<Tensor<1>> {
        let mut mean = None;
        for component in self.components() {
            let (weight, component) = component?;
            let share = component.mean_weights()?.mul_scalar(weight);
            mean = Some(match mean {
                None => share,
                Some(sum) => sum + share,
            });
        }
        Ok(mean.expect("a mixture has a component"))
    }

    fn state(&self, noise: Noise) -> Result<ModelState> {
        let (index, noise) = self.pick(noise);
        self.component(index)?.state(noise)
    }

    fn shared_state(&self) -> Option<ModelState> {
        match &self.components {
            Components::InMemory(components) => {
                let mut states = components.iter().map(P::shared_state);
                let first = states.next()??;
                let is_same = |state: Option<ModelState>| state.is_some_and(|s| s.is_same(&first));
                states.all(is_same).then_some(first)
            }
            // Without values, the state of one is that of all: a component of another model is refused.
            Components::OnDisk { .. } => {
                let first = self.component(0).ok()?.shared_state()?;
                first.has_no_values().then_some(first)
            }
        }
    }

    fn mean_state(&self) -> Result<ModelState> {
        if let Some(state) = self.shared_state() {
            return Ok(state);
        }
        let states = self.components().map(|component| {
            let (weight, component) = component?;
            Ok((weight, component.mean_state()?))
        });
        Ok(ModelState::average(&states.collect::<Result<Vec<_>>>()?))
    }

    fn with_state(mut self, state: ModelState) -> Self {
        match &mut self.components {
            Components::InMemory(components) => {
                for component in components {
                    *component = component.clone().with_state(state.clone());
                }
            }
            Components::OnDisk { states, .. } => states.fill(Some(state)),
        }
        self
    }

    fn map_states<M: Module>(
        self,
        model: &M,
        change: &mut dyn FnMut(M) -> Result<M>,
    ) -> Result<Self> {
        let components = match self.components {
            Components::InMemory(components) => {
                let components = components.into_iter();
                let components = components.map(|component| component.map_states(model, change));
                Components::InMemory(components.collect::<Result<_>>()?)
            }
            Components::OnDisk { .. } => {
                let changed = self.components().map(|component| {
                    let (_, component) = component?;
                    let state = component.map_states(model, change)?.shared_state();
                    match state {
                        Some(state) => Ok(Some(state)),
                        None => Err(Error::config(
                            "posterior",
                            "is a mixture of mixtures on disk; `load` it instead of `open`",
                        )),
                    }
                });
                let changed = changed.collect::<Result<_>>()?;
                let mut components = self.components;
                if let Components::OnDisk { states, .. } = &mut components {
                    *states = changed;
                }
                components
            }
        };
        Ok(Self { components, ..self })
    }

    /// Saves a folder. An earlier mixture at this path is replaced; any other file or folder is an
    /// error. If several threads save at one path, the last of them replaces the others.
    fn save(&self, folder: &Path) -> Result<()> {
        // Without a separator at its end, after which a name beside it would be one inside of it.
        let folder = &folder.components().collect::<PathBuf>();
        is_mixture(folder)?;
        let [new, old] = temporary(folder)?;
        let replaced = self
            .save_into(&new)
            .and_then(|()| replace(folder, &new, &old));
        if let Some(parent) = folder.parent() {
            sync_folder(parent);
        }
        // An error of the clean-up is ignored, so that the first error is reported.
        let _ = match &replaced {
            Ok(true) => fs::remove_dir_all(&old),
            Ok(false) => Ok(()),
            Err(_) => fs::remove_dir_all(&new),
        };
        replaced.map(|_| ())
    }

    fn load(folder: &Path, device: &Device) -> Result<Self> {
        let index = Index::read(folder)?;
        let components = index
            .components
            .iter()
            .map(|name| P::load(&folder.join(name), device));
        Self::new(components.collect::<Result<_>>()?, index.weights)
    }
}

/// Picks a component for each draw.
#[derive(Debug)]
struct MixtureSampler<P> {
    mixture: Mixture<P>,
    /// Samplers of the components in memory, each created on first use.
    samplers: Vec<OnceLock<Box<dyn Sampler>>>,
}

impl<P: Posterior> MixtureSampler<P> {
    /// Draws from one component.
    fn component_draws(&self, index: usize, noises: &[Noise]) -> Result<Vec<Tensor<1>>> {
        let draws =
            |sampler: &dyn Sampler| noises.iter().map(|&noise| sampler.draw(noise)).collect();
        let Some(kept) = self.samplers.get(index) else {
            return draws(&*self.mixture.component(index)?.sampler()?);
        };
        if let Some(sampler) = kept.get() {
            return draws(&**sampler);
        }
        let sampler = self.mixture.component(index)?.sampler()?;
        draws(&**kept.get_or_init(|| sampler))
    }
}

impl<P: Posterior> Sampler for MixtureSampler<P> {
    fn draw(&self, noise: Noise) -> Result<Tensor<1>> {
        let (component, noise) = self.mixture.pick(noise);
        let mut draws = self.component_draws(component, &[noise])?;
        Ok(draws.swap_remove(0))
    }

    fn draws(&self, noise: Noise, count: usize) -> Result<Tensor<2>> {
        let rows = 0..count as u64;
        let picks: Vec<_> = rows.map(|row| self.mixture.pick(noise.row(row))).collect();
        let mut draws = vec![None; count];
        // One component at a time, so that each is read once.
        for component in 0..self.mixture.weights.len() {
            let rows = (0..count).filter(|&row| picks[row].0 == component);
            let (rows, noises): (Vec<_>, Vec<_>) = rows.map(|row| (row, picks[row].1)).unzip();
            if rows.is_empty() {
                continue;
            }
            let own = self.component_draws(component, &noises)?;
            for (row, draw) in rows.into_iter().zip(own) {
                draws[row] = Some(draw);
            }
        }
        let draws = draws.into_iter().flatten().collect();
        Ok(Tensor::stack(draws, 0))
    }
}

/// Weights that differ by less are equal up to rounding.
const EQUAL: f64 = 1e-12;

/// The index file of a saved mixture.
const INDEX: &str = "mixture.json";

#[derive(Serialize, Deserialize)]
struct Index {
    format_version: u32,
    weights: Vec<f64>,
    components: Vec<String>,
    /// As that of the components' files.
    checksum: String,
}

impl Index {
    fn read(folder: &Path) -> Result<Self> {
        let file = folder.join(INDEX);
        let text = fs::read(&file).map_err(|error| unreadable(&file, error))?;
        let index: Self = serde_json::from_slice(&text).map_err(|error| damaged(&file, error))?;
        if index.format_version != FORMAT_VERSION {
            return Err(damaged(
                &file,
                format!(
                    "it has format version {}, but this program reads version {FORMAT_VERSION}",
                    index.format_version
                ),
            ));
        }
        if !is_sealed(&text, &index.checksum) {
            return Err(damaged(&file, CHANGED));
        }
        let is_outside = |name: &&String| Path::new(name).file_name() != Some(name.as_ref());
        if let Some(name) = index.components.iter().find(is_outside) {
            return Err(damaged(
                &file,
                format!("`{name}` is not a file of the folder"),
            ));
        }
        Ok(index)
    }
}

/// Whether there is a mixture at this path, which a new one may replace; fails if there is something else.
fn is_mixture(folder: &Path) -> Result<bool> {
    let exists = folder.exists();
    if exists && !folder.join(INDEX).is_file() {
        return Err(unwritable(folder, "it exists and is not a mixture"));
    }
    Ok(exists)
}

/// An empty folder beside this one, made for one call, and a name to which an earlier mixture can be moved.
fn temporary(folder: &Path) -> Result<[PathBuf; 2]> {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    loop {
        let call = CALLS.fetch_add(1, Ordering::Relaxed);
        let [new, old] = ["part", "old"].map(|end| {
            let mut beside = folder.as_os_str().to_owned();
            beside.push(format!(".{}.{call}.{end}", std::process::id()));
            PathBuf::from(beside)
        });
        // A process that was killed, and had the same number, may have left either.
        if old.exists() {
            continue;
        }
        match fs::create_dir(&new) {
            Ok(()) => return Ok([new, old]),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(unwritable(folder, error)),
        }
    }
}

/// Moves `new` to `folder`. Returns whether there was a mixture, which is then at `old`.
fn replace(folder: &Path, new: &Path, old: &Path) -> Result<bool> {
    // Between the two steps of another thread there is no folder.
    static RENAMING: Mutex<()> = Mutex::new(());
    let _guard = RENAMING.lock().unwrap_or_else(PoisonError::into_inner);
    let is_replaced = is_mixture(folder)?;
    if is_replaced {
        fs::rename(folder, old).map_err(|error| unwritable(folder, error))?;
    }
    let renamed = fs::rename(new, folder);
    if renamed.is_err() && is_replaced {
        let _ = fs::rename(old, folder);
    }
    renamed.map_err(|error| unwritable(folder, error))?;
    Ok(is_replaced)
}

/// Checks the weights, one per component, and normalises them to sum to one.
fn normalised(weights: Vec<f64>, components: usize) -> Result<Vec<f64>> {
    let sum: f64 = weights.iter().sum();
    let usable = weights
        .iter()
        .all(|weight| weight.is_finite() && *weight >= 0.0);
    if weights.len() != components || !usable || sum <= 0.0 {
        return Err(Error::config(
            "weights",
            format!(
                "{weights:?} for {components} posteriors; each needs one finite weight that is not \
                 negative, and not all may be zero"
            ),
        ));
    }
    Ok(weights.into_iter().map(|weight| weight / sum).collect())
}
