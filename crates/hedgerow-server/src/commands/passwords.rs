//! Calls as others may see them: without the passwords in them.
//!
//! The log of slow commands, the page and MONITOR show calls by this alone.

use super::Args;
use super::arguments::is;

/// The text in place of a word that nobody is shown.
const HIDDEN: &[u8] = b"(redacted)";
/// The parameters of CONFIG that name a password, or who has it.
const PARAMETERS: &[&str] = &["requirepass", "masterauth", "masteruser"];

/// The words of a call, or the first ones, without its passwords.
pub(crate) fn without_passwords<'a>(args: Args<'a>) -> Vec<&'a [u8]> {
    let shown = |(place, word): (usize, &&'a [u8])| match place > 0 && is_secret(args, place) {
        true => HIDDEN,
        false => word,
    };
    args.iter().enumerate().map(shown).collect()
}

/// Returns true if a word behind the name of the command is hidden.
fn is_secret(args: Args<'_>, place: usize) -> bool {
    let follows = |distance: usize, words: &[&str]| {
        let before = place.checked_sub(distance).filter(|it| *it > 0);
        before.is_some_and(|it| words.iter().any(|word| is(args[it], word)))
    };
    match args[0] {
        it if is(it, "AUTH") => true,
        it if is(it, "ACL") => place > 1 && is(args[1], "SETUSER"),
        it if is(it, "CONFIG") => is(args[1], "SET") && place % 2 == 1 && follows(1, PARAMETERS),
        it if is(it, "HELLO") => follows(1, &["AUTH"]) || follows(2, &["AUTH"]),
        it if is(it, "MIGRATE") => follows(1, &["AUTH", "AUTH2"]) || follows(2, &["AUTH2"]),
        _ => false,
    }
}
