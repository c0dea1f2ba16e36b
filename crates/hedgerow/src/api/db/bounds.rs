//! The bounds of a database's options. A value out of bounds is refused before anything is read or
//! written. The error names the option, its bounds and the value found.

use hedgerow_io::Background;

use crate::base::error::{Error, Result};
use crate::base::memory_plan::{BUDGET_BYTES_MAX, BUDGET_BYTES_MIN};
use crate::base::options::check_range;
use crate::design::advisor::Device;
use crate::paths::recover::OpenOptions;
use crate::tree::wal::log::{SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};

/// A slower limit would make a flush take weeks.
const IO_BYTES_MIN: u64 = 4 << 10;
const IO_BYTES_MAX: u64 = 1 << 40;
/// The log has at least two segments, since two are in use while one follows another.
const LOG_BYTES_MIN: u64 = 2 * SEGMENT_BYTES_MIN;
const LOG_BYTES_MAX: u64 = 1 << 50;
/// One thread may merge while another flushes.
const THREADS_MIN: u64 = 2;
/// More threads than this do harm.
const THREADS_MAX: u64 = 1024;
const QUEUE_TASKS_MAX: u64 = 1 << 20;
/// The bounds of each number of a device; they keep all costs finite.
const DEVICE_NUMBER_MIN: f64 = 1e-9;
const DEVICE_NUMBER_MAX: f64 = 1e15;

impl OpenOptions {
    /// # Errors
    /// `InvalidArgument`.
    pub(crate) fn check(&self) -> Result<()> {
        self.operators.check()?;
        check_range(
            "`memory_budget`",
            self.memory_budget,
            BUDGET_BYTES_MIN,
            BUDGET_BYTES_MAX,
        )?;
        if let Some(bytes) = self.io_bytes_per_second {
            check_range("`io_bytes_per_second`", bytes, IO_BYTES_MIN, IO_BYTES_MAX)?;
        }
        if let Some(bytes) = self.log_bytes_max {
            check_range("`log_bytes_max`", bytes, LOG_BYTES_MIN, LOG_BYTES_MAX)?;
        }
        if let Some(bytes) = self.log_segment_bytes {
            let (min, max) = (SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX);
            check_range("`log_segment_bytes`", bytes, min, max)?;
        }
        if let Background::Threads(threads) = self.environment.background {
            let threads = threads as u64;
            check_range("`background_threads`", threads, THREADS_MIN, THREADS_MAX)?;
        }
        check_range("`workers`", self.workers as u64, 0, THREADS_MAX)?;
        let tasks = self.worker_queue_tasks as u64;
        check_range("`worker_queue`", tasks, 1, QUEUE_TASKS_MAX)?;
        check_device(&self.device)
    }
}

