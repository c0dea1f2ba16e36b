use super::*;

fn words(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|it| it.as_bytes().to_vec()).collect()
}

fn values() -> Vec<Value> {
    let long = "x".repeat(20_000);
    vec![
        Value::String(Vec::new()),
        Value::String(long.clone().into_bytes()),
        Value::List(words(&["a", "a", &long])),
        Value::Set(words(&["a", "", "1"])),
        Value::Hash(pairs(words(&["f", "1", "g", &long])).unwrap()),
        Value::ExpiringHash(vec![
            (b"f".to_vec(), b"1".to_vec(), 2_000_000_000_000),
            (b"g".to_vec(), b"2".to_vec(), 0),
            (b"h".to_vec(), b"3".to_vec(), 2_000_000_100_000),
        ]),
        Value::SortedSet(vec![(b"a".to_vec(), -1.5), (b"b".to_vec(), f64::INFINITY)]),
    ]
}

/// Every byte that is lost or changed is noticed, by the checksum at the latest.
#[test]
fn values_read_as_they_were_written_and_damage_is_noticed() {
    for value in values() {
        let payload = value.encode();
        assert_eq!(Value::decode(&payload), Ok(value));
        for at in (0..payload.len()).step_by(payload.len() / 50 + 1) {
            let mut damaged = payload.clone();
            damaged[at] ^= 0x55;
            assert!(Value::decode(&damaged).is_err(), "byte {at}");
            assert!(Value::decode(&payload[..at]).is_err(), "up to {at}");
            // Without a checksum, any outcome but a panic.
            let _ = is_value(&damaged[..damaged.len() - FOOTER_BYTES]);
        }
    }
}

/// Written by hand from the description of the encodings.
#[test]
fn packs_are_read() {
    let pack = |elements: &[&[u8]], count: u16| {
        let inner = elements.concat();
        let all = (inner.len() + 7) as u32;
        [
            &all.to_le_bytes()[..],
            &count.to_le_bytes(),
            &inner,
            &[0xFF],
        ]
        .concat()
    };
    let elements: &[&[u8]] = &[
        &[5, 1],
        &[0x83, b'a', b'b', b'c', 4],
        &[0xDF, 0xFF, 2],
        &[0xF1, 0x00, 0x80, 3],
        &[0xF2, 0xFF, 0xFF, 0xFF, 4],
        &[0xF4, 0, 0, 0, 0, 0, 0, 0, 0x80, 9],
    ];
    let expected = words(&["5", "abc", "-1", "-32768", "-1", "-9223372036854775808"]);
    assert_eq!(list_pack(&pack(elements, 6)), Some(expected));
    assert_eq!(list_pack(&pack(elements, 5)), None);
    let set = [
        &2u32.to_le_bytes()[..],
        &2u32.to_le_bytes(),
        &[1, 0, 0xFF, 0xFF],
    ]
    .concat();
    assert_eq!(int_set(&set), Some(words(&["1", "-1"])));
    assert_eq!(int_set(&set[..11]), None);
    let zipped = [0x0F, 0, 0, 0, 12, 0, 0, 0, 2, 0, 0, 0xF3, 2, 0x01, b'a'];
    let zipped = [&[16u8][..], &zipped[1..], &[0xFF]].concat();
    assert_eq!(zip_list(&zipped), Some(words(&["2", "a"])));
}

/// `aaaaaaaaaa`, compressed: a literal, and nine bytes from one before.
#[test]
fn compressed_strings_are_read() {
    let body = [0, 0xC3, 5, 10, 0, b'a', 0xE0, 0, 0];
    assert_eq!(
        decode_body(&body),
        Some(Value::String(b"aaaaaaaaaa".to_vec()))
    );
    let long = [0, 0xC3, 5, 11, 0, b'a', 0xE0, 0, 0];
    assert_eq!(decode_body(&long), None);
}

/// A field, its value and its time each; the first time stands in front.
#[test]
fn packs_of_fields_with_times_are_read() {
    let inner = [
        &[0x81, b'f', 2, 1, 1, 5, 1, 0x81, b'g', 2, 2, 1, 0, 1][..],
        &[0xFF],
    ]
    .concat();
    let all = (inner.len() + 6) as u32;
    let pack = [&all.to_le_bytes()[..], &6u16.to_le_bytes(), &inner].concat();
    let first = 5u64.to_le_bytes();
    let body = [&[25][..], &first, &[pack.len() as u8], &pack].concat();
    let field = |name: &str, value: &str, time| (name.into(), value.into(), time);
    let expected = Value::ExpiringHash(vec![field("f", "1", 5), field("g", "2", 0)]);
    assert_eq!(decode_body(&body), Some(expected));
}

#[test]
fn what_no_collection_can_have_is_refused() {
    for body in [
        &[SET, 0][..],
        &[SET, 2, 1, b'a', 1, b'a'],
        &[HASH, 1, 1, b'a'],
        &[LIST, 0x81, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        &[SORTED_SET, 1, 1, b'a', 0, 0, 0, 0, 0, 0, 0xF8, 0x7F],
        &[STRING, 1, b'a', b'b'],
        &[99],
    ] {
        assert_eq!(decode_body(body), None, "{body:?}");
    }
}
