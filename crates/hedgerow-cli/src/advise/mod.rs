//! `hedgerow advise`: the cheapest designs for a workload, a memory budget and a device.

mod curve;
pub(crate) mod profile;
mod table;

use std::path::{Path, PathBuf};

use clap::ValueHint;
use hedgerow::advisor::{
    Advice, Constraints, Device, ExpectedTree, Geometry, Mix, Objective, Prediction, Workload,
    advise, expect,
};
use hedgerow::{Design, KeyOrder};
use hedgerow_bench::device::profile::to_json;
use serde_json::{Value, json};

use curve::{Point, curve, picture, print_curve};
use table::Row;

use crate::arguments;
use crate::design_file;
use crate::exit::{Exit, Failure};
use crate::output::{Output, bytes, count};

const HELP: &str = "\
A tree is shown level by level, the smallest first. `K4FB19.2~63% K1F*` has two levels. The first has \
at most 4 runs, fence pointers in memory, Bloom filters of 19.2 bits per key, and 63 % of its data in \
memory. The last has one run without filters and all of its data in memory. `-` is a paged index, `T` a \
three-level index, `C` cuckoo filters, `M` a multi-level cuckoo filter for all runs.

Examples:
  hedgerow advise --mix get=0.3,miss=0.1,scan=0.1,put=0.5 --entries 1e8 --memory-budget 256MiB
  hedgerow advise --mix put=1 --entries 1e9 --device hdd --space-max 1.5 --picture memory.svg
  hedgerow advise --entries 1e7 --price leveling:10 --write best.design
  hedgerow bench fillrandom,readrandom --design best.design
  hedgerow advise --order semi-sorted:8 --mix miss=0.5,put=0.5 --entries 1e8 --write mixed.design
  hedgerow advise --measure-device /data --measure-size 8GiB
  hedgerow advise --db people
  hedgerow advise --db people --mix get=0.9,put=0.1";

/// The mix of an unknown workload.
const MIX: &str = "get=0.3,miss=0.1,scan=0.1,put=0.5";

/// Recommends designs: the cheapest trees for a workload, and their cost at other memory budgets.
///
/// The model counts random reads, bytes written and read by merges, and processor steps, for
/// uniform keys and full levels (docs/design/0007-advisor.md). Its ranking is more reliable than
/// its microseconds.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The weights of operations: get (found), miss, scan, long-scan, put [default: the recent
    /// operations of the database, else get=0.3,miss=0.1,scan=0.1,put=0.5]
    #[arg(long, value_name = "MIX")]
    mix: Option<Mix>,
    /// The number of stored keys, such as 1e8
    #[arg(long, value_name = "N", default_value_t = 1e8)]
    entries: f64,
    /// The size of a key in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16.0)]
    key_size: f64,
    /// The order of keys: sorted, semi-sorted:BYTES, hashed and so on; the last two also allow
    /// SlimDB's designs [default: the database's order, else sorted]
    #[arg(long, value_name = "ORDER")]
    order: Option<KeyOrder>,
    /// The size of a value as stored, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 100.0)]
    value_size: f64,
    /// The fraction of puts that replace an existing key, which makes a tree larger than its data
    /// [default: as the database counted, else 1]
    #[arg(long, value_name = "FRACTION")]
    overwrites: Option<f64>,
    /// The fraction of puts that are operands of a merge operator, which gets of their keys look up
    #[arg(long, value_name = "FRACTION", default_value_t = 0.0)]
    operands: f64,
    /// The steps of a scan [default: as the database counted, else 10]
    #[arg(long, value_name = "N")]
    scan_entries: Option<f64>,

    /// Takes the mix, the number of entries and their sizes from the counters of a database
    /// (docs/design/0007-advisor.md) [default: the flags' numbers, whatever HEDGEROW_DB says]
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    #[arg(conflicts_with_all = ["entries", "key_size", "value_size"])]
    db: Option<PathBuf>,
    /// The keyspace of that database
    #[arg(long, value_name = "NAME", default_value = "default")]
    keyspace: String,

    /// The memory budget for caches, memtables, indexes and filters together
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = arguments::bytes)]
    memory_budget: u64,
    /// The limit of space amplification: bytes of tables per byte of data, at worst
    #[arg(long, value_name = "FACTOR", default_value_t = 3.0)]
    space_max: f64,
    /// The limit of writes of an entry, by its flush and by merges
    #[arg(long, value_name = "N", default_value_t = 60.0)]
    writes_max: f64,
    /// The device: nvme, ssd, hdd, cloud, or a file with a device's profile [default: the profile
    /// measured last, else nvme]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// The cost of a random read: the latency of one caller, or the device's time when it is busy
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    objective: ObjectiveArgument,
    /// Also considers designs that cannot be opened in this order of keys: levels of any number of
    /// runs, multi-level cuckoo filters, the three-level index
    #[arg(long)]
    hypothetical: bool,

    /// The number of designs to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    top: usize,
    /// Also shows the cost of this design: a file, or a policy such as `leveling:10`
    #[arg(long, value_name = "DESIGN")]
    price: Option<String>,
    /// Writes the best design to this file, for `--design FILE` of put, load and bench
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    #[arg(conflicts_with = "hypothetical")]
    write: Option<PathBuf>,
    /// Draws the cost against the memory to this SVG file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    picture: Option<PathBuf>,
    #[command(flatten)]
    measure: profile::MeasureArguments,
}