fn check_device(device: &Device) -> Result<()> {
    for (name, number) in device.clone().numbers_mut() {
        if !(DEVICE_NUMBER_MIN..=DEVICE_NUMBER_MAX).contains(number) {
            return Err(Error::invalid(format!(
                "expected `{name}` of the device of {DEVICE_NUMBER_MIN:e} to \
                 {DEVICE_NUMBER_MAX:e}, found {number}"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::options::{Design, FilterSpec, KeyOrder, Layout, PolicySpec, PrefixRule};
    use crate::{Builder, Db, ErrorKind, LevelSpec};

    /// A numeric option with its bounds, named as in the error.
    struct Bounded {
        name: &'static str,
        min: u64,
        max: u64,
        check: fn(u64) -> Result<()>,
    }

    fn open_with(choose: impl FnOnce(Builder) -> Builder) -> Result<()> {
        choose(Db::builder("/none")).parts().1.check()
    }

    fn design_with(change: impl FnOnce(&mut Design)) -> Result<()> {
        let mut design = Design::default();
        change(&mut design);
        design.check()
    }

    const KIB: u64 = 1 << 10;

    const NUMBERS: &[Bounded] = &[
        Bounded {
            name: "`memory_budget`",
            min: 1 << 20,
            max: 16 << 40,
            check: |n| open_with(|it| it.memory_budget(n)),
        },
        Bounded {
            name: "`io_bytes_per_second`",
            min: 4 * KIB,
            max: 1 << 40,
            check: |n| open_with(|it| it.io_bytes_per_second(n)),
        },
        Bounded {
            name: "`log_bytes_max`",
            min: 8 * KIB,
            max: 1 << 50,
            check: |n| open_with(|it| it.log_bytes_max(n)),
        },
        Bounded {
            name: "`log_segment_bytes`",
            min: 4 * KIB,
            max: (4 << 30) - 4 * KIB,
            check: |n| open_with(|it| it.log_segment_bytes(n)),
        },
        Bounded {
            name: "`background_threads`",
            min: 2,
            max: 1024,
            check: |n| open_with(|it| it.background_threads(n as usize)),
        },
        Bounded {
            name: "`workers`",
            min: 0,
            max: 1024,
            check: |n| open_with(|it| it.workers(n as usize)),
        },
        Bounded {
            name: "`worker_queue`",
            min: 1,
            max: 1 << 20,
            check: |n| open_with(|it| it.worker_queue(n as usize)),
        },
        Bounded {
            name: "partitions",
            min: 1,
            max: 256,
            check: |n| Layout::sorted().hash(n as u16).check(),
        },
        Bounded {
            name: "bytes of a key between partitions",
            min: 1,
            max: KIB,
            check: |n| Layout::sorted().range([vec![7; n as usize]]).check(),
        },
        Bounded {
            name: "bytes of a prefix",
            min: 1,
            max: 64 * KIB,
            check: |n| KeyOrder::SemiSorted(PrefixRule::Bytes(n as u32)).check(),
        },
        Bounded {
            name: "`block_bytes`",
            min: 512,
            max: 256 * KIB,
            check: |n| design_with(|it| it.block_bytes = n as u32),
        },
        Bounded {
            name: "`table_bytes`",
            min: 4 * KIB,
            max: 4 << 30,
            check: |n| design_with(|it| it.table_bytes = Some(n)),
        },
        Bounded {
            name: "`memtable_bytes`",
            min: 4 * KIB,
            max: 64 << 30,
            check: |n| design_with(|it| it.memtable_bytes = Some(n)),
        },
        Bounded {
            name: "`fingerprint_bits`",
            min: 4,
            max: 24,
            check: |n| {
                let fingerprint_bits = n as u8;
                design_with(|it| it.filter = FilterSpec::Cuckoo { fingerprint_bits })
            },
        },
        Bounded {
            name: "`fingerprint_bits`",
            min: 4,
            max: 24,
            check: |n| {
                let filter = FilterSpec::MultiLevelCuckoo {
                    fingerprint_bits: n as u8,
                    unique: true,
                };
                design_with(|it| it.filter = filter)
            },
        },
        Bounded {
            name: "bits per key",
            min: 1,
            max: 32,
            check: |n| {
                let bits_per_key = n as f32;
                design_with(|it| it.filter = FilterSpec::Bloom { bits_per_key })
            },
        },
        Bounded {
            name: "ratio",
            min: 2,
            max: 1 << 20,
            check: |n| design_with(|it| it.policy = PolicySpec::leveling(n as f64)),
        },
        Bounded {
            name: "runs",
            min: 2,
            max: 64,
            check: |n| design_with(|it| it.policy = PolicySpec::tiering(n as u32)),
        },
        Bounded {
            name: "fan-out",
            min: 4,
            max: 16,
            check: |n| design_with(|it| it.policy = PolicySpec::Trie { fan_out: n as u32 }),
        },
        Bounded {
            name: "levels",
            min: 2,
            max: 32,
            check: |n| {
                let levels = vec![LevelSpec::fluid(1, 2.0); n as usize];
                design_with(|it| it.policy = PolicySpec::Levels(levels.into()))
            },
        },
    ];

    #[test]
    fn a_number_below_or_above_its_bounds_is_refused_by_name() {
        for Bounded {
            name,
            min,
            max,
            check,
        } in NUMBERS
        {
            for inside in [*min, min + 1, max - 1, *max] {
                check(inside).unwrap_or_else(|error| panic!("{name} of {inside}: {error}"));
            }
            for outside in min.checked_sub(1).into_iter().chain([max + 1]) {
                let error = check(outside).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
                let text = error.to_string();
                for part in [
                    *name,
                    &min.to_string(),
                    &max.to_string(),
                    &outside.to_string(),
                ] {
                    assert!(text.contains(part), "{name} of {outside}: {text}");
                }
            }
        }
    }

    #[test]
    fn numbers_of_a_device_have_bounds() {
        let count = Device::nvme().numbers_mut().len();
        for i in 0..count {
            let with = |number: f64| {
                let mut device = Device::nvme();
                *device.numbers_mut()[i].1 = number;
                open_with(|it| it.device(device))
            };
            for inside in [1e-9, 1e15] {
                with(inside).unwrap();
            }
            let name = Device::nvme().numbers_mut()[i].0;
            for outside in [0.9e-9, 1.1e15, -1.0, 0.0, f64::NAN, f64::INFINITY] {
                let text = with(outside).unwrap_err().to_string();
                for part in [name, "1e-9", "1e15", &outside.to_string()] {
                    assert!(text.contains(part), "{text}");
                }
            }
        }
    }

    #[test]
    fn fractions_have_bounds() {
        let monkey = |bits| {
            let bits_per_key = Some(bits);
            design_with(|it| it.filter = FilterSpec::Monkey { bits_per_key })
        };
        let cluster =
            |bits_per_key| design_with(|it| it.filter = FilterSpec::Cluster { bits_per_key });
        let scaling =
            |scaling| design_with(|it| it.policy = PolicySpec::garnering(2.0, f64::from(scaling)));
        type Check<'a> = &'a dyn Fn(f32) -> Result<()>;
        let all: [(&str, Check<'_>, [f32; 2], [f32; 2]); 3] = [
            ("bits per key", &monkey, [0.1, 20.0], [0.09, 20.1]),
            ("bits per key", &cluster, [1.0, 32.0], [0.9, 32.1]),
            ("scaling", &scaling, [f32::MIN_POSITIVE, 1.0], [0.0, 1.1]),
        ];
        for (name, check, inside, outside) in all {
            for number in inside {
                check(number).unwrap();
            }
            for number in outside.into_iter().chain([f32::NAN, f32::INFINITY, -1.0]) {
                let error = check(number).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                assert!(error.to_string().contains(name), "{number}: {error}");
            }
        }
    }
}
