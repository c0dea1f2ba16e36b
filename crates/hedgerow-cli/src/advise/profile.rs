//! The device of `--device`, and the measurement of one.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::ValueHint;
use hedgerow::advisor::Device;
use hedgerow_bench::device;
use hedgerow_bench::device::profile::{kept, parse, to_json};
use serde_json::json;

use crate::exit::{Exit, Failure};
use crate::output::{self, Output};

/// The device with this name or in this file. Without a name, the device measured last, else an
/// NVMe drive.
pub(crate) fn find(name: Option<&str>) -> Result<Device, Failure> {
    match name {
        Some(name) => Device::preset(name).map_or_else(|| read(Path::new(name)), Ok),
        None => match kept().filter(|path| path.exists()) {
            Some(path) => read(&path),
            None => Ok(Device::nvme()),
        },
    }
}

fn read(path: &Path) -> Result<Device, Failure> {
    let presets = Device::PRESETS.join(", ");
    let text = fs::read_to_string(path).map_err(|e| {
        Failure::io("read", path, &e).adding(&format!("; devices without a file are {presets}"))
    })?;
    parse(&text)
        .map_err(|why| Failure::new(Exit::Failure, format!("{}: {why}", path.display())).at(path))
}

/// The arguments of `--measure-device`.
#[derive(Debug, clap::Args)]
pub(super) struct MeasureArguments {
    /// Measures the device of a directory (random direct reads, sequential reads and writes) and
    /// the processor, and keeps the profile for later runs
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(num_args = 0..=1, default_missing_value = ".")]
    measure_device: Option<PathBuf>,
    /// The size of the file to write and read; it should be larger than the device's own cache
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    #[arg(value_parser = crate::arguments::bytes)]
    measure_size: u64,
    /// The time to measure each kind of read
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    measure_seconds: f64,
    /// The file for the profile [default: hedgerow/device.json in the user's settings]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    profile: Option<PathBuf>,
}

impl MeasureArguments {
    /// Measures the device if that was requested.
    pub(super) fn run(&self, output: &mut Output) -> Result<Option<Device>, Failure> {
        let Some(dir) = &self.measure_device else {
            return Ok(None);
        };
        let each = Duration::try_from_secs_f64(self.measure_seconds).map_err(|e| {
            let found = self.measure_seconds;
            Failure::new(Exit::Usage, format!("expected seconds, found {found}: {e}"))
        })?;
        let wheel = output::waiting("measuring");
        let measured = device::measure(dir, self.measure_size, each);
        wheel.finish_and_clear();
        let device = measured.map_err(crate::bench::failure)?;
        self.keep(&device, output)?;
        Ok(Some(device))
    }

    fn keep(&self, device: &Device, output: &mut Output) -> Result<(), Failure> {
        let Some(path) = self.profile.clone().or_else(kept) else {
            let why = "expected HOME to be set, or --profile FILE: the profile needs a file";
            return Err(Failure::new(Exit::Usage, why));
        };
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(|e| Failure::io("make", dir, &e))?;
        }
        super::write_file(&path, &format!("{:#}\n", to_json(device)))?;
        print(device, output);
        output.line(format_args!("kept in {}", path.display()));
        output.object(&json!({ "device": to_json(device), "profile": path.to_string_lossy() }));
        Ok(())
    }
}

fn print(device: &Device, output: &mut Output) {
    output.line(format_args!("device {}", device.name));
    for (name, number) in device.clone().numbers_mut() {
        let shown = match *number {
            large if large >= 1000.0 => output::count(large as u64),
            small => format!("{small:.3}"),
        };
        output.line(format_args!("  {name:<18} {shown:>15}"));
    }
    output.line(format_args!(
        "  a block written costs {:.3} of a block read at random",
        device.write_ratio()
    ));
}
