//! The cost tables of the papers, in symbols and in numbers.

use std::fmt::{self, Write as _};
use std::io::{Write as _, stdout};

use hedgerow::advisor::Device;
use hedgerow_bench::{Result, add_commit};
use serde_json::{Value, json};

use crate::arguments::find_device;
use crate::formulas::autumn::PaperPolicy;
use crate::formulas::slimdb::{SlimDb, SlimDbLayout, SlimDbMix};

/// The arguments of the tables.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The paper
    #[arg(value_name = "PAPER", value_enum)]
    table: Table,
    /// The device of SlimDB's second figure: nvme, ssd, hdd, cloud, or a file with a device's
    /// profile [default: the profile that `hedgerow advise --measure-device` wrote, else nvme]
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Prints a JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The papers with cost tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Table {
    /// SlimDB's Table 1 as a model, and Figure 9: cost against memory for four workloads
    Slimdb,
    /// Autumn's Table 2: policies as data grows
    Autumn,
}

impl Arguments {
    /// Prints the tables of the paper.
    ///
    /// # Errors
    /// A device that is none; an error of standard output.
    pub fn run(&self) -> Result<()> {
        let mut text = String::new();
        let mut object = match self.table {
            Table::Slimdb => slimdb(&find_device(self.device.as_deref())?, &mut text)?,
            Table::Autumn => autumn(&mut text)?,
        };
        add_commit(&mut object);
        match self.json {
            true => writeln!(stdout(), "{object}")?,
            false => write!(stdout(), "{text}")?,
        }
        Ok(())
    }
}

// ---- SlimDB ----

const MIB: f64 = (1 << 20) as f64;
const BUDGETS_MIB: [f64; 12] = [
    0.0, 64.0, 128.0, 256.0, 280.0, 300.0, 512.0, 940.0, 980.0, 1100.0, 1400.0, 2048.0,
];

fn slimdb(device: &Device, text: &mut String) -> Result<Value> {
    let paper = SlimDb::paper();
    designs(&paper, text)?;
    let measured = SlimDb {
        write_ratio: device.write_ratio(),
        ..paper
    };
    let models = [
        ("with the paper's constants", paper),
        ("with the device's", measured),
    ];
    let mut figures = Vec::new();
    for (constants, model) in models {
        figures.push(figure(constants, &model, text)?);
    }
    Ok(json!({ "table": "slimdb", "device": device.name, "figures": figures }))
}

fn designs(model: &SlimDb, text: &mut String) -> fmt::Result {
    writeln!(
        text,
        "SlimDB, Table 1: costs in reads of 4 KiB, ratio {}, a block written is {} of a read",
        model.growth, model.write_ratio
    )?;
    writeln!(
        text,
        "  {:<14} {:>10} {:>8} {:>8} {:>9}",
        "design", "bits/entry", "hit", "miss", "write"
    )?;
    for row in model.designs() {
        writeln!(
            text,
            "  {:<14} {:>10} {:>8.3} {:>8.3} {:>9.4}",
            row.name, row.bits, row.hit, row.miss, row.write
        )?;
    }
    Ok(())
}

fn figure(constants: &str, model: &SlimDb, text: &mut String) -> Result<Value> {
    let entries: f64 = model.entries().iter().sum();
    writeln!(text, "\nSlimDB, Figure 9 {constants}")?;
    writeln!(
        text,
        "  {:.0} million entries of {} bytes in {} levels, a block written is {:.3} of a read; the best cost of an operation",
        entries / 1e6,
        model.entry_bytes,
        model.levels,
        model.write_ratio
    )?;
    let names = SlimDbMix::ALL
        .map(|mix| format!("{:>10}", mix.name))
        .concat();
    writeln!(
        text,
        "  {:>10}{names}  layout of `mix`, level by level",
        "memory"
    )?;
    let frontiers = SlimDbMix::ALL.map(|mix| model.frontier(&mix));
    let mut rows = Vec::new();
    for mib in BUDGETS_MIB {
        let best = |frontier: &Vec<SlimDbLayout>| {
            let fits = frontier.iter().rfind(|layout| layout.bytes <= mib * MIB);
            fits.cloned()
        };
        let layouts: Vec<SlimDbLayout> = frontiers.iter().filter_map(best).collect();
        let costs: String = layouts
            .iter()
            .map(|it| format!("{:>10.4}", it.cost))
            .collect();
        let shown = layouts
            .last()
            .map(|it| names_of(model, it))
            .unwrap_or_default();
        writeln!(text, "  {mib:>6} MiB{costs}  {shown}")?;
        let costs: Vec<f64> = layouts.iter().map(|it| it.cost).collect();
        rows.push(json!({ "memory_mib": mib, "costs": costs, "mix_layout": shown }));
    }
    Ok(json!({
        "constants": constants,
        "write_ratio": model.write_ratio,
        "workloads": SlimDbMix::ALL.map(|mix| mix.name),
        "rows": rows,
    }))
}

