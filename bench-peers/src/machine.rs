//! The machine that a result was measured on.

use std::fs;
use std::path::Path;

use hedgerow_bench::Result;
use serde_json::{Value, json};

/// Processor, cores, memory, kernel, and the file system under a directory.
pub(crate) fn describe(dir: &Path) -> Result<Value> {
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    Ok(json!({
        "cpu": field(&cpu, "model name"),
        "cores": crate::shares::cores(),
        "memory": field(&memory, "MemTotal"),
        "kernel": kernel.trim(),
        "filesystem": filesystem(&mounts, &dir.canonicalize()?),
    }))
}

/// The value of the first line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == name).then_some(value.trim())
    })
}

/// `ext4 on /dev/vda`: of the mount with the longest path above a directory.
fn filesystem(mounts: &str, dir: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ');
        Some((words.next()?, words.next()?, words.next()?))
    });
    let (device, _, kind) = mounts
        .filter(|(_, at, _)| dir.starts_with(at))
        .max_by_key(|(_, at, _)| at.len())?;
    Some(format!("{kind} on {device}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_is_named() {
        let mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n";
        let found = filesystem(mounts, Path::new("/tmp/data"));
        assert_eq!(found.as_deref(), Some("tmpfs on tmpfs"));
        let found = filesystem(mounts, Path::new("/data"));
        assert_eq!(found.as_deref(), Some("ext4 on /dev/vda"));
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        let text = "model\t: 17\nmodel name\t: A CPU\n";
        assert_eq!(field(text, "model name"), Some("A CPU"));
        assert_eq!(field(text, "name"), None);
    }
}
