//! One script over many designs: all transcripts must be equal.

use hedgerow_testkit::metamorphic::{script, setups};
use hedgerow_testkit::run::check;
use hedgerow_testkit::seeds::for_seeds;
use hedgerow_testkit::simplify::simplify;

#[test]
fn designs_do_not_change_answers() {
    for_seeds("designs_do_not_change_answers", 30, |seed| {
        let script = script(seed);
        let mut plain: Option<Vec<String>> = None;
        for (name, setup) in setups(seed) {
            let transcript = check(&setup, &script).map_err(|failure| {
                let fails = |script: &[_]| check(&setup, script).is_err();
                let shorter = simplify(&failure.script, 300, fails);
                let failure = check(&setup, &shorter).err().unwrap_or(failure);
                format!("with the design `{name}`\n{failure}")
            })?;
            let plain = plain.get_or_insert_with(|| transcript.clone());
            if *plain != transcript {
                return Err(format!("with the design `{name}`: another transcript"));
            }
        }
        Ok(())
    });
}
