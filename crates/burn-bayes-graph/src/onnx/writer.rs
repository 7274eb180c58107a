//! Collects the nodes and constants of a graph, and names their results.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};

use burn::tensor::TensorData;

use super::dims::Dim;
use super::message::{
    Attribute, AttributeType, Graph, Kind, Node, TensorMessage, TensorShape, TensorType, ValueInfo,
    ValueType,
};

/// A graph that is being written.
///
/// A node is identified by its operator, its operands and its settings: an equal one is not added again, and neither is an
/// equal constant.
#[derive(Debug, Default)]
pub(super) struct GraphWriter {
    graph: Graph,
    known_nodes: HashMap<Vec<u8>, String>,
    /// The places of the tensors with values, by a hash of these.
    known_values: HashMap<u64, Vec<usize>>,
    names: BTreeSet<String>,
}

impl GraphWriter {
    /// Adds a node with one result. Returns the name of the result.
    pub(super) fn node(
        &mut self,
        operator: &str,
        operands: &[&str],
        settings: Vec<Attribute>,
    ) -> String {
        use prost::Message;
        let mut node = Node {
            input: operands.iter().map(|&name| name.to_owned()).collect(),
            op_type: operator.to_owned(),
            attribute: settings,
            output: Vec::new(),
        };
        let key = node.encode_to_vec();
        if let Some(known) = self.known_nodes.get(&key) {
            return known.clone();
        }
        let name = self.unused(operator);
        node.output.push(name.clone());
        self.graph.node.push(node);
        self.known_nodes.insert(key, name.clone());
        name
    }

    /// A constant of numbers.
    pub(super) fn numbers(&mut self, shape: &[usize], values: &[f32]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.constant(Kind::Float, shape, bytes.collect())
    }

    /// A constant of integers.
    pub(super) fn integers(&mut self, shape: &[usize], values: &[i64]) -> String {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        self.constant(Kind::Integer, shape, bytes.collect())
    }

    /// A vector of integers.
    pub(super) fn vector(&mut self, values: &[i64]) -> String {
        self.integers(&[values.len()], values)
    }

    /// A constant with the elements of a tensor.
    pub(super) fn data(&mut self, shape: &[usize], data: &TensorData) -> String {
        self.constant(kind_of(data.dtype()), shape, raw(data))
    }

    /// Weights, under this name if no other tensor has it.
    pub(super) fn weights(&mut self, name: &str, shape: &[usize], parts: &[&TensorData]) -> String {
        let kind = parts
            .first()
            .map_or(Kind::Float, |part| kind_of(part.dtype()));
        let bytes = parts.iter().flat_map(|part| raw(part)).collect();
        self.initializer(name, kind, shape, bytes)
    }

    fn constant(&mut self, kind: Kind, shape: &[usize], bytes: Vec<u8>) -> String {
        self.initializer("constant", kind, shape, bytes)
    }

    /// The name of a tensor with these values: the given one if it is new and no other tensor has it.
    fn initializer(&mut self, name: &str, kind: Kind, shape: &[usize], bytes: Vec<u8>) -> String {
        let dims: Vec<_> = shape.iter().map(|&len| len as i64).collect();
        let mut hasher = DefaultHasher::new();
        (kind, &dims, &bytes).hash(&mut hasher);
        let places = self.known_values.entry(hasher.finish()).or_default();
        let known = places.iter().map(|&place| &self.graph.initializer[place]);
        let known = known.into_iter().find(|known| {
            known.data_type == kind as i32 && known.dims == dims && known.raw_data == bytes
        });
        if let Some(known) = known {
            return known.name.clone();
        }
        places.push(self.graph.initializer.len());
        let name = self.own(name);
        self.graph.initializer.push(TensorMessage {
            dims,
            data_type: kind as i32,
            name: name.clone(),
            raw_data: bytes,
        });
        name
    }

