//! A whole router in this process: its sockets, its tasks, and how it stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use kvroute_metrics::{Metrics, MetricsError, MetricsOptions};
use kvroute_router::{Router, RouterConfig, RouterError, RouterPlan};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admin_plane::AdminPlane;
use crate::data_plane::DataPlane;
use crate::keys::ApiKeys;
use crate::listener::{ListenError, Listener};
use crate::trust::TrustedNetworks;
use crate::{admin_plane, data_plane};

/// How long the admin plane may take to finish its last scrape.
const ADMIN_DRAIN: Duration = Duration::from_secs(2);

/// Everything a running router is told, already validated.
#[derive(Clone, Debug)]
pub struct ServeConfig {
    /// Address of the data plane; port 0 takes a free one.
    pub listen: SocketAddr,
    /// Address of the admin plane; port 0 takes a free one.
    pub admin_listen: SocketAddr,
    /// Networks of the callers that may steer the selection, and see where their requests went and why.
    pub trusted: Vec<IpNet>,
    /// Keys of those who may ask; `None` is open to all.
    pub api_keys: Option<ApiKeys>,
    /// Largest accepted request body in bytes.
    pub max_body: usize,
    /// How long streams may go on after a stop.
    pub drain: Duration,
    /// Names and constant labels of the metrics.
    pub metrics: MetricsOptions,
    /// Pools and workers.
    pub router: RouterConfig,
}

/// Why a router did not start. Nothing is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A socket could not be opened.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The metrics' names or labels are unusable.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// A pool cannot work as configured.
    #[error(transparent)]
    Router(#[from] RouterError),
}

/// A running router.
#[derive(Debug)]
pub struct Server {
    data_address: SocketAddr,
    admin_address: SocketAddr,
    router: Arc<Router>,
    stop_data: CancellationToken,
    stop_admin: CancellationToken,
    planes: TaskTracker,
    data_drained: TaskTracker,
}

// === impl Server ===

impl Server {
    /// Checks the pools, binds both sockets, starts the pools and serves.
    pub async fn start(config: ServeConfig) -> Result<Self, StartError> {
        let plan = RouterPlan::new(config.router)?;
        let data = Listener::bind(config.listen, "server.listen").await?;
        let data = data.trusting(TrustedNetworks::new(&config.trusted));
        let admin = Listener::bind(config.admin_listen, "server.admin_listen").await?;
        let metrics = Metrics::new(&config.metrics)?;
        let router = Arc::new(Router::start(plan, metrics)?);
        let server = Self {
            data_address: data.address(),
            admin_address: admin.address(),
            router: Arc::clone(&router),
            stop_data: CancellationToken::new(),
            stop_admin: CancellationToken::new(),
            planes: TaskTracker::new(),
            data_drained: TaskTracker::new(),
        };
        let plane =
            DataPlane { router: Arc::clone(&router), keys: config.api_keys, max_body: config.max_body };
        let data_app = data_plane::app(plane);
        let cutting = Arc::clone(&router);
        let cut_streams = move || cutting.cut_streams();
        server.data_drained.spawn(data.serve(data_app, server.stop_data.clone(), config.drain, cut_streams));
        let admin_app = admin_plane::app(AdminPlane { router, max_body: config.max_body });
        server.planes.spawn(admin.serve(admin_app, server.stop_admin.clone(), ADMIN_DRAIN, || {}));
        tracing::info!(listen = %server.data_address, admin = %server.admin_address, "serving");
        Ok(server)
    }

    /// Address of the data plane, with its real port.
    pub const fn data_address(&self) -> SocketAddr {
        self.data_address
    }

    /// Address of the admin plane, with its real port.
    pub const fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// The router behind both planes.
    pub fn router(&self) -> &Arc<Router> {
        &self.router
    }

    /// Stops accepting, lets streams finish for at most the drain time, then ends every task.
    ///
    /// The admin plane outlives the data plane, so that the last numbers can still be scraped.
    pub async fn stop(self) {
        self.router.begin_stop();
        self.stop_data.cancel();
        self.data_drained.close();
        self.data_drained.wait().await;
        self.stop_admin.cancel();
        self.planes.close();
        self.planes.wait().await;
        self.router.stop().await;
    }
}
