//! Settings within JSON, as TOML: that is read back to the last bit of every number, which `serde_json`
//! promises with a feature alone that we do not ask for.

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(crate) fn serialize<T: Serialize, S: Serializer>(
    settings: &T,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let text = toml::to_string(settings).map_err(S::Error::custom)?;
    serializer.serialize_str(&text)
}

pub(crate) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    toml::from_str(&text).map_err(D::Error::custom)
}