fn names_of(model: &SlimDb, layout: &SlimDbLayout) -> String {
    let designs = model.designs();
    let names: Vec<&str> = layout.designs.iter().map(|i| designs[*i].name).collect();
    names.join(" | ")
}

// ---- Autumn ----

/// The sizes of Autumn's experiments: 100-byte values, memtables of 64 MiB.
const ENTRY_BYTES: f64 = 116.0;
const MEMTABLE_BYTES: f64 = 64.0 * MIB;
const BITS: f64 = 5.0;

fn autumn(text: &mut String) -> Result<Value> {
    writeln!(
        text,
        "Autumn, Table 2: n is data over memtable, m filter bits per entry, a = ln² 2"
    )?;
    writeln!(
        text,
        "  {:<18} {:<16} {:<14} {:<22} {:<8}",
        "policy", "range, point", "with filters", "writes of an entry", "space"
    )?;
    for policy in PaperPolicy::ALL {
        let row = policy.symbols();
        writeln!(
            text,
            "  {:<18} {:<16} {:<14} {:<22} {:<8}",
            row.policy, row.range, row.point, row.write, row.space
        )?;
    }
    let policies = PaperPolicy::ALL.map(|policy| growth(policy, text));
    let policies: Vec<Value> = policies.into_iter().collect::<Result<_>>()?;
    Ok(json!({
        "table": "autumn",
        "entry_bytes": ENTRY_BYTES,
        "memtable_bytes": MEMTABLE_BYTES,
        "bits_per_entry": BITS,
        "policies": policies,
    }))
}

fn growth(policy: PaperPolicy, text: &mut String) -> Result<Value> {
    let symbols = policy.symbols();
    let name = format!("{policy}");
    writeln!(
        text,
        "\n{name} as data grows: entries of 116 bytes, memtables of 64 MiB, full levels"
    )?;
    writeln!(
        text,
        "  {:>8} {:>7} {:>8} {:>8} {:>14} {:>14} {:>8}",
        "entries", "levels", "delayed", "runs", "miss at 5 bits", "writes at worst", "space"
    )?;
    let mut rows = Vec::new();
    for exponent in 7..=12 {
        let data = 10_f64.powi(exponent) * ENTRY_BYTES / MEMTABLE_BYTES;
        let row = policy.growth(data, BITS);
        writeln!(
            text,
            "  {:>8} {:>7} {:>8} {:>8} {:>14.4} {:>14.0} {:>8.2}",
            format!("1e{exponent}"),
            row.levels,
            row.levels_delayed,
            row.runs,
            row.reads,
            row.writes,
            1.0 + row.space_excess
        )?;
        rows.push(json!({
            "entries": 10_f64.powi(exponent),
            "levels": row.levels,
            "levels_delayed": row.levels_delayed,
            "runs": row.runs,
            "miss_reads": row.reads,
            "writes": row.writes,
            "space": 1.0 + row.space_excess,
        }));
    }
    Ok(json!({
        "policy": name,
        "range": symbols.range,
        "point": symbols.point,
        "write": symbols.write,
        "space": symbols.space,
        "rows": rows,
    }))
}
