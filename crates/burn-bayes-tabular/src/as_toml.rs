//! Numbers within JSON, as a text of TOML: that is read back to the last bit of every number, which
//! `serde_json` promises with its feature `float_roundtrip` alone.

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