    /// Adds an input of the whole graph.
    pub(super) fn input(&mut self, name: &str, kind: Kind, dims: &[Dim]) -> String {
        let name = self.own(name);
        self.graph.input.push(value_info(&name, kind, dims));
        name
    }

    /// Makes a tensor an output of the whole graph under another name. Fails if the name is in use.
    pub(super) fn output(
        &mut self,
        name: &str,
        tensor: &str,
        kind: Kind,
        dims: &[Dim],
    ) -> Result<(), String> {
        if !self.names.insert(name.to_owned()) {
            return Err(format!("the graph has two tensors with the name {name}"));
        }
        self.graph.node.push(Node {
            input: vec![tensor.to_owned()],
            output: vec![name.to_owned()],
            op_type: "Identity".into(),
            attribute: Vec::new(),
        });
        self.graph.output.push(value_info(name, kind, dims));
        Ok(())
    }

    /// The name, or with a number after it if another tensor has it.
    fn own(&mut self, name: &str) -> String {
        match self.names.insert(name.to_owned()) {
            true => name.to_owned(),
            false => self.unused(name),
        }
    }

    fn unused(&mut self, word: &str) -> String {
        let first = self.names.len();
        let mut numbers = first..;
        let name = numbers.find_map(|number| {
            let name = format!("{word}_{number}");
            self.names.insert(name.clone()).then_some(name)
        });
        name.expect("there are more numbers than names")
    }

    /// The finished graph, without constants that no node reads.
    pub(super) fn into_graph(self) -> Graph {
        let Self { mut graph, .. } = self;
        let operands = graph.node.iter().flat_map(|node| &node.input);
        let read: BTreeSet<&String> = operands.collect();
        graph
            .initializer
            .retain(|tensor| read.contains(&tensor.name));
        Graph {
            name: "model".into(),
            ..graph
        }
    }
}

fn value_info(name: &str, kind: Kind, dims: &[Dim]) -> ValueInfo {
    let shape = TensorShape {
        dim: dims.iter().map(|dim| dim.message()).collect(),
    };
    ValueInfo {
        name: name.to_owned(),
        r#type: Some(ValueType {
            tensor_type: Some(TensorType {
                elem_type: kind as i32,
                shape: Some(shape),
            }),
        }),
    }
}

/// The element type in files.
pub(super) fn kind_of(dtype: burn::tensor::DType) -> Kind {
    if dtype.is_float() {
        Kind::Float
    } else if dtype.is_bool() {
        Kind::Boolean
    } else {
        Kind::Integer
    }
}

/// The elements as files have them.
fn raw(data: &TensorData) -> Vec<u8> {
    match kind_of(data.dtype()) {
        Kind::Float => data.iter::<f32>().flat_map(f32::to_le_bytes).collect(),
        Kind::Integer => data.iter::<i64>().flat_map(i64::to_le_bytes).collect(),
        Kind::Boolean => data.iter::<bool>().map(u8::from).collect(),
    }
}

/// A setting that is an integer.
pub(super) fn integer(name: &str, value: usize) -> Attribute {
    Attribute {
        i: Some(value as i64),
        ..setting(name, AttributeType::Integer)
    }
}

/// A setting that is a list of integers.
pub(super) fn integers(name: &str, values: impl IntoIterator<Item = usize>) -> Attribute {
    Attribute {
        ints: values.into_iter().map(|value| value as i64).collect(),
        ..setting(name, AttributeType::Integers)
    }
}

/// A setting that is a number.
pub(super) fn number(name: &str, value: f32) -> Attribute {
    Attribute {
        f: Some(value),
        ..setting(name, AttributeType::Float)
    }
}

/// The element type to which a `Cast` converts.
pub(super) fn cast_to(kind: Kind) -> Attribute {
    integer("to", kind as usize)
}

fn setting(name: &str, of: AttributeType) -> Attribute {
    Attribute {
        name: name.to_owned(),
        r#type: of as i32,
        ..Attribute::default()
    }
}
