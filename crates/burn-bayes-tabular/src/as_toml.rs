//! Values stored as TOML text within JSON. TOML reads numbers back exactly, which `serde_json` guarantees
//! only with its feature `float_roundtrip`.

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<T: Serialize, S: Serializer>(
    value: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = toml::to_string(value).map_err(S::Error::custom)?;
    serializer.serialize_str(&text)
}

pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    toml::from_str(&text).map_err(D::Error::custom)
}
