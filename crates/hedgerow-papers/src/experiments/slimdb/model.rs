//! Figure 9: the cheapest mixture of the designs of table 1 within a memory budget, by the paper's
//! model.

use hedgerow_bench::Result;
use serde_json::json;

use crate::experiments::micro::Micro;
use crate::formulas::slimdb::{SlimDb, SlimDbMix};

/// Budgets in MiB, between which layouts change.
const BUDGETS_MIB: [u32; 12] = [0, 64, 128, 256, 280, 400, 600, 900, 1000, 1100, 1250, 1500];

pub(super) fn run(micro: &mut Micro<'_>) -> Result<()> {
    let model = SlimDb::paper();
    let designs = model.designs();
    for mix in SlimDbMix::ALL {
        for mib in BUDGETS_MIB {
            let case = format!("{mib} MiB");
            let best = model.best(&mix, f64::from(mib) * f64::from(1 << 20));
            let Some(best) = best.filter(|_| micro.wants(mix.name, &case)) else {
                continue;
            };
            let layout: Vec<_> = best.designs.iter().map(|it| designs[*it].name).collect();
            let special = json!({
                "memory_bytes": best.bytes,
                "cost_reads": best.cost,
                "layout": layout.join("; "),
            });
            micro.row((mix.name, &case), "model", None, special)?;
        }
    }
    Ok(())
}
