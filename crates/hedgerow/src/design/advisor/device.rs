//! The costs of a device and a processor for the steps of the model.

/// Times in µs, rates in bytes per second.
///
/// Only ratios matter: a read that costs as much as writing 90 KB needs another tree than one that
/// costs as much as 4 KB. So measure your own device with `hedgerow advise --measure-device`.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// The name of the device.
    pub name: String,
    /// A random read of one block while nothing else is read.
    pub read_us: f64,
    /// Random reads of one block per second while many are under way.
    pub reads_per_s: f64,
    /// Sequential reading.
    pub read_bytes_per_s: f64,
    /// Sequential writing, syncs included, as sustained over seconds.
    pub write_bytes_per_s: f64,
    /// The size of a block.
    pub block_bytes: f64,
    /// A probe of one Bloom filter in memory.
    pub probe_us: f64,
    /// A probe of one cuckoo filter: two cache lines.
    pub cuckoo_probe_us: f64,
    /// A search of fence pointers for a block, and of the block for a key.
    pub seek_us: f64,
    /// A search of SlimDB's three-level index for a block, and of the block for a key.
    pub three_level_us: f64,
    /// Bits of that index per block.
    pub three_level_bits: f64,
    /// One step of a scan.
    pub next_us: f64,
    /// The processor time to rewrite one entry.
    pub merge_us: f64,
    /// An insertion of one entry into a multi-level cuckoo filter.
    pub cuckoo_insert_us: f64,
}

/// The measure of the cost of a random read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Objective {
    /// The time that one caller waits.
    #[default]
    Latency,
    /// The time of a busy device: 1 / reads per second.
    Throughput,
}

impl Device {
    /// An NVMe drive: 90 µs and 400,000 reads per second, 2 GB/s reading, 1 GB/s writing.
    pub fn nvme() -> Device {
        Device {
            name: "nvme".to_owned(),
            read_us: 90.0,
            reads_per_s: 400_000.0,
            read_bytes_per_s: 2.0e9,
            write_bytes_per_s: 1.0e9,
            block_bytes: 4096.0,
            probe_us: 0.08,
            cuckoo_probe_us: 0.20,
            seek_us: 0.9,
            three_level_us: 1.0,
            three_level_bits: 14.0,
            next_us: 0.05,
            merge_us: 0.20,
            cuckoo_insert_us: 0.4,
        }
    }

    /// The device of this name in [`Device::PRESETS`].
    pub fn preset(name: &str) -> Option<Device> {
        let (read_us, reads_per_s, read_bytes_per_s, write_bytes_per_s) = match name {
            "nvme" => return Some(Device::nvme()),
            "ssd" => (150.0, 90_000.0, 520e6, 450e6),
            "hdd" => (8_000.0, 180.0, 180e6, 160e6),
            "cloud" => (600.0, 16_000.0, 500e6, 400e6),
            _ => return None,
        };
        Some(Device {
            name: name.to_owned(),
            read_us,
            reads_per_s,
            read_bytes_per_s,
            write_bytes_per_s,
            ..Device::nvme()
        })
    }

    /// Typical devices: an NVMe drive, a SATA SSD, a spinning disk, and a network volume of 16,000
    /// operations per second.
    pub const PRESETS: [&'static str; 4] = ["nvme", "ssd", "hdd", "cloud"];

    /// Its numbers, with their names and units as in [`Device`], for files and tables.
    pub fn numbers_mut(&mut self) -> [(&'static str, &mut f64); 13] {
        [
            ("read_us", &mut self.read_us),
            ("reads_per_s", &mut self.reads_per_s),
            ("read_bytes_per_s", &mut self.read_bytes_per_s),
            ("write_bytes_per_s", &mut self.write_bytes_per_s),
            ("block_bytes", &mut self.block_bytes),
            ("probe_us", &mut self.probe_us),
            ("cuckoo_probe_us", &mut self.cuckoo_probe_us),
            ("seek_us", &mut self.seek_us),
            ("three_level_us", &mut self.three_level_us),
            ("three_level_bits", &mut self.three_level_bits),
            ("next_us", &mut self.next_us),
            ("merge_us", &mut self.merge_us),
            ("cuckoo_insert_us", &mut self.cuckoo_insert_us),
        ]
    }

    /// The same device with the read cost of `objective`.
    pub fn under(&self, objective: Objective) -> Device {
        let read_us = match objective {
            Objective::Latency => self.read_us,
            Objective::Throughput => 1e6 / self.reads_per_s,
        };
        Device {
            read_us,
            ..self.clone()
        }
    }

    /// The time to write a block sequentially over the time to read one at random: the `w` of
    /// SlimDB, section 4.
    pub fn write_ratio(&self) -> f64 {
        self.block_bytes / self.write_bytes_per_s * 1e6 / self.read_us
    }

    /// The cost of a random read beside a longer one.
    pub(crate) fn read_beside_us(&self) -> f64 {
        self.read_us.min(1e6 / self.reads_per_s)
    }

    /// The time in µs to write these bytes and read them again.
    pub(crate) fn rewrite_us(&self, bytes: f64) -> f64 {
        bytes * (1e6 / self.write_bytes_per_s + 1e6 / self.read_bytes_per_s)
    }
}
