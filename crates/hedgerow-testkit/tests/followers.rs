//! Those that follow a writer, each crashed at any moment.

use hedgerow_testkit::followers::run;
use hedgerow_testkit::seeds::for_seeds;

#[test]
fn whoever_follows_a_writer_has_what_it_has_whoever_crashes() {
    for_seeds(
        "whoever_follows_a_writer_has_what_it_has_whoever_crashes",
        400,
        run,
    );
}
