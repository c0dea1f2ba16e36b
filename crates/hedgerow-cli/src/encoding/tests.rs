use proptest::prelude::*;

use super::*;

const ALL: [Encoding; 3] = [Encoding::Text, Encoding::Hex, Encoding::Base64];

/// Any bytes, and such as are mostly text.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        any::<Vec<u8>>(),
        any::<String>().prop_map(String::into_bytes),
        "[a-z\\\\\\n\\t\\x00-\\x1fx0-9]{0,12}".prop_map(String::into_bytes),
    ]
}

proptest! {
    #[test]
    fn what_is_shown_can_be_given_back(bytes in bytes()) {
        for encoding in ALL {
            let text = encoding.encode(&bytes);
            prop_assert!(!text.chars().any(char::is_control), "{text:?}");
            prop_assert_eq!(encoding.decode(text.as_bytes()), Ok(bytes.clone()));
            let value = encoding.encode_json(&bytes);
            prop_assert_eq!(encoding.decode_json(value), Ok(bytes.clone()));
        }
    }

    #[test]
    fn any_text_is_bytes_or_refused(text in bytes()) {
        for encoding in ALL {
            if let Ok(bytes) = encoding.decode(&text) {
                prop_assert!(bytes.len() <= text.len());
            }
        }
    }
}

#[test]
fn text_stands_for_itself() {
    let shown = |bytes: &[u8]| Encoding::Text.encode(bytes);
    assert_eq!(shown("grün 木".as_bytes()), "grün 木");
    assert_eq!(shown(b"C:\\new\tline\n"), r"C:\\new\tline\n");
    assert_eq!(shown(b"\x00\x7f\xff"), r"\x00\x7f\xff");
    // A control character of more than one byte.
    assert_eq!(shown("\u{85}".as_bytes()), r"\xc2\x85");
}

#[test]
fn what_is_wrong_is_said() {
    let problem = |encoding: Encoding, text: &str| encoding.decode(text.as_bytes()).unwrap_err();
    assert!(problem(Encoding::Text, r"a\q").contains(r"found `\q`"));
    assert!(problem(Encoding::Text, r"a\x5").contains(r"found `\x5`"));
    assert!(problem(Encoding::Text, r"a\").contains(r"found `\`"));
    assert!(problem(Encoding::Hex, "abc").contains("expected hexadecimal digits, found `abc`"));
    assert!(problem(Encoding::Base64, "a").contains("expected base64, found `a`"));
    let problem = Encoding::Text.decode_json(json!(7)).unwrap_err();
    assert!(problem.contains("found 7"), "{problem}");
}

#[test]
fn json_holds_text_as_it_is() {
    assert_eq!(Encoding::Text.encode_json(br"C:\dir"), json!(r"C:\dir"));
    assert_eq!(
        Encoding::Text.encode_json(b"\xff"),
        json!({ "base64": "/w==" })
    );
    assert_eq!(Encoding::Hex.encode_json(b"\xff"), json!("ff"));
}
