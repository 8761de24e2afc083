//! What can be wrong with the metric settings.

/// The metrics could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// The prefix is no metric name.
    #[error("metrics.prefix {prefix:?} is no metric name; use letters, digits and _ and begin with a letter")]
    Prefix {
        /// What was given.
        prefix: String,
    },
    /// A constant label cannot be used.
    #[error("metrics.const_labels: label {label:?} {reason}; choose another name")]
    ConstLabel {
        /// The label's name.
        label: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// Two families got the same name, or a row of the catalogue contradicts its use.
    #[error("metric {name}: {reason}; choose another metrics.prefix")]
    Family {
        /// The family's name.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
}
