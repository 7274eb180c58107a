//! The layers that act otherwise in training than in inference. A flag of each switches it.

use std::fmt;

use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param};

/// A kind of layer that acts otherwise in training than in inference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TrainingLayer {
    Dropout,
    BatchNorm,
}

impl TrainingLayer {
    fn of(container_type: &str) -> Option<Self> {
        if container_type.ends_with("Dropout") {
            Some(Self::Dropout)
        } else if container_type == "Struct:BatchNorm" {
            Some(Self::BatchNorm)
        } else {
            None
        }
    }
}

impl fmt::Display for TrainingLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Dropout => "dropout",
            Self::BatchNorm => "batch norm by a batch's own statistics",
        })
    }
}

/// The module with all its dropout switched.
pub(crate) fn with_dropout<M: Module>(module: M, on: bool) -> M {
    module.map(&mut SwitchDropout {
        on,
        place: Place::default(),
    })
}

/// A kind of which some layer is on.
pub(crate) fn switched_on<M: Module>(module: &M) -> Option<TrainingLayer> {
    let mut search = Search::default();
    module.visit(&mut search);
    search.found
}

/// Which layers a walk through a module is in.
#[derive(Default)]
struct Place(Vec<Option<TrainingLayer>>);

impl Place {
    fn enter(&mut self, container_type: &str) {
        self.0.push(TrainingLayer::of(container_type));
    }

    fn exit(&mut self) {
        self.0.pop();
    }

    fn layer(&self) -> Option<TrainingLayer> {
        self.0.last().copied().flatten()
    }
}

struct SwitchDropout {
    on: bool,
    place: Place,
}

impl ModuleMapper for SwitchDropout {
    fn enter_module(&mut self, _name: &str, container_type: &str) {
        self.place.enter(container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.place.exit();
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        if self.place.layer() == Some(TrainingLayer::Dropout) {
            flag.with_value(self.on)
        } else {
            flag
        }
    }
}

#[derive(Default)]
struct Search {
    place: Place,
    found: Option<TrainingLayer>,
}

impl ModuleVisitor for Search {
    fn enter_module(&mut self, _name: &str, container_type: &str) {
        self.place.enter(container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.place.exit();
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        if flag.val().is_enabled() {
            self.found = self.found.or(self.place.layer());
        }
    }
}
