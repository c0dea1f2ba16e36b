//! Random scripts against the model, on a simulated disk.

use hedgerow::{KeyOrder, PrefixRule};
use hedgerow_testkit::random::Random;
use hedgerow_testkit::run::{Failure, check};
use hedgerow_testkit::seeds::for_seeds;
use hedgerow_testkit::setup::{Setup, suited};
use hedgerow_testkit::simplify::simplify;
use hedgerow_testkit::{generate, metamorphic, ops};

/// Draws a setup from the seed: partitions, design, sizes.
fn setup(seed: u64) -> Setup {
    let mut random = Random::new(seed);
    let mut setup = Setup::tiny(seed);
    // The layout uses one draw, so that a seed keeps its design when the drawing of layouts
    // changes.
    let mut layout = Random::new(random.next());
    setup.order = match layout.below(10) {
        0..=4 => KeyOrder::Sorted,
        5 => KeyOrder::Hashed,
        6 => KeyOrder::SemiSorted(PrefixRule::Bytes(1)),
        // These orders refuse some keys.
        7 => KeyOrder::SemiSorted(PrefixRule::Bytes(4)),
        8 => KeyOrder::SemiSorted(PrefixRule::Delimiter(b'/')),
        _ => KeyOrder::SemiSorted(PrefixRule::LengthPrefixed),
    };
    setup.partitioning = metamorphic::any_partitioning(&mut layout, setup.order);
    setup.workers = metamorphic::any_workers(&mut layout);
    if random.one_in(2) {
        setup.design = suited(metamorphic::any_design(&mut random), setup.order);
    }
    if random.one_in(8) {
        setup.tune_itself();
    }
    setup
}

fn explain(failure: &Failure) -> String {
    let fails = |script: &[ops::Op]| check(&failure.setup, script).is_err();
    let shorter = simplify(&failure.script, 400, fails);
    match check(&failure.setup, &shorter) {
        Err(shorter) => format!("{shorter}"),
        Ok(_) => format!("{failure}\n(a shorter script does not fail)"),
    }
}

#[test]
fn scripts_are_answered_like_the_model() {
    for_seeds("scripts_are_answered_like_the_model", 500, |seed| {
        let script = generate::script(seed, true);
        match check(&setup(seed), &script) {
            Ok(_) => Ok(()),
            Err(failure) => Err(explain(&failure)),
        }
    });
}

#[test]
fn scripts_survive_being_printed() {
    for seed in 0..40 {
        let script = generate::script(seed, true);
        assert_eq!(ops::parse(&ops::print(&script)), Ok(script));
        let setup = setup(seed);
        assert_eq!(setup.to_string().parse(), Ok(setup));
    }
}

/// `HEDGEROW_SCRIPT=file` replays a script from a file. The first line may be `setup: ...` as a
/// failure prints it.
#[test]
fn script_from_a_file() {
    let Ok(path) = std::env::var("HEDGEROW_SCRIPT") else {
        return;
    };
    let text = std::fs::read_to_string(path).unwrap();
    let (setup, script): (Vec<_>, Vec<_>) =
        text.lines().partition(|line| line.starts_with("setup:"));
    let setup = match setup.first() {
        Some(line) => line["setup:".len()..].parse().unwrap(),
        None => Setup::tiny(0),
    };
    let script = ops::parse(&script.join("\n")).unwrap();
    match check(&setup, &script) {
        Ok(transcript) => {
            for (op, answer) in script.iter().zip(transcript) {
                println!("{op}\n    {answer}");
            }
        }
        Err(failure) => panic!("{failure}"),
    }
}
