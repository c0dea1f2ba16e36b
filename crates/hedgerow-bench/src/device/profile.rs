//! Profiles of devices: their text, and the file with the last measured one.

use std::path::PathBuf;

use hedgerow::advisor::Device;
use serde_json::{Map, Value, json};

/// The file with the last measured profile; `None` without a home directory.
pub fn kept() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let config = variable("XDG_CONFIG_HOME").map(PathBuf::from);
    let config = config.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".config")));
    Some(config?.join("hedgerow").join("device.json"))
}

/// Parses a profile: the name of the device, and any of the numbers. Missing numbers are an NVMe
/// drive's.
///
/// # Errors
/// A text that is no object, an unknown name, or a number that is not above 0.
pub fn parse(text: &str) -> Result<Device, String> {
    let profile: Map<String, Value> =
        serde_json::from_str(text).map_err(|e| format!("expected a JSON object, found {e}"))?;
    let mut device = Device::nvme();
    if let Some(Value::String(name)) = profile.get("name") {
        device.name.clone_from(name);
    }
    let mut numbers = device.numbers_mut();
    for (name, value) in profile.iter().filter(|(name, _)| *name != "name") {
        let Some((_, number)) = numbers.iter_mut().find(|(known, _)| known == name) else {
            let known = numbers.map(|(known, _)| known).join(", ");
            return Err(format!("expected name, {known}; found `{name}`"));
        };
        match value.as_f64() {
            Some(found) if found > 0.0 && found.is_finite() => **number = found,
            _ => {
                return Err(format!(
                    "expected a number above 0 for {name}, found {value}"
                ));
            }
        }
    }
    Ok(device)
}

/// The profile of a device as [`parse`] reads it.
pub fn to_json(device: &Device) -> Value {
    let mut device = device.clone();
    let mut object = Map::new();
    object.insert("name".to_owned(), json!(device.name));
    for (name, number) in device.numbers_mut() {
        object.insert(name.to_owned(), json!(*number));
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_is_written() {
        for name in Device::PRESETS {
            let device = Device::preset(name).unwrap();
            assert_eq!(parse(&to_json(&device).to_string()), Ok(device));
        }
    }

    #[test]
    fn a_profile_that_is_none_says_why() {
        for (text, why) in [
            ("[]", "expected a JSON object"),
            (
                r#"{"read_us": "fast"}"#,
                "expected a number above 0 for read_us, found \"fast\"",
            ),
            (r#"{"read_us": 0}"#, "expected a number above 0"),
            (r#"{"colour": 1}"#, "found `colour`"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