#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum ObjectiveArgument {
    #[default]
    Latency,
    Throughput,
}

impl Arguments {
    fn device(&self) -> Result<Device, Failure> {
        let device = profile::find(self.device.as_deref())?;
        Ok(device.under(match self.objective {
            ObjectiveArgument::Latency => Objective::Latency,
            ObjectiveArgument::Throughput => Objective::Throughput,
        }))
    }

    fn constraints(&self, memory: u64, order: KeyOrder) -> Constraints {
        let openable = Constraints {
            space_max: self.space_max,
            entry_writes_max: self.writes_max,
            ..Constraints::new(memory).of_order(order)
        };
        match self.hypothetical {
            true => openable.hypothetical(true),
            false => openable,
        }
    }

    /// The failure when no tree meets the constraints.
    fn nothing(&self, workload: &Workload, constraints: &Constraints) -> Failure {
        let data = workload.entries * workload.entry_bytes();
        let entries = count(workload.entries as u64);
        let memory = bytes(self.memory_budget);
        let why = if data <= constraints.memtable() * 2.0 {
            format!(
                "expected more data than two memtables hold, found {entries} entries and {memory} of memory: any design suffices"
            )
        } else {
            format!(
                "expected memory for a tree of {entries} entries that is written at most {} times and {} times \
                 as large as its data, found too little in {memory}",
                self.writes_max, self.space_max,
            )
        };
        Failure::new(Exit::NotFound, why)
    }

    /// The design to price: its name, and its tree for the workload's entries.
    fn priced(
        &self,
        workload: &Workload,
        device: &Device,
    ) -> Result<Option<(String, ExpectedTree)>, Failure> {
        let Some(name) = &self.price else {
            return Ok(None);
        };
        let path = Path::new(name);
        let design = match path.exists() {
            true => design_file::read(path)?,
            false => Design {
                policy: name.parse()?,
                ..Design::default()
            },
        };
        let expected = expect(&design, workload, device, self.memory_budget)?;
        Ok(Some((name.clone(), expected)))
    }

    fn workload(&self) -> Result<(Workload, KeyOrder), Failure> {
        let (found, order) = match &self.db {
            Some(db) => self.stored(db)?,
            None => {
                let mix = self.mix.map_or_else(|| MIX.parse(), Ok)?;
                let workload = Workload {
                    key_bytes: self.key_size,
                    value_bytes: self.value_size,
                    ..Workload::new(mix, self.entries)
                };
                (workload, KeyOrder::Sorted)
            }
        };
        let workload = Workload {
            overwrites: self.overwrites.unwrap_or(found.overwrites),
            operands: self.operands,
            scan_entries: self.scan_entries.unwrap_or(found.scan_entries),
            ..found
        };
        Ok((workload, self.order.unwrap_or(order)))
    }

    /// The workload of a keyspace, from its contents and its counters unless given, and its key
    /// order.
    fn stored(&self, db: &Path) -> Result<(Workload, KeyOrder), Failure> {
        let (_db, keyspace) = crate::database::open_to_read(db, &self.keyspace)?;
        let stats = keyspace.stats();
        let found = match self.mix {
            Some(mix) => Workload::new(mix, 1.0).over(&stats),
            None => Workload::measured(&stats),
        };
        let found = found.map_err(|error| Failure::new(Exit::NotFound, error.to_string()))?;
        Ok((found, keyspace.layout().order))
    }
}

