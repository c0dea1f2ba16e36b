//! The version of what the server keeps in the engine.

use hedgerow::{Error, ErrorKind, Keyspace, Result};

use super::databases::number;

/// The version of today's entries. A server reads those of every version up to its own.
const VERSION: u64 = 1;
/// The key of the version, in the keyspace `server`.
pub(crate) const KEY: &[u8] = b"format";

/// Checks that this server can read what is there. With `writes` it notes its version if there is
/// none.
///
/// # Errors
/// `FormatVersion` if a newer server has written it; as [`Keyspace::get`] and [`Keyspace::put`].
pub(super) fn check(server: &Keyspace, writes: bool) -> Result<()> {
    match server.get(KEY)? {
        Some(stored) => {
            let found = number(&stored)?;
            if found > VERSION {
                return Err(Error::new(
                    ErrorKind::FormatVersion,
                    format!(
                        "expected keys and values of `hedgerow serve` in version {VERSION} or an older one, found version {found}"
                    ),
                ));
            }
        }
        // Databases of before 0.1 have none. They are of version 1.
        None if writes => server.put(KEY, VERSION.to_be_bytes())?,
        None => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
