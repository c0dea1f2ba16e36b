//! The text of options that are names without numbers.

/// `Display` and `FromStr` of an enum of names.
macro_rules! named {
    ($type:ident, $what:literal, $($name:literal => $variant:ident),+) => {
        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self { $($type::$variant => $name),+ })
            }
        }

        impl std::str::FromStr for $type {
            type Err = crate::base::error::Error;

            #[doc = concat!("One of", $(" `", $name, "`"),+, ".")]
            fn from_str(spec: &str) -> crate::base::error::Result<Self> {
                match spec {
                    $($name => Ok($type::$variant),)+
                    _ => Err(crate::base::error::Error::invalid(format!(
                        "expected {}, one of {}; found `{spec}`",
                        $what,
                        [$($name),+].join(", "),
                    ))),
                }
            }
        }
    };
}

pub(super) use named;
