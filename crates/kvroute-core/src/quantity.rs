//! Counts that must never be mixed: tokens and blocks.
//!
//! Both are whole and never negative. Differences that could fall below zero are spelled
//! [`Tokens::saturating_sub`], because a silent wrap in an accounting system is worse than a crash.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Sub, SubAssign};

/// A whole number of tokens: raw counts, never weighted by tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tokens(u64);

/// A whole number of complete KV blocks. Becomes tokens only through [`BlockSize::tokens`](crate::BlockSize::tokens).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Blocks(u64);

macro_rules! quantity {
    ($name:ident) => {
        // === impl $name ===

        impl $name {
            /// Nothing.
            pub const ZERO: Self = Self(0);

            /// Wraps a plain count.
            pub const fn new(count: u64) -> Self {
                Self(count)
            }

            /// The plain count, for a metric or the wire.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The difference, or zero where it would be negative.
            pub const fn saturating_sub(self, other: Self) -> Self {
                Self(self.0.saturating_sub(other.0))
            }

            /// True for zero.
            pub const fn is_zero(self) -> bool {
                self.0 == 0
            }
        }

        impl From<usize> for $name {
            fn from(count: usize) -> Self {
                Self(count as u64)
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }

        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }

        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }

        impl SubAssign for $name {
            fn sub_assign(&mut self, other: Self) {
                self.0 -= other.0;
            }
        }

        impl Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Add::add)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

quantity!(Tokens);
quantity!(Blocks);
