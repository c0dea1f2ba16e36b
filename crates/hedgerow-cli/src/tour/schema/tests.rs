use super::*;

fn link() -> Attributes {
    Attributes {
        id: 300,
        inode: u64::MAX,
        device: 2049,
        special: 0,
        mode: 0o120_777,
        owner: u32::MAX,
        group: 0,
        links: 1,
        size: 1 << 40,
        mtime: (-1, 999_999_999),
        ctime: (i64::MAX, 0),
        target: b"../x \xFF\n".to_vec(),
    }
}

#[test]
fn attributes_come_back_as_they_were() {
    let file = Attributes {
        mode: 0o100_644,
        target: Vec::new(),
        mtime: (i64::MIN, 0),
        ..link()
    };
    for attributes in [link(), file] {
        let decoded = Attributes::decode(&attributes.encode()).unwrap();
        assert_eq!(decoded, attributes);
    }
}

#[test]
fn the_examples_of_the_module_comment_hold() {
    let mut out = Vec::new();
    put_number(&mut out, 0o100_644);
    put_number(&mut out, zigzag(-1));
    assert_eq!(out, [0xa4, 0x83, 0x02, 0x01]);
}

#[test]
fn damaged_attributes_are_refused() {
    let whole = link().encode();
    let fixed = whole.len() - link().target.len();
    for end in 0..fixed {
        assert!(Attributes::decode(&whole[..end]).is_err(), "{end}");
    }
    assert!(
        Attributes::decode(&[1; 100]).is_err(),
        "no link, but a target"
    );
    assert!(Attributes::decode(&[0xFF; 100]).is_err());
    assert!(split_entry_key(b"seven b").is_err());
}

#[test]
fn entries_of_a_directory_are_neighbours() {
    let mut keys = [
        entry_key(256, b""),
        entry_key(2, b"b"),
        entry_key(2, b"a"),
        entry_key(3, b""),
    ];
    keys.sort();
    assert_eq!(
        keys.map(|key| split_entry_key(&key).unwrap().0),
        [2, 2, 3, 256]
    );
}

#[test]
fn modes_are_shown_as_usual() {
    let shown = |mode| Attributes { mode, ..link() }.mode_shown();
    assert_eq!(shown(0o120_777), "lrwxrwxrwx");
    assert_eq!(shown(0o041_777), "drwxrwxrwt");
    assert_eq!(shown(0o104_644), "-rwSr--r--");
}
