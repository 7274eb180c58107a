//! The path of a parameter while a module is visited.

/// The names of the modules on the way to the current parameter, such as `layer2.weight`.
///
/// A [`ModuleVisitor`](burn::module::ModuleVisitor) passes on to it what it is told about entering
/// and leaving modules.
#[derive(Clone, Debug, Default)]
pub struct ModulePath {
    joined: String,
    ends: Vec<usize>,
}

impl ModulePath {
    /// Goes into the field or element of this name.
    pub fn enter(&mut self, name: &str) {
        self.ends.push(self.joined.len());
        if !self.joined.is_empty() {
            self.joined.push('.');
        }
        self.joined.push_str(name);
    }

    /// Leaves what was entered last.
    pub fn exit(&mut self) {
        let end = self.ends.pop().unwrap_or(0);
        self.joined.truncate(end);
    }

    /// The names, joined by dots.
    pub fn as_str(&self) -> &str {
        &self.joined
    }
}

/// The methods of a visitor or mapper of modules that keep the path in its field of this name; with
/// `container_type`, the field is told the types of the containers too. Internal; not covered by
/// semver.
#[doc(hidden)]
#[macro_export]
macro_rules! track_path {
    ($path:tt) => {
        fn enter_module(&mut self, name: &str, _container_type: &str) {
            self.$path.enter(name);
        }

        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.$path.exit();
        }
    };
    ($path:tt, container_type) => {
        fn enter_module(&mut self, name: &str, container_type: &str) {
            self.$path.enter(name, container_type);
        }

        fn exit_module(&mut self, _name: &str, _container_type: &str) {
            self.$path.exit();
        }
    };
}