pub(crate) fn run(arguments: &Arguments, output: &mut Output) -> Result<(), Failure> {
    if arguments.measure.run(output)?.is_some() {
        return Ok(());
    }
    let device = arguments.device()?;
    let (workload, order) = arguments.workload()?;
    let constraints = arguments.constraints(arguments.memory_budget, order);
    let found = advise(&workload, &device, &constraints)?;
    if found.is_empty() {
        return Err(arguments.nothing(&workload, &constraints));
    }
    let shown = &found[..found.len().min(arguments.top.max(1))];
    let curve = curve(arguments, &workload, order, &device)?;
    let priced = arguments.priced(&workload, &device)?;
    print_workload(arguments, &workload, &device, output);
    let priced_row = priced.as_ref().map(|(name, expected)| {
        let prediction = expected.tree.predict(&workload, &device);
        Row::of_design(&prediction, name, &expected.tree)
    });
    print_designs(shown, priced_row, output);
    print_curve(&curve, arguments.memory_budget, output);
    let trees = shown.iter().map(|it| it.tree.to_string());
    let others = curve.iter().filter_map(Point::tree);
    let priced_tree = priced.iter().map(|(_, it)| it.tree.to_string());
    let trees: Vec<_> = trees.chain(others).chain(priced_tree).collect();
    let ratios: Vec<_> = shown.iter().map(geometry_text).collect();
    print_legend(&trees, &ratios, output);
    if let Some(path) = &arguments.picture {
        picture(path, &workload.mix, &curve)?;
        output.line(format_args!("\nwrote {}", path.display()));
    }
    if let Some(path) = &arguments.write {
        write_file(path, &design_text(&workload, &device, &found[0]))?;
        output.line(format_args!("\nwrote {}", path.display()));
    }
    let priced = priced.map(|(name, expected)| {
        json!({
            "design": name,
            "tree": expected.tree.to_string(),
            "predicted": prediction_object(&expected.tree.predict(&workload, &device)),
        })
    });
    output.object(&json!({
        "priced": priced,
        "workload": workload_object(&workload),
        "device": to_json(&device),
        "memory_bytes": arguments.memory_budget,
        "designs": shown.iter().map(object).collect::<Vec<_>>(),
        "curve": curve.iter().map(Point::object).collect::<Vec<_>>(),
    }));
    Ok(())
}

/// Writes a file that does not belong to a database.
fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    #[allow(
        clippy::disallowed_methods,
        reason = "a picture or a profile is no file of a database"
    )]
    std::fs::write(path, text).map_err(|e| Failure::io("write", path, &e))
}

// ---- designs ----

fn print_workload(
    arguments: &Arguments,
    workload: &Workload,
    device: &Device,
    output: &mut Output,
) {
    let entries = format!(
        "{} entries of {} + {} bytes, {}",
        count(workload.entries as u64),
        workload.key_bytes.round(),
        workload.value_bytes.round(),
        workload.mix
    );
    output.wrapped("", &entries);
    let machine = format!(
        "{} of memory; {}: {:.1} us per random read, {:.2} GB/s read, {:.2} GB/s written",
        bytes(arguments.memory_budget),
        device.name,
        device.read_us,
        device.read_bytes_per_s / 1e9,
        device.write_bytes_per_s / 1e9
    );
    output.wrapped("", &machine);
}

fn print_designs(designs: &[Advice], priced: Option<Row>, output: &mut Output) {
    output.heading("Designs", "(the cheapest of each kind and depth)");
    let headings = Row {
        numbers: format!(
            "  {:>9} {:>8} {:>8} {:>8} {:>7} {:>10} {:>7} {:>6} {:>6}",
            "us/op", "get", "miss", "scan", "put", "reads/get", "writes", "space", "runs"
        ),
        words: format!("{:<22} tree", "ratios"),
    };
    let designs = designs.iter();
    let designs = designs.map(|it| Row::of_design(&it.prediction, &geometry_text(it), &it.tree));
    let rows: Vec<_> = [headings]
        .into_iter()
        .chain(designs)
        .chain(priced)
        .collect();
    table::print(&rows, output);
}

/// The short forms of trees, and the words for them.
const SHORT_FORMS: [(&str, &str); 11] = [
    ("K", "`K4` at most 4 runs"),
    ("F", "`F` fence pointers in memory"),
    ("-", "`-` a paged index"),
    ("T", "`T` a three-level index"),
    ("H", "`H` the hash marks of an htable"),
    ("B", "`B10.0` Bloom filters of 10.0 bits per key"),
    (
        "P",
        "`P0.5` clusters of Bloom filters, 0.5 bits per key in memory",
    ),
    ("C", "`C12.0` cuckoo filters of 12.0 bits per key"),
    ("M", "`M14.0` a filter for all runs, 14.0 bits per key"),
    ("%", "`~30%` of its data in memory"),
    ("*", "`*` all of its data in memory"),
];

