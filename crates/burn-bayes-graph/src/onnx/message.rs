//! The messages of the ONNX format, as far as files of this crate have them.
//!
//! ONNX is a protocol buffer (<https://github.com/onnx/onnx/blob/main/onnx/onnx.proto>). The numbers of the fields are those of
//! that file; fields that are left out are optional there.

use prost::{Message, Oneof};

/// A file.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Model {
    /// The version of the format itself.
    #[prost(int64, tag = "1")]
    pub(crate) ir_version: i64,
    /// The program that wrote it.
    #[prost(string, tag = "2")]
    pub(crate) producer_name: String,
    /// The version of that program.
    #[prost(string, tag = "3")]
    pub(crate) producer_version: String,
    /// The computation.
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<Graph>,
    /// The versions of the operators that it uses.
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSet>,
    /// Anything else.
    #[prost(message, repeated, tag = "14")]
    pub(crate) metadata_props: Vec<Entry>,
}

/// A version of the operators of a domain; that of ONNX itself is empty.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorSet {
    /// The domain.
    #[prost(string, tag = "1")]
    pub(crate) domain: String,
    /// The version.
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
}

/// A key with a value.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Entry {
    /// The key.
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// A computation: nodes in an order in which they can be evaluated.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Graph {
    /// The nodes.
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<Node>,
    /// The name, which must not be empty.
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    /// Tensors with values.
    #[prost(message, repeated, tag = "5")]
    pub(crate) initializer: Vec<TensorMessage>,
    /// What is given.
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfo>,
    /// What is computed.
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfo>,
}

/// An operator with its operands and results, which are named.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Node {
    /// The operands.
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    /// The results.
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    /// The operator.
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    /// Its settings.
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<Attribute>,
}

/// A setting of a node, with a value of one type.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Attribute {
    /// The name.
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// A number.
    #[prost(float, optional, tag = "2")]
    pub(crate) f: Option<f32>,
    /// An integer.
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    /// Integers.
    #[prost(int64, repeated, packed = "false", tag = "8")]
    pub(crate) ints: Vec<i64>,
    /// Which of them it is, see [`AttributeType`].
    #[prost(int32, tag = "20")]
    pub(crate) r#type: i32,
}

/// The types of settings, with their numbers in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttributeType {
    /// A number.
    Float = 1,
    /// An integer.
    Integer = 2,
    /// Integers.
    Integers = 7,
}

/// A tensor with values.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorMessage {
    /// The shape.
    #[prost(int64, repeated, packed = "false", tag = "1")]
    pub(crate) dims: Vec<i64>,
    /// The element type, see [`Kind`].
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    /// The name.
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    /// The elements in row-major order, each with its lowest byte first.
    #[prost(bytes = "vec", tag = "9")]
    pub(crate) raw_data: Vec<u8>,
}

/// The element types that files of this crate have, with their numbers in the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// `f32`
    Float = 1,
    /// `i64`
    Integer = 7,
    /// One byte.
    Boolean = 9,
}

/// The name and the type of an input or output.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfo {
    /// The name.
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    /// The type.
    #[prost(message, optional, tag = "2")]
    pub(crate) r#type: Option<ValueType>,
}

/// The type of a value, here always a tensor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueType {
    /// The type of the tensor.
    #[prost(message, optional, tag = "1")]
    pub(crate) tensor_type: Option<TensorType>,
}

/// The type of a tensor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorType {
    /// The element type, see [`Kind`].
    #[prost(int32, tag = "1")]
    pub(crate) elem_type: i32,
    /// The shape.
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<TensorShape>,
}

/// The shape of a tensor.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShape {
    /// The lengths of the axes.
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<Dimension>,
}

/// The length of an axis.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    /// The length, or its name.
    #[prost(oneof = "Length", tags = "1, 2")]
    pub(crate) length: Option<Length>,
}

/// The length of an axis, or its name.
#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum Length {
    /// A known length.
    #[prost(int64, tag = "1")]
    Value(i64),
    /// A length that inputs decide.
    #[prost(string, tag = "2")]
    Name(String),
}
