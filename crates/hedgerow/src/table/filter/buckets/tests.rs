use super::*;

fn geometry(buckets: u32, fingerprint_bits: u8, payload_bits: u8) -> BucketGeometry {
    BucketGeometry::new(buckets, fingerprint_bits, payload_bits).unwrap()
}

fn memory(geometry: BucketGeometry) -> Vec<u8> {
    vec![0; geometry.bytes() as usize + PADDING_BYTES]
}

#[test]
fn buckets_lead_to_each_other_for_every_number_of_them() {
    for buckets in (1..200).chain([1 << 20, 12_345_677, u32::MAX]) {
        let geometry = geometry(buckets, 12, 3);
        for i in 0..1000u64 {
            let place = geometry.place(remix(i + 1) >> 8);
            let [first, second] = place.buckets;
            assert!(first < buckets && second < buckets);
            assert_eq!(geometry.alternate(second, place.fingerprint), first);
        }
    }
}

/// Every slot of every width keeps its content, beside any neighbours, in words of both sizes.
#[test]
fn slots_keep_to_themselves() {
    for fingerprint_bits in FINGERPRINT_BITS_MIN..=FINGERPRINT_BITS_MAX {
        for payload_bits in 0..=PAYLOAD_BITS_MAX {
            let geometry = geometry(5, fingerprint_bits, payload_bits);
            let mut bytes = memory(geometry);
            let content = |i: u32| remix(u64::from(i) + 1) as u32 & geometry.slot_mask();
            let mut filling = CuckooBuilder::<u128>::new(geometry, &mut bytes);
            for i in (0..20).rev() {
                filling.set(i / SLOTS, i % SLOTS, geometry.slot_mask());
                filling.set(i / SLOTS, i % SLOTS, content(i));
            }
            for i in 0..20 {
                let slot = geometry.slot(filling.bucket(i / SLOTS), i % SLOTS);
                assert_eq!(slot, content(i));
            }
            if geometry.is_narrow() {
                let mut filling = CuckooBuilder::<u64>::new(geometry, &mut bytes);
                for i in 0..20 {
                    assert_eq!(
                        geometry.slot(filling.bucket(i / SLOTS), i % SLOTS),
                        content(i)
                    );
                    filling.set(i / SLOTS, i % SLOTS, content(i) ^ 1);
                }
                for i in 0..20 {
                    assert_eq!(
                        geometry.slot(filling.bucket(i / SLOTS), i % SLOTS),
                        content(i) ^ 1
                    );
                }
            }
            let padding = &bytes[geometry.bytes() as usize..];
            assert!(padding.iter().all(|&byte| byte == 0));
        }
    }
}

/// The comparison of four slots at once agrees with the comparison of one at a time. The slots of
/// the buckets and their neighbours are zero, one, or all ones.
#[test]
fn slots_are_compared_exactly() {
    fn check<W: Word>(geometry: BucketGeometry) {
        let slots = [0, 1, geometry.slot_mask() >> 1, geometry.slot_mask()];
        let wanted = [0, 1, (1 << geometry.fingerprint_bits) - 1];
        for chosen in 0..256u32 {
            let mut bytes = vec![0xFF; 32];
            let mut filling = CuckooBuilder::<W>::new(geometry, &mut bytes);
            let content = [0, 2, 4, 6].map(|shift| slots[(chosen >> shift & 3) as usize]);
            for (at, slot) in content.into_iter().enumerate() {
                filling.set(0, at as u32, slot);
            }
            let bucket = filling.bucket(0);
            for fingerprint in wanted {
                let marks = geometry.with_fingerprint(bucket, fingerprint);
                for (at, slot) in content.into_iter().enumerate() {
                    let mark = marks >> ((at as u32 + 1) * geometry.slot_bits() - 1);
                    let is_equal = geometry.fingerprint(slot) == fingerprint;
                    assert_eq!(mark.low() & 1 == 1, is_equal, "{content:x?}");
                    assert!(geometry.holds(bucket, slot));
                }
            }
            let vacant = content
                .iter()
                .position(|&slot| geometry.fingerprint(slot) == 0);
            assert_eq!(geometry.vacant(bucket), vacant.map(|at| at as u32));
        }
    }
    for (fingerprint_bits, payload_bits) in [(4, 0), (12, 0), (12, 3), (15, 0), (12, 4)] {
        check::<u64>(geometry(1, fingerprint_bits, payload_bits));
        check::<u128>(geometry(1, fingerprint_bits, payload_bits));
    }
    for (fingerprint_bits, payload_bits) in [(17, 0), (12, 6), (24, 7)] {
        check::<u128>(geometry(1, fingerprint_bits, payload_bits));
    }
}

