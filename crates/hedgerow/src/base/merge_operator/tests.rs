//! Every built-in operator is associative, and refuses what it cannot combine.

use proptest::prelude::*;

use super::*;

fn named(name: &str) -> KeyspaceOperator {
    Operators::default().named(name)
}

/// Operands that an operator accepts.
fn operands(name: &'static str) -> impl Strategy<Value = Vec<Vec<u8>>> {
    let one = move |bytes: Vec<u8>, number: i32| match name {
        "add_i64" => i64::from(number).to_le_bytes().to_vec(),
        // Sums of such floats are exact.
        "add_f64" => f64::from(number).to_le_bytes().to_vec(),
        "union_u64" => {
            let numbers = bytes.iter().map(|byte| u64::from(*byte).to_be_bytes());
            numbers.collect::<Vec<_>>().concat()
        }
        _ => bytes,
    };
    let any = (prop::collection::vec(any::<u8>(), 0..6), any::<i32>());
    prop::collection::vec(
        any.prop_map(move |(bytes, number)| one(bytes, number)),
        2..8,
    )
}

fn built_in() -> Vec<String> {
    Operators::default().0.keys().cloned().collect()
}

#[test]
fn built_in_operators_are_associative() {
    for name in built_in() {
        let name: &'static str = name.leak();
        let operator = named(name);
        proptest!(|(operands in operands(name), has_base: bool, at in 0usize..8)| {
            let (base, operands) = match has_base {
                // A value of the operator, so that it is in its form.
                true => (operator.full(b"k", None, &operands[..1]).unwrap(), &operands[1..]),
                false => (None, &operands[..]),
            };
            let at = at % operands.len();
            let together = operator.full(b"k", base.as_deref(), operands).unwrap();
            let some = operator.full(b"k", base.as_deref(), &operands[..at]).unwrap();
            let first = if at == 0 { base.clone() } else { some };
            let rest = operator.full(b"k", first.as_deref(), &operands[at..]).unwrap();
            prop_assert_eq!(&together, &rest, "{} in two steps", name);
            if let [first, second, rest @ ..] = operands {
                let pair = operator.partial(b"k", first, second).unwrap();
                let folded = [&[pair], rest].concat();
                let folded = operator.full(b"k", base.as_deref(), &folded).unwrap();
                prop_assert_eq!(&together, &folded, "{} of a pair", name);
            }
        });
    }
}

#[test]
fn built_in_operators_do_what_they_say() {
    let full = |name: &str, base: Option<&[u8]>, operands: &[&[u8]]| {
        named(name).full(b"k", base, operands).unwrap().unwrap()
    };
    let number = |n: i64| n.to_le_bytes();
    assert_eq!(
        full("add_i64", Some(&number(-7)), &[&number(5), &number(4)]),
        number(2)
    );
    assert_eq!(
        full("add_i64", Some(&number(i64::MAX)), &[&number(1)]),
        number(i64::MIN)
    );
    assert_eq!(
        full(
            "add_f64",
            None,
            &[&0.5f64.to_le_bytes(), &0.25f64.to_le_bytes()]
        ),
        0.75f64.to_le_bytes()
    );
    assert_eq!(full("min", Some(b"b"), &[b"c", b"ab"]), b"ab");
    assert_eq!(full("max", None, &[b"b", b"ca", b"c"]), b"ca");
    assert_eq!(full("append", Some(b"a"), &[b"", b"bc"]), b"abc");
    assert_eq!(full("bit_and", Some(&[6, 1]), &[&[3]]), [2, 0]);
    assert_eq!(full("bit_or", Some(&[6]), &[&[1, 8]]), [7, 8]);
    assert_eq!(full("bit_xor", None, &[&[6], &[3]]), [5]);
    let set = |numbers: &[u64]| {
        numbers
            .iter()
            .map(|n| n.to_be_bytes())
            .collect::<Vec<_>>()
            .concat()
    };
    assert_eq!(
        full("union_u64", Some(&set(&[3, 9])), &[&set(&[9, 1])]),
        set(&[1, 3, 9])
    );
}

#[test]
fn wrong_operands_and_values_are_refused() {
    let refused = named("add_i64").check(b"123").unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(
        refused
            .to_string()
            .contains("expected a number of 8 bytes, found 3 bytes")
    );
    let value = named("add_i64").full(b"k\xff", Some(b"123"), &[1_i64.to_le_bytes()]);
    let error = value.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Operator);
    assert!(error.to_string().contains("`k\\xff`"), "{error}");
    assert!(named("union_u64").check(&[0; 12]).is_err());
}

#[test]
fn an_operator_gets_a_bounded_number_of_operands() {
    struct Counting;
    impl MergeOperator for Counting {
        fn name(&self) -> &str {
            "counting"
        }
        fn full(
            &self,
            _key: &[u8],
            base: Option<&[u8]>,
            operands: &[&[u8]],
        ) -> std::result::Result<Option<Vec<u8>>, MergeError> {
            assert!(operands.len() <= OPERANDS_AT_ONCE_MAX);
            let before = base.map_or(0, |it| u64::from_le_bytes(it.try_into().unwrap()));
            Ok(Some(
                (before + operands.len() as u64).to_le_bytes().to_vec(),
            ))
        }
    }
    let mut operators = Operators::default();
    operators.add(Arc::new(Counting));
    let counted = operators
        .named("counting")
        .full(b"k", None, &vec![b""; 5000]);
    assert_eq!(counted.unwrap().unwrap(), 5000_u64.to_le_bytes());
}
