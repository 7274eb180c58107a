//! The dropout layers of a module, each of which a flag switches.

use burn::module::{Flag, Module, ModuleMapper, ModuleVisitor, Param};

/// The module with all of them switched.
pub(crate) fn switched<M: Module>(module: M, on: bool) -> M {
    module.map(&mut Switch {
        on,
        place: Place::default(),
    })
}

/// Whether one of them is on.
pub(crate) fn is_on<M: Module>(module: &M) -> bool {
    let mut search = Search::default();
    module.visit(&mut search);
    search.found
}

/// Which layers a walk through a module is in.
#[derive(Default)]
struct Place(Vec<bool>);

impl Place {
    fn enter(&mut self, container_type: &str) {
        self.0.push(container_type.ends_with("Dropout"));
    }

    fn exit(&mut self) {
        self.0.pop();
    }

    fn is_dropout(&self) -> bool {
        self.0.last() == Some(&true)
    }
}

struct Switch {
    on: bool,
    place: Place,
}

impl ModuleMapper for Switch {
    fn enter_module(&mut self, _name: &str, container_type: &str) {
        self.place.enter(container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.place.exit();
    }

    fn map_flag(&mut self, flag: Param<Flag>) -> Param<Flag> {
        if self.place.is_dropout() {
            flag.with_value(self.on)
        } else {
            flag
        }
    }
}

#[derive(Default)]
struct Search {
    place: Place,
    found: bool,
}

impl ModuleVisitor for Search {
    fn enter_module(&mut self, _name: &str, container_type: &str) {
        self.place.enter(container_type);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.place.exit();
    }

    fn visit_flag(&mut self, flag: &Param<Flag>) {
        self.found |= self.place.is_dropout() && flag.val().is_enabled();
    }
}