/// Fills tables until an insertion is refused. The stored entries are there, the refused ones are
/// not, and a table reaches the load that it is sized for.
#[test]
fn what_is_moved_is_not_lost() {
    for buckets in [1, 2, 3, 7, 50, 1000, 20_000] {
        let geometry = geometry(buckets, 16, 2);
        let mut bytes = memory(geometry);
        let mut filling = CuckooBuilder::<u128>::new(geometry, &mut bytes);
        let mut stored = Vec::new();
        let mut refused = 0;
        for i in 0.. {
            let place = geometry.place(remix(i + 1) >> 8);
            let payload = (i % 4) as u32;
            match filling.insert(place, payload) {
                InsertResult::Stored => stored.push((place, payload)),
                InsertResult::Present => {}
                InsertResult::Full => refused += 1,
            }
            if refused == 10 {
                break;
            }
        }
        for &(place, payload) in &stored {
            assert_eq!(filling.insert(place, payload), InsertResult::Present);
        }
        let load = stored.len() as f64 / f64::from(buckets * SLOTS);
        let used = (0..buckets * SLOTS)
            .filter(|i| geometry.slot(filling.bucket(i / SLOTS), i % SLOTS) != 0)
            .count();
        assert_eq!(used, stored.len());
        assert!(load > LOAD_MAX || buckets < 1000, "{buckets}: {load}");
    }
}

/// Fills tables to the largest load and far beyond it, where each search is in vain.
#[test]
fn the_search_for_room_is_bounded() {
    let geometry = geometry(20_000, 12, 3);
    let slots = u64::from(geometry.buckets() * SLOTS);
    let mut bytes = memory(geometry);
    let mut filling = CuckooBuilder::<u64>::new(geometry, &mut bytes);
    let (mut looked_at, mut most) = (0, 0);
    for i in 0..2 * slots {
        filling.visits.clear();
        filling.insert(geometry.place(remix(i + 1) >> 8), 0);
        looked_at += filling.visits.len();
        most = most.max(filling.visits.len());
        if i == slots * 97 / 100 {
            let mean = looked_at as f64 / i as f64;
            println!("{mean:.2} buckets looked at for room per key, at most {most}");
            assert!(mean < 2.5, "{mean}");
        }
    }
    assert!(most <= 2 + SLOTS as usize * VISITS_MAX, "{most}");
}

#[test]
fn damaged_geometries_are_refused() {
    for (buckets, fingerprint_bits, payload_bits) in
        [(0, 12, 3), (1, 3, 3), (1, 25, 3), (1, 12, 8), (1, 255, 255)]
    {
        assert!(BucketGeometry::new(buckets, fingerprint_bits, payload_bits).is_err());
    }
}

/// Four times as many entries as there is room for: a search that finds no room makes the next ones
/// shorter, and buckets with room still get all that they can.
#[test]
fn an_insertion_into_full_buckets_costs_a_few_looks() {
    let geometry = geometry(BucketGeometry::buckets_for(1000) as u32, 12, 4);
    let mut bytes = memory(geometry);
    let mut filling = CuckooBuilder::<u64>::new(geometry, &mut bytes);
    let (mut stored, mut visits) = (0, 0);
    for i in 0..4000_u64 {
        let place = geometry.place(remix(i) >> 8);
        filling.visits.clear();
        stored += u64::from(filling.insert(place, 1) == InsertResult::Stored);
        visits += filling.visits.len();
    }
    assert!(stored >= geometry.capacity(), "{stored} entries stored");
    assert!(visits <= 12 * 4000, "{visits} visits");
}
