//! Power cuts, kills, faults and full disks, each from thousands of seeds.

use hedgerow_testkit::crash::{Trouble, run};
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

/// If this fails, no other failure of this file can be replayed.
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
