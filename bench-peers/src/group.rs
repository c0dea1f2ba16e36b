//! Control groups that limit memory, of version 1 or 2, and the page cache.

use std::fs;
use std::path::{Path, PathBuf};

use hedgerow_bench::Result;

/// A control group, removed when dropped. Whoever was in it must have ended by then.
#[derive(Debug)]
pub(crate) struct Group {
    dir: PathBuf,
}

impl Group {
    /// Makes a group whose processes have `bytes` of memory together, page cache and all.
    pub(crate) fn create(name: &str, bytes: u64) -> Result<Group> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let hierarchy = hierarchy(&mounts, |file| fs::read_to_string(file).ok())
            .ok_or("expected control groups that limit memory, found none mounted")?;
        let (parent, limit, swap) = match &hierarchy {
            Hierarchy::V1(at) => (at, "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
            Hierarchy::V2(at) => (at, "memory.max", "memory.swap.max"),
        };
        if let Hierarchy::V2(at) = &hierarchy {
            write(&at.join("cgroup.subtree_control"), "+memory")?;
        }
        let dir = parent.join(name);
        fs::create_dir(&dir).map_err(|error| denied(&dir, &error))?;
        let group = Group { dir };
        write(&group.dir.join(limit), &bytes.to_string())?;
        let swap = group.dir.join(swap);
        if swap.exists() {
            // Version 1 counts memory and swap together, version 2 swap alone.
            let bytes = if matches!(hierarchy, Hierarchy::V1(_)) {
                bytes
            } else {
                0
            };
            write(&swap, &bytes.to_string())?;
        }
        Ok(group)
    }

    /// The directory of the group, which [`enter`] wants.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.dir) {
            eprintln!("the control group {} stays: {error}", self.dir.display());
        }
    }
}

/// One group at a time is there, under the name of this process.
pub(crate) fn name() -> String {
    format!("hedgerow-bench-{}", std::process::id())
}

/// Moves this process into a group.
pub(crate) fn enter(dir: &Path) -> Result<()> {
    write(&dir.join("cgroup.procs"), &std::process::id().to_string())
}

/// Writes back everything and forgets what the system has cached of files.
pub(crate) fn drop_page_cache() -> Result<()> {
    rustix::fs::sync();
    write(Path::new("/proc/sys/vm/drop_caches"), "1")
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|error| denied(file, &error).into())
}

fn denied(at: &Path, error: &std::io::Error) -> String {
    format!(
        "expected permission to limit memory and to drop the page cache (run it as root), \
         found at {}: {error}",
        at.display()
    )
}

/// The hierarchy that limits memory, and the place where it is mounted.
#[derive(Debug, PartialEq, Eq)]
enum Hierarchy {
    V1(PathBuf),
    V2(PathBuf),
}

/// From a text of mounts; the controller of memory is in one hierarchy only.
fn hierarchy(mounts: &str, read: impl Fn(&Path) -> Option<String>) -> Option<Hierarchy> {
    mounts.lines().find_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (at, kind, options) = (words.next()?, words.next()?, words.next()?);
        let at = PathBuf::from(at);
        match kind {
            "cgroup" if options.split(',').any(|o| o == "memory") => Some(Hierarchy::V1(at)),
            "cgroup2" => {
                let controllers = read(&at.join("cgroup.controllers"))?;
                let has_memory = controllers.split_whitespace().any(|c| c == "memory");
                has_memory.then_some(Hierarchy::V2(at))
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_in_the_hierarchy_that_has_it() {
        let v1 = "cgroup /cg/cpu cgroup rw,cpu 0 0\n\
            cgroup2 /cg/unified cgroup2 rw 0 0\n\
            cgroup /cg/memory cgroup rw,relatime,memory 0 0\n";
        let found = hierarchy(v1, |_| Some("cpu io\n".to_owned()));
        assert_eq!(found, Some(Hierarchy::V1("/cg/memory".into())));
        let v2 = "cgroup2 /cg cgroup2 rw 0 0\n";
        let found = hierarchy(v2, |_| Some("cpu io memory\n".to_owned()));
        assert_eq!(found, Some(Hierarchy::V2("/cg".into())));
        assert_eq!(hierarchy("proc /proc proc rw 0 0\n", |_| None), None);
    }
}
