//! Sets of names that never grow at run time: what may become a metric label.

/// Declares a closed set: the enum, its values in order, and the text of each.
#[macro_export]
macro_rules! closed_label {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $value:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)+
        }

        impl $name {
            /// The text of every value, in order.
            pub const VALUES: &'static [&'static str] = &[$($value,)+];

            /// Every value, in order.
            pub const ALL: [Self; Self::VALUES.len()] = [$(Self::$variant,)+];

            /// The label value.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $value,)+
                }
            }
        }
    };
}
