use super::super::bits::Bits;
use super::super::samples::text;
use super::*;

/// The codewords of nodes of 2 to 16 keys, by the keys on the left, as the reference prints them.
const STRONG: &str = "\
10 0 11
100 11 0 101
000 01 11 10 001
0100 011 10 11 00 0101
00100 0011 01 11 10 000 00101
110100 11011 111 01 10 00 1100 110101
1110100 111011 1111 00 10 01 110 11100 1110101
0010100 001011 0011 110 01 10 111 000 00100 0010101
01010100 0101011 01011 011 111 10 00 110 0100 010100 01010101
101010100 10101011 101011 1011 110 00 01 111 100 10100 1010100 101010101
1101010100 110101011 1101011 11011 100 111 01 00 101 1100 110100 11010100 1101010101
1001010100 100101011 1001011 10011 1110 101 00 01 110 1111 1000 100100 10010100 1001010101
110101010100 11010101011 110101011 1101011 11011 100 111 01 00 101 1100 110100 11010100 1101010100 110101010101
100101010100 10010101011 100101011 1001011 10011 1110 101 00 01 110 1111 1000 100100 10010100 1001010100 100101010101
010101010100 01010101011 010101011 0101011 01011 1010 011 110 00 111 100 1011 0100 010100 01010100 0101010100 010101010101";

fn node(keys: usize, left: usize) -> String {
    let mut out = BitWriter::default();
    put_node(&mut out, keys, left);
    text(out.bytes(), out.bits())
}

/// T1 of the entropy-coded trie.
#[test]
fn codewords_are_those_of_the_reference() {
    for (keys, line) in (2..).zip(STRONG.lines()) {
        let expected: Vec<_> = line.split(' ').collect();
        let found: Vec<_> = (0..=keys).map(|left| node(keys, left)).collect();
        assert_eq!(found, expected, "{keys} keys");
    }
    for (left, expected) in [
        (8, "1"),
        (9, "011"),
        (7, "010"),
        (0, "000010000"),
        (17, "000010011"),
    ] {
        assert_eq!(node(17, left), expected);
    }
}

#[test]
fn every_node_is_read_back_whatever_follows() {
    for keys in (2..200).chain([1000, 65_535, 1 << 20]) {
        for left in (0..=keys).step_by(1 + keys / 300) {
            for filler in [0, 0xFFFF] {
                let mut out = BitWriter::default();
                put_node(&mut out, keys, left);
                let end = out.bits();
                out.put(filler, 16);
                let mut cursor = Bits(out.bytes()).cursor(0);
                assert_eq!((take_node(&mut cursor, keys), cursor.at), (left, end));
            }
        }
    }
}

#[test]
fn integers_are_read_back() {
    let mut out = BitWriter::default();
    let values: Vec<usize> = (0..70).chain([1000, 12_345, 1 << 20]).collect();
    for &value in &values {
        put_gamma(&mut out, value);
        put_jump(&mut out, value, 6);
        put_rice(&mut out, value.min(65));
    }
    let mut cursor = Bits(out.bytes()).cursor(0);
    for &value in &values {
        assert_eq!(take_gamma(&mut cursor), value);
        assert_eq!(take_jump(&mut cursor, 6), value);
        assert_eq!(take_rice(&mut cursor), value.min(65));
    }
    assert_eq!(cursor.at, out.bits());
}