/// The relations of the sizes of neighbouring levels, and the words for them.
const RATIOS: [(&str, &str); 5] = [
    ("uniform", "`uniform` T everywhere"),
    (
        "front-loaded",
        "`front-loaded` a first level of T times all runs above it, T below",
    ),
    (
        "garnering",
        "`garnering` T for the last level, divided by c once more for each level above",
    ),
    (
        "bush",
        "`bush` T for the last two levels, squared for each level above",
    ),
    ("trie", "`trie` T children of each node"),
];

/// The columns of the tables.
const COLUMNS: [&str; 3] = [
    "us/op is the mean of the mix; get, miss, scan and put are one operation each, in microseconds.",
    "reads/get are random reads of a get that finds; writes are those of an entry to tables.",
    "space is bytes of tables per byte of data, at worst; runs are those that a scan reads.",
];

/// Explains the columns, and the short forms that are in the tables.
fn print_legend(trees: &[String], ratios: &[String], output: &mut Output) {
    output.heading("Short forms", "");
    for line in COLUMNS {
        output.wrapped("  ", line);
    }
    let said = |forms: &[(&str, &str)], texts: &[String]| {
        let has = |form: &str| texts.iter().any(|text| text.contains(form));
        let said = forms.iter().filter(|(form, _)| has(form));
        said.map(|(_, words)| *words).collect::<Vec<_>>().join("; ")
    };
    let ratios = said(&RATIOS, ratios);
    output.wrapped(
        "  ",
        &format!("The ratio of a level to the one above: {ratios}."),
    );
    let forms = said(&SHORT_FORMS, trees);
    let forms = format!("A tree is its levels, the smallest first. A level: {forms}.");
    output.wrapped("  ", &forms);
}

/// The text of a design file, with comments about its workload.
fn design_text(workload: &Workload, device: &Device, best: &Advice) -> String {
    let it = &best.prediction;
    format!(
        "# For {} entries of {} + {} bytes, {}, on {}: {:.2} us per operation,\n\
         # {:.1} writes of an entry, {:.2} times the data, {} of memory.\n{}",
        count(workload.entries as u64),
        workload.key_bytes.round(),
        workload.value_bytes.round(),
        workload.mix,
        device.name,
        it.cost_us,
        it.entry_writes,
        it.space,
        bytes(it.memory.total() as u64),
        best.design(device),
    )
}

fn geometry_text(advice: &Advice) -> String {
    let capacities = &advice.capacities;
    let kind = match capacities.geometry {
        Geometry::Uniform => "uniform".to_owned(),
        Geometry::FrontLoaded => "front-loaded".to_owned(),
        Geometry::Garnering { scaling } => format!("garnering c={scaling}"),
        Geometry::Bush => "bush".to_owned(),
        Geometry::Trie { .. } => "trie".to_owned(),
    };
    format!("{kind} T={:.1}", capacities.ratio)
}

fn object(advice: &Advice) -> Value {
    let levels = advice.tree.levels.iter().map(|level| {
        json!({
            "entries": level.entries,
            "runs": level.runs,
            "writes": level.writes,
            "filter": format!("{:?}", level.filter).to_lowercase(),
            "bits_per_key": level.filter_bits(),
            "index": format!("{:?}", level.index).to_lowercase(),
            "cached": level.cached,
        })
    });
    json!({
        "geometry": geometry_text(advice),
        "level0_runs": advice.tree.level0_runs,
        "memtable_bytes": advice.tree.memtables_bytes / 2.0,
        "levels": levels.collect::<Vec<_>>(),
        "tree": advice.tree.to_string(),
        "predicted": prediction_object(&advice.prediction),
    })
}

fn prediction_object(it: &Prediction) -> Value {
    json!({
        "cost_us": it.cost_us,
        "get_us": it.hit_us,
        "miss_us": it.miss_us,
        "scan_us": it.scan_us,
        "long_scan_us": it.long_scan_us,
        "put_us": it.put_us,
        "get_reads": it.hit_reads,
        "miss_reads": it.miss_reads,
        "seek_reads": it.seek_reads,
        "entry_writes": it.entry_writes,
        "space": it.space,
        "runs": it.runs,
        "memory": {
            "memtables": it.memory.memtables,
            "indexes": it.memory.indexes,
            "filters": it.memory.filters,
            "cached": it.memory.cached,
        },
    })
}

fn workload_object(workload: &Workload) -> Value {
    let mix = &workload.mix;
    json!({
        "mix": { "get": mix.get, "miss": mix.miss, "scan": mix.scan, "long-scan": mix.long_scan, "put": mix.put },
        "entries": workload.entries,
        "key_bytes": workload.key_bytes,
        "value_bytes": workload.value_bytes,
        "overwrites": workload.overwrites,
        "operands": workload.operands,
        "scan_entries": workload.scan_entries,
    })
}
