//! What is measured, what is to be reached, and how good a figure is.

/// One line of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantity {
    LookupHalf,
    LookupP99,
    SharedHalf,
    SharedP99,
    BusyHalf,
    BusyP99,
    Store,
    BusyStore,
    Remove,
    Bytes,
}

/// What a figure must reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    AtMost(f64),
    /// So many times the best other index of the same run.
    TimesBest(f64),
}

/// Size of one comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cell {
    /// Blocks of a prompt.
    pub(crate) prompt: usize,
    pub(crate) workers: usize,
}

// === impl Quantity ===

impl Quantity {
    pub(crate) const ALL: [Self; 10] = [
        Self::LookupHalf,
        Self::LookupP99,
        Self::SharedHalf,
        Self::SharedP99,
        Self::BusyHalf,
        Self::BusyP99,
        Self::Store,
        Self::BusyStore,
        Self::Remove,
        Self::Bytes,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::LookupHalf => "lookup p50, us",
            Self::LookupP99 => "lookup p99, us",
            Self::SharedHalf => "held by all: lookup p50, us",
            Self::SharedP99 => "held by all: lookup p99, us",
            Self::BusyHalf => "while storing: lookup p50, us",
            Self::BusyP99 => "while storing: lookup p99, us",
            Self::Store => "store, M blocks/s",
            Self::BusyStore => "store under lookups, M blocks/s",
            Self::Remove => "remove, M blocks/s",
            Self::Bytes => "live bytes an entry",
        }
    }

    /// How many times as good one figure is as another.
    pub(crate) fn ratio(self, figure: f64, other: f64) -> f64 {
        if self.is_rate() { figure / other } else { other / figure }
    }

    pub(crate) fn best(self, figures: impl Iterator<Item = f64>) -> f64 {
        let better = if self.is_rate() { f64::max } else { f64::min };
        figures.fold(f64::NAN, better)
    }

    /// What the project wants to reach in a cell; some quantities are only shown.
    pub(crate) fn goal(self, cell: Cell) -> Option<Goal> {
        let is_fleet = cell.workers >= 1000;
        match self {
            Self::LookupHalf if is_fleet => Some(Goal::AtMost(2.0)),
            Self::SharedHalf if is_fleet => Some(Goal::AtMost(2.0)),
            Self::LookupHalf => Some(Goal::AtMost(0.30)),
            Self::LookupP99 if !is_fleet => Some(Goal::AtMost(0.70)),
            Self::BusyP99 if !is_fleet => Some(Goal::AtMost(1.2)),
            Self::Store => Some(Goal::TimesBest(1.3)),
            Self::Remove => Some(Goal::TimesBest(1.4)),
            Self::Bytes if !is_fleet => Some(Goal::AtMost(if cell.prompt < 16 { 40.0 } else { 24.0 })),
            _ => None,
        }
    }

    const fn is_rate(self) -> bool {
        matches!(self, Self::Store | Self::BusyStore | Self::Remove)
    }
}

// === impl Goal ===

impl Goal {
    pub(crate) fn is_reached(self, figure: f64, ratio: f64) -> bool {
        match self {
            Self::AtMost(most) => figure <= most,
            Self::TimesBest(times) => ratio >= times,
        }
    }

    pub(crate) fn describe(self) -> String {
        match self {
            Self::AtMost(most) => format!("<= {most}"),
            Self::TimesBest(times) => format!("{times} x best"),
        }
    }
}

/// The one in the middle; of an even number the upper one.
pub(crate) fn median(figures: &[f64]) -> f64 {
    let mut known: Vec<f64> = figures.iter().copied().filter(|figure| !figure.is_nan()).collect();
    known.sort_by(f64::total_cmp);
    known.get(known.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn better_means_more_for_a_rate_and_less_for_a_time() {
        assert_eq!(Quantity::Store.ratio(3.0, 2.0), 1.5);
        assert_eq!(Quantity::LookupP99.ratio(2.0, 3.0), 1.5);
        assert_eq!(Quantity::Store.best([1.0, f64::NAN, 2.0].into_iter()), 2.0);
        assert_eq!(Quantity::Bytes.best([3.0, 2.0].into_iter()), 2.0);
    }

    #[test]
    fn the_median_ignores_what_was_not_measured() {
        assert_eq!(median(&[3.0, f64::NAN, 1.0, 2.0]), 2.0);
        assert!(median(&[f64::NAN]).is_nan());
    }
}
