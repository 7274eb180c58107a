//! Which parameters of a module lie where in the flat vector of weights.
//!
//! A [`Layout`] lists the trainable float parameters of a module that a Burn
//! [`ParamGroup`] selects, in the order in which the module visits them. Everything else stays a
//! point estimate: parameters outside the group, frozen ones, integer and boolean ones, and
//! running statistics such as those of batch norm.
//!
//! * A **tied** parameter (one `ParamId` reached by several paths) occupies its place once, under
//!   the first path; the draw is written to every path as one leaf, so its gradient is the sum.
//! * A **reparameterised** parameter (LoRA) contributes what is trained: its base when that
//!   requires gradients, and the parameters of the adapter under their own paths.
//! * A **lazy** parameter is initialised when the layout is made.
//!
//! Parameters are known by path, not by `ParamId`: ids change when a record is loaded.

mod visitors;

use std::collections::{HashMap, HashSet};
use std::fmt;

use burn::module::{Module, ParamGroup};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Kind, Result};
use crate::module_path::ModulePath;
use visitors::{
    FlattenVisitor, GradientVisitor, RegisterVisitor, ShapeVisitor, WriteMapper, Written, collect,
    paths,
};

/// Where one parameter lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayoutEntry {
    /// The path in the module, such as `layer2.weight`.
    pub path: String,
    /// The parameter's shape.
    pub shape: Vec<usize>,
    /// The place of its first element in the flat vector.
    pub offset: usize,
    /// Further paths that hold the same parameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tied: Vec<String>,
}

impl LayoutEntry {
    /// The number of weights.
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether the parameter has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The fan-in: the first dimension of a matrix (Burn's layout of linear layers), the product of all but the first
    /// dimension of a convolution, and the length of a vector.
    pub fn fan_in(&self) -> usize {
        match self.shape.as_slice() {
            [] => 1,
            [width] | [width, _] => (*width).max(1),
            [_, rest @ ..] => rest.iter().product::<usize>().max(1),
        }
    }
}

/// Which parameters lie where in the flat vector of weights.
///
/// ```
/// use burn::{module::ParamGroup, nn::LinearConfig, tensor::Device};
/// use burn_bayes_graph::Layout;
///
/// let layer = LinearConfig::new(3, 2).init(&Device::default().autodiff());
/// let layout = Layout::new(&layer, &ParamGroup::all())?;
/// assert_eq!(layout.len(), 8);
/// assert_eq!(layout.entry("bias").unwrap().offset, 6);
///
/// let flat = layout.flatten(&layer)?;
/// let layer = layout.write(layer, flat * 2.0)?;
/// # Ok::<(), burn_bayes_graph::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Layout {
    entries: Vec<LayoutEntry>,
    places: HashMap<String, usize>,
    len: usize,
}

impl PartialEq for Layout {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

impl Layout {
    /// The trainable parameters of `module` that belong to `group`.
    ///
    /// Fails when the group selects nothing that is trained, or a parameter without elements or with numbers of another type than
    /// f32.
    pub fn new<M: Module>(module: &M, group: &ParamGroup) -> Result<Self> {
        let mut entries = collect(module, group)?;
        if entries.is_empty() {
            // On a device without autodiff nothing requires gradients; `train` brings the flags back.
            entries = collect(&module.clone().train(), group)?;
        }
        if entries.is_empty() {
            return Err(Kind::Config {
                field: "group",
                problem: "selects no trainable float parameter of the model; check the paths it \
                          names and that they are not frozen"
                    .into(),
            }
            .into());
        }
        Ok(Self::from_entries(entries))
    }

    fn from_entries(entries: Vec<LayoutEntry>) -> Self {
        let len = entries.iter().map(LayoutEntry::len).sum();
        let mut places = HashMap::new();
        for (index, entry) in entries.iter().enumerate() {
            for path in paths(entry) {
                places.insert(path.clone(), index);
            }
        }
        Self {
            entries,
            places,
            len,
        }
    }

    /// The number of weights, D.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the layout holds no weights.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The parameters, in the order of the flat vector.
    pub fn entries(&self) -> &[LayoutEntry] {
        &self.entries
    }

