//! Frames that no sender of this version writes.

use hedgerow::ErrorKind;

use super::{Reader, Receiver, Sender, code};

/// A commit of one change.
fn commit(code: u8, fields: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sender = Sender {
        out: &mut bytes,
        number: 2,
        after: 1,
        payload: Vec::new(),
    };
    sender.begin();
    sender.put(code, fields).unwrap();
    sender.finish(true).unwrap();
    bytes
}

#[test]
fn a_code_out_of_its_place_is_refused() {
    let outside_of_a_load: [(u8, &[&[u8]]); 4] = [
        (code::END_OF_LOAD, &[]),
        (code::DELETE_ENTRY, &[b"a"]),
        (code::MERGE_ENTRY, &[b"a", b"b"]),
        (code::PUT_ENTRY, &[b"a", b"b", b""]),
    ];
    for (code, fields) in outside_of_a_load {
        let bytes = commit(code, fields);
        let mut input = bytes.as_slice();
        let mut reader = Reader::new(&mut input);
        let frame = reader.next().unwrap().unwrap();
        let error = Receiver::new(&mut reader, frame).change().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Corruption, "{code}: {error}");
    }
}
