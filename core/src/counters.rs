//! How counters are written down: a struct of plain numbers that only grow, and the way through all of them
//! by name, so that metrics forget none. Counts nothing itself. Each machine's counters are in its
//! `protocol::counters`.

/// Writes a struct of counters: the name of who counts, then the fields. Its `iter` names each counter with
/// that name in front.
macro_rules! counters {
    ($(#[$about:meta])* $owner:literal: pub struct $name:ident { $($(#[$doc:meta])* pub $counter:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[allow(missing_docs, reason = "each name says what is counted")]
        #[non_exhaustive]
        pub struct $name {
            $($(#[$doc])* pub $counter: u64,)*
        }

        impl $name {
            /// Every counter with its name, in the order of their declaration.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((concat!($owner, "_", stringify!($counter)), self.$counter)),*].into_iter()
            }
        }
    };
}

pub(crate) use counters;
