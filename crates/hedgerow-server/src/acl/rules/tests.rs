use super::*;

fn rules(text: &str) -> Rules {
    let mut rules = Rules::new(false);
    let words: Vec<&[u8]> = text.split(' ').map(str::as_bytes).collect();
    rules.apply_all(&words, false).unwrap();
    rules
}

fn check(rules: &Rules, call: &str) -> Result<(), Denied> {
    let args: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
    rules.check(find(args[0]).unwrap(), &args)
}

#[test]
fn the_last_rule_about_a_command_counts() {
    let denied = Err(Denied::Command);
    let user = rules("+@all -@string +incr -config +config|get ~*");
    for (call, allowed) in [
        ("sadd k v", true),
        ("set k v", false),
        ("incr k", true),
        ("config get x", true),
        ("CONFIG SET x y", false),
    ] {
        assert_eq!(
            check(&user, call),
            if allowed { Ok(()) } else { denied.clone() },
            "{call}"
        );
    }
    assert_eq!(
        user.root().commands,
        b"+@all -@string +incr -config +config|get"
    );
}

#[test]
fn one_selector_must_allow_the_whole_call() {
    let user = rules("(%R~read* +@all) (%W~write* +@all)");
    assert_eq!(check(&user, "get read"), Ok(()));
    assert_eq!(check(&user, "lpush write v"), Ok(()));
    assert_eq!(
        check(&user, "copy read write"),
        Err(Denied::Key(b"write".to_vec()))
    );
    let user = rules("%R~read* %W~write* +@all");
    assert_eq!(check(&user, "copy read write"), Ok(()));
    assert_eq!(
        check(&user, "copy write read"),
        Err(Denied::Key(b"write".to_vec()))
    );
    assert_eq!(
        check(&user, "set writes v get"),
        Err(Denied::Key(b"writes".to_vec()))
    );
    assert_eq!(
        check(&user, "publish c m"),
        Err(Denied::Channel(b"c".to_vec()))
    );
}

#[test]
fn rules_that_are_written_read_as_the_same() {
    for text in [
        "off resetchannels -@all",
        "on nopass ~a* %R~b resetchannels &c +@all -debug (~x resetchannels -@all +get)",
        "on nopass ~* &* -@all +select|0",
    ] {
        assert_eq!(rules(text).text(), text.as_bytes());
    }
}

#[test]
fn passwords_are_kept_as_hashes() {
    let mut user = rules("on >secret");
    assert!(user.accepts(b"secret") && !user.accepts(b"") && !user.accepts(b"secre"));
    let hash = user.hashes().next().unwrap();
    assert_eq!(
        hash,
        "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
    );
    user.apply_all(&[b"<secret"], false).unwrap();
    assert!(!user.accepts(b"secret"));
    assert!(user.apply_all(&[b"<secret"], false).is_err());
}

#[test]
fn wrong_modifiers_say_what_is_wrong() {
    for (modifier, reason) in [
        (
            "+config|get|x",
            "Allowing first-arg of a subcommand is not supported",
        ),
        ("+get|a|b", UNKNOWN),
        ("-config|none", UNKNOWN),
        ("%X~a", SYNTAX),
        ("(", "Unmatched parenthesis"),
        (")", SYNTAX),
        ("#12", "must be exactly 64 characters"),
    ] {
        let error = Rules::new(false)
            .apply_all(&[modifier.as_bytes()], false)
            .unwrap_err();
        assert!(error.contains(reason), "{modifier}: {error}");
    }
}
