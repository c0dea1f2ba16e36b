//! Power cuts, kills, faults and full disks, each from thousands of seeds.
#![allow(clippy::print_stdout, reason = "what was adopted is printed")]

use std::sync::atomic::{AtomicUsize, Ordering};

use hedgerow_testkit::crash::{
    Trouble, run, run_self_tuning, run_with_a_stalled_mark, run_with_a_stalled_writer,
    run_without_merges,
};
use hedgerow_testkit::seeds::for_seeds;

fn survives(name: &str, usual: u64, troubles: &[Trouble]) {
    for_seeds(name, usual, |seed| run(seed, troubles).map(drop));
}

#[test]
fn power_cuts_leave_a_prefix_with_all_that_was_synced() {
    survives(
        "power_cuts_leave_a_prefix_with_all_that_was_synced",
        3000,
        &[Trouble::PowerCut],
    );
}

#[test]
fn kills_lose_nothing_that_was_acknowledged() {
    survives(
        "kills_lose_nothing_that_was_acknowledged",
        1000,
        &[Trouble::Kill, Trouble::Kill, Trouble::PowerCut],
    );
}

#[test]
fn faults_are_reported_and_never_answered_wrongly() {
    survives(
        "faults_are_reported_and_never_answered_wrongly",
        3000,
        &[Trouble::Faults, Trouble::Faults, Trouble::PowerCut],
    );
}

#[test]
fn full_disks_stop_writes_until_there_is_room() {
    survives(
        "full_disks_stop_writes_until_there_is_room",
        500,
        &[Trouble::FullDisk, Trouble::FullDisk, Trouble::PowerCut],
    );
}

#[test]
fn level_0_may_be_as_full_as_it_can() {
    for_seeds("level_0_may_be_as_full_as_it_can", 30, |seed| {
        run_without_merges(seed).map(drop)
    });
}

#[test]
fn a_writer_that_stalls_costs_nobody_an_acknowledged_write() {
    let name = "a_writer_that_stalls_costs_nobody_an_acknowledged_write";
    for_seeds(name, 200, run_with_a_stalled_writer);
}

#[test]
fn a_mark_that_stalls_costs_nobody_an_acknowledged_write() {
    let name = "a_mark_that_stalls_costs_nobody_an_acknowledged_write";
    for_seeds(name, 100, run_with_a_stalled_mark);
}

#[test]
fn keyspaces_that_tune_themselves_survive_like_others() {
    let all = [
        Trouble::PowerCut,
        Trouble::PowerCut,
        Trouble::Kill,
        Trouble::Faults,
        Trouble::FullDisk,
    ];
    let (adopted, runs) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let name = "keyspaces_that_tune_themselves_survive_like_others";
    for_seeds(name, 60, |seed| {
        let outcome = run_self_tuning(seed, &all)?;
        let adopts = |line: &&String| line.ends_with("adopts a design");
        let adoptions = outcome.transcript.iter().filter(adopts).count();
        adopted.fetch_add(adoptions, Ordering::Relaxed);
        runs.fetch_add(1, Ordering::Relaxed);
        Ok(())
    });
    let (adopted, runs) = (adopted.into_inner(), runs.into_inner());
    println!("{adopted} designs adopted in {runs} runs");
    assert!(
        runs < 20 || adopted > 0,
        "nothing was adopted in {runs} runs"
    );
}

/// If this fails, no other failure in this file can be replayed.
#[test]
fn same_seed_same_trace() {
    let all = [
        Trouble::PowerCut,
        Trouble::Kill,
        Trouble::Faults,
        Trouble::FullDisk,
    ];
    for_seeds("same_seed_same_trace", 100, |seed| {
        let (first, second) = (run(seed, &all)?, run(seed, &all)?);
        if first == second {
            return Ok(());
        }
        let lines = first.transcript.iter().zip(&second.transcript);
        let differing = lines.enumerate().find(|(_, (a, b))| a != b);
        Err(format!("two runs differ: {differing:?}"))
    });
}