    /// The parameter at `path`, which may be any of a tied parameter's paths.
    pub fn entry(&self, path: &str) -> Option<&LayoutEntry> {
        self.places.get(path).map(|&index| &self.entries[index])
    }

    /// The number of the parameter at this path among the [entries](Self::entries).
    pub fn index(&self, path: &str) -> Option<usize> {
        self.places.get(path).copied()
    }

    /// The path of the parameter that holds element `index` of the flat vector.
    pub fn path_at(&self, index: usize) -> Option<&str> {
        self.entries
            .iter()
            .find(|entry| (entry.offset..entry.offset + entry.len()).contains(&index))
            .map(|entry| entry.path.as_str())
    }

    /// Fails with [a readable difference](Self::difference) unless `module` has every parameter of
    /// this layout in its shape.
    pub fn check<M: Module>(&self, module: &M) -> Result<()> {
        let mut visitor = ShapeVisitor::default();
        module.visit(&mut visitor);
        let mut problems = Vec::new();
        for entry in &self.entries {
            for path in paths(entry) {
                match visitor.shapes.get(path) {
                    None => problems.push(format!("{path} is missing in the model")),
                    Some(shape) if *shape != entry.shape => problems.push(format!(
                        "{path} is {shape:?} in the model, {:?} in the posterior",
                        entry.shape
                    )),
                    Some(_) => {}
                }
            }
        }
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Error::layout(problems.join("; ")))
        }
    }

    /// How `self`, called the model, differs from `other`, called the posterior; `None` if equal.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self == other {
            return None;
        }
        let mut problems = Vec::new();
        for entry in &self.entries {
            match other.entry(&entry.path) {
                None => problems.push(format!("{} is missing in the posterior", entry.path)),
                Some(theirs) if theirs.shape != entry.shape => problems.push(format!(
                    "{} is {:?} in the model, {:?} in the posterior",
                    entry.path, entry.shape, theirs.shape
                )),
                Some(_) => {}
            }
        }
        for entry in &other.entries {
            if self.entry(&entry.path).is_none() {
                problems.push(format!("{} is missing in the model", entry.path));
            }
        }
        if problems.is_empty() {
            problems
                .push("the parameters are the same, but in another order or tied otherwise".into());
        }
        Some(problems.join("; "))
    }

    /// The module's weights as one flat vector, on the first parameter's device without autodiff.
    pub fn flatten<M: Module>(&self, module: &M) -> Result<Tensor<1>> {
        self.check(module)?;
        let mut visitor = FlattenVisitor {
            layout: self,
            path: ModulePath::default(),
            parts: self.empty_parts(),
        };
        module.visit(&mut visitor);
        let parts = self.complete(visitor.parts, "the model")?;
        // An optimiser that is sharded over devices leaves parameters on different ones.
        let device = parts[0].device();
        let parts = parts.into_iter().map(|part| part.to_device(&device));
        Ok(Tensor::cat(parts.collect(), 0))
    }

    /// The gradients as one flat vector; a parameter without one contributes zeros.
    ///
    /// `module` is the module that the gradients belong to: it links ids to paths.
    pub fn flatten_gradients<M: Module>(
        &self,
        module: &M,
        gradients: &mut GradientsParams,
    ) -> Result<Tensor<1>> {
        Ok(Tensor::cat(self.gradient_parts(module, gradients)?, 0))
    }

    /// The gradients as one flat piece per entry, in order, without joining them.
    pub fn gradient_parts<M: Module>(
        &self,
        module: &M,
        gradients: &mut GradientsParams,
    ) -> Result<Vec<Tensor<1>>> {
        let mut visitor = GradientVisitor {
            layout: self,
            path: ModulePath::default(),
            parts: self.empty_parts(),
            gradients,
            device: None,
        };
        module.visit(&mut visitor);
        let device = visitor
            .device
            .ok_or_else(|| Error::layout("the model has none of the posterior's parameters"))?;
        let parts = visitor
            .parts
            .into_iter()
            .zip(&self.entries)
            .map(|(part, entry)| part.or_else(|| Some(Tensor::zeros([entry.len()], &device))));
        self.complete(parts.collect(), "the gradients")
    }

    /// A flat gradient as gradients of the module's parameters, for an optimiser: the inverse of
    /// [`flatten_gradients`](Self::flatten_gradients).
    pub fn gradients<M: Module>(&self, module: &M, flat: Tensor<1>) -> GradientsParams {
        let mut visitor = RegisterVisitor {
            layout: self,
            path: ModulePath::default(),
            flat,
            gradients: GradientsParams::new(),
        };
        module.visit(&mut visitor);
        visitor.gradients
    }

    /// Writes a flat vector into the module as plain values: parameters keep their ids, and
    /// require gradients if they did.
    pub fn write<M: Module>(&self, module: M, flat: Tensor<1>) -> Result<M> {
        self.write_as(module, flat, Written::AsBefore)
    }

    /// Writes a flat vector into the module as autodiff leaves, whose gradients a backward pass
    /// fills, keeping the ids.
    pub fn write_leaves<M: Module>(&self, module: M, flat: Tensor<1>) -> Result<M> {
        self.write_as(module, flat, Written::Leaves)
    }

    fn write_as<M: Module>(&self, module: M, flat: Tensor<1>, written: Written) -> Result<M> {
        let [len] = flat.dims();
        if len != self.len {
            return Err(Error::layout(format!(
                "a vector of {len} weights was given, the layout holds {}",
                self.len
            )));
        }
        let mut mapper = WriteMapper {
            layout: self,
            path: ModulePath::default(),
            flat: flat.without_autodiff(),
            written,
            leaves: HashMap::new(),
            found: 0,
            problem: None,
        };
        let module = module.map(&mut mapper);
        let expected: usize = self.entries.iter().map(|entry| 1 + entry.tied.len()).sum();
        match mapper.problem {
            Some(problem) => Err(Error::layout(problem)),
            None if mapper.found != expected => {
                Err(self.check(&module).err().unwrap_or_else(|| {
                    Error::layout("the model visits a parameter of the posterior more than once")
                }))
            }
            None => Ok(module),
        }
    }

    fn empty_parts(&self) -> Vec<Option<Tensor<1>>> {
        self.entries.iter().map(|_| None).collect()
    }

    fn complete(&self, parts: Vec<Option<Tensor<1>>>, what: &str) -> Result<Vec<Tensor<1>>> {
        parts
            .into_iter()
            .zip(&self.entries)
            .map(|(part, entry)| {
                part.ok_or_else(|| Error::layout(format!("{} is missing in {what}", entry.path)))
            })
            .collect()
    }

    /// The layout as JSON: a list of path, shape and offset.
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.entries).expect("strings and integers serialise")
    }

    /// Reads [`to_json`](Self::to_json)'s form, with the checks of [`of_entries`](Self::of_entries).
    pub fn from_json(json: &str) -> Result<Self> {
        let entries: Vec<LayoutEntry> = serde_json::from_str(json)
            .map_err(|error| Error::storage(format!("the layout is not readable: {error}")))?;
        Self::of_entries(entries)
    }

    /// The layout with these entries. Refuses a layout without weights, a path that occurs twice, and offsets that do
    /// not follow one another.
    pub fn of_entries(entries: Vec<LayoutEntry>) -> Result<Self> {
        let mut offset = 0usize;
        let mut seen = HashSet::new();
        for entry in &entries {
            for path in paths(entry) {
                if !seen.insert(path) {
                    return Err(Error::storage(format!("the layout names {path} twice")));
                }
            }
            let len = entry
                .shape
                .iter()
                .try_fold(1usize, |len, &dim| len.checked_mul(dim));
            if entry.offset != offset {
                return Err(Error::storage(format!(
                    "the layout places {} at {}, where {offset} was expected",
                    entry.path, entry.offset
                )));
            }
            offset = len.and_then(|len| offset.checked_add(len)).ok_or_else(|| {
                Error::storage(format!("the layout's {} is too large", entry.path))
            })?;
        }
        if offset == 0 {
            return Err(Error::storage("the layout holds no weights"));
        }
        Ok(Self::from_entries(entries))
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            writeln!(f, "{:>10}  {} {:?}", entry.offset, entry.path, entry.shape)?;
        }
        write!(f, "{:>10}  weights", self.len)
    }
}
