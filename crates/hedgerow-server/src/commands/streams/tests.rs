use crate::commands::world::World;

/// Redis reads ids as C reads numbers.
#[test]
fn ids_may_begin_with_blanks_and_a_sign() {
    let world = World::new();
    for (words, expected) in [
        ("XADD s \t1 f v", "1-0"),
        ("XADD s +2 f v", "2-0"),
        ("XADD s 3-\t+4 f v", "3-4"),
        ("XRANGE s (\t+2 +", "3-4 f v"),
        ("XDEL s +1-+0", "1"),
    ] {
        assert_eq!(world.run(words), expected, "{words:?}");
    }
    for id in ["", "\t", "++5", "5\t", "5-+", "+-5"] {
        let reply = world.run(&format!("XADD s {id} f v"));
        assert!(reply.contains("Invalid stream ID"), "{id:?}: {reply}");
    }
}
