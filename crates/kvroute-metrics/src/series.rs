//! A metric family whose series belong to somebody.
//!
//! Children are kept under their whole label values, not under a hash of them: worker `w1` rank `11` and
//! worker `w11` rank `1` must never share a series. And each series counts its owners: a worker that comes
//! back while its predecessor is still being torn down keeps its series, and the last owner to go takes the
//! series along, so that churn leaves nothing behind.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use prometheus::core::{Collector, Desc, Metric};
use prometheus::proto::{MetricFamily, MetricType};
use prometheus::{Counter, Gauge, Histogram, HistogramOpts, IntCounter, IntGauge, Opts, Registry};

use crate::{Kind, MetricsError, Row};

/// The label values of one series.
type Values<const N: usize> = [Box<str>; N];

/// A metric that can stand as one series of a family.
pub(crate) trait Series: Metric + 'static {
    /// What the catalogue must say of the family.
    const KIND: Kind;
    /// A fresh series at zero.
    fn create(opts: Opts, buckets: &[f64]) -> prometheus::Result<Self>;
}

/// All series of one row of the catalogue, with `N` labels.
pub(crate) struct Family<M: Series, const N: usize> {
    inner: Arc<Inner<M, N>>,
}

/// Holds series alive; closing or dropping it removes those that nobody else holds.
#[derive(Default)]
pub(crate) struct Scope {
    owned: Mutex<Vec<Box<dyn Send + Sync>>>,
}

struct Inner<M: Series, const N: usize> {
    row: &'static Row,
    desc: Desc,
    series: Mutex<BTreeMap<Values<N>, Owned<M>>>,
}

struct Owned<M> {
    metric: M,
    owners: usize,
}

struct Owner<M: Series, const N: usize> {
    family: Arc<Inner<M, N>>,
    values: Values<N>,
}

// === impl Series ===

impl Series for IntCounter {
    const KIND: Kind = Kind::Counter;
    fn create(opts: Opts, _: &[f64]) -> prometheus::Result<Self> {
        Self::with_opts(opts)
    }
}

impl Series for Counter {
    const KIND: Kind = Kind::Counter;
    fn create(opts: Opts, _: &[f64]) -> prometheus::Result<Self> {
        Self::with_opts(opts)
    }
}

impl Series for IntGauge {
    const KIND: Kind = Kind::Gauge;
    fn create(opts: Opts, _: &[f64]) -> prometheus::Result<Self> {
        Self::with_opts(opts)
    }
}

impl Series for Gauge {
    const KIND: Kind = Kind::Gauge;
    fn create(opts: Opts, _: &[f64]) -> prometheus::Result<Self> {
        Self::with_opts(opts)
    }
}

impl Series for Histogram {
    const KIND: Kind = Kind::Histogram;
    fn create(opts: Opts, buckets: &[f64]) -> prometheus::Result<Self> {
        Self::with_opts(HistogramOpts::from(opts).buckets(buckets.to_vec()))
    }
}

// === impl Family ===

impl<M: Series, const N: usize> Family<M, N> {
    /// Registers the family of a row under its name with the prefix.
    pub(crate) fn register(
        registry: &Registry,
        row: &'static Row,
        prefix: &str,
    ) -> Result<Self, MetricsError> {
        let name = row.exposed_name(prefix);
        let refuse = |reason: String| MetricsError::Family { name: name.clone(), reason };
        if row.kind != M::KIND || row.labels.len() != N {
            return Err(refuse("the catalogue has another kind or number of labels".to_owned()));
        }
        let labels = row.labels.iter().map(|label| label.name.to_owned()).collect();
        let desc = Desc::new(name.clone(), row.help.to_owned(), labels, HashMap::new())
            .map_err(|error| refuse(error.to_string()))?;
        let inner = Arc::new(Inner { row, desc, series: Mutex::new(BTreeMap::new()) });
        inner.create(&std::array::from_fn(|_| Box::from(""))).map_err(|error| refuse(error.to_string()))?;
        let family = Self { inner };
        registry.register(Box::new(family.clone())).map_err(|error| refuse(error.to_string()))?;
        Ok(family)
    }
}

impl<M: Series, const N: usize> Clone for Family<M, N> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<M: Series, const N: usize> fmt::Debug for Family<M, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Family({})", self.inner.desc.fq_name)
    }
}

impl<M: Series, const N: usize> Collector for Family<M, N> {
    fn desc(&self) -> Vec<&Desc> {
        vec![&self.inner.desc]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut family = MetricFamily::default();
        family.set_name(self.inner.desc.fq_name.clone());
        family.set_help(self.inner.desc.help.clone());
        family.set_field_type(match M::KIND {
            Kind::Counter => MetricType::COUNTER,
            Kind::Gauge => MetricType::GAUGE,
            Kind::Histogram => MetricType::HISTOGRAM,
        });
        family.set_metric(self.inner.locked().values().map(|owned| owned.metric.metric()).collect());
        vec![family]
    }
}

// === impl Scope ===

impl Scope {
    /// The series of these label values, created at zero if it is new, and held until the scope is dropped.
    pub(crate) fn hold<M: Series, const N: usize>(&mut self, family: &Family<M, N>, values: [&str; N]) -> M {
        let values = values.map(Box::from);
        let metric = family.inner.acquire(&values);
        self.owned.get_mut().push(Box::new(Owner { family: Arc::clone(&family.inner), values }));
        metric
    }

    /// Lets the series go now, whoever still holds their handles: what is added to those goes nowhere.
    pub(crate) fn close(&self) {
        let owned = std::mem::take(&mut *self.owned.lock());
        drop(owned);
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Scope({} series)", self.owned.lock().len())
    }
}

// === impl Inner ===

impl<M: Series, const N: usize> Inner<M, N> {
    /// The one lock that a scrape takes: whoever creates or removes series waits for it, and no request may.
    fn locked(&self) -> MutexGuard<'_, BTreeMap<Values<N>, Owned<M>>> {
        #[cfg(test)]
        tests::locks::count_one();
        self.series.lock()
    }

    #[expect(clippy::expect_used, reason = "registering the family created a series by way of trial")]
    fn acquire(&self, values: &Values<N>) -> M {
        let mut series = self.locked();
        let owned = series.entry(values.clone()).or_insert_with(|| {
            let metric = self.create(values).expect("a registered family has valid names and buckets");
            Owned { metric, owners: 0 }
        });
        owned.owners += 1;
        owned.metric.clone()
    }

    fn release(&self, values: &Values<N>) {
        let mut series = self.locked();
        if let Some(owned) = series.get_mut(values) {
            owned.owners -= 1;
            if owned.owners == 0 {
                series.remove(values);
            }
        }
    }

    fn create(&self, values: &Values<N>) -> prometheus::Result<M> {
        let names = self.row.labels.iter().map(|label| label.name.to_owned());
        let labels: HashMap<String, String> =
            names.zip(values.iter().map(|value| value.to_string())).collect();
        let opts = Opts::new(self.desc.fq_name.clone(), self.desc.help.clone()).const_labels(labels);
        M::create(opts, self.row.buckets)
    }
}

// === impl Owner ===

impl<M: Series, const N: usize> Drop for Owner<M, N> {
    fn drop(&mut self) {
        self.family.release(&self.values);
    }
}

#[cfg(test)]
pub(crate) mod tests;
