//! Files with designs: `hedgerow advise --write FILE` writes one, `--design FILE` reads it.

use std::fs;
use std::path::Path;

use hedgerow::Design;

use crate::exit::{Exit, Failure};

pub(crate) fn read(path: &Path) -> Result<Design, Failure> {
    let text = fs::read_to_string(path).map_err(|e| Failure::io("read", path, &e))?;
    text.parse()
        .map_err(|error| Failure::new(Exit::Usage, format!("{}: {error}", path.display())).at(path))
}
