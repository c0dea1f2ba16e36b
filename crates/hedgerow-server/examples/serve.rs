//! Serves a database: `cargo run -p hedgerow-server --example serve -- DIR PORT [BUDGET_BYTES]`.

use hedgerow_server::{Options, serve};

#[allow(clippy::print_stdout, reason = "whoever started it waits for the line")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut options = Options::new(arguments.next().ok_or("expected a directory")?);
    options.port = arguments.next().ok_or("expected a port")?.parse()?;
    if let Some(bytes) = arguments.next() {
        options.memory_budget = bytes.parse()?;
    }
    serve(options, |address| println!("ready on {address}"))?;
    Ok(())
}
